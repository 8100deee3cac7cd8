// A consumer that fails, with Watermill's poison queue and, if REQUEUE is set, its requeuer.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/components/requeuer"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

var (
	errRefused = errors.New("order refused: no such customer")
	errBusy    = errors.New("order delayed: customer is locked")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	logger := watermill.NewSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return err
	}
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: []string{os.Getenv("BROKERS")}, Marshaler: kafka.DefaultMarshaler{},
	}, logger)
	if err != nil {
		return err
	}
	poison, err := middleware.PoisonQueue(publisher, os.Getenv("DEAD_LETTERS"))
	if err != nil {
		return err
	}
	router.AddMiddleware(poison)
	if os.Getenv("REQUEUE") != "" {
		if err := requeue(router, publisher, logger); err != nil {
			return err
		}
	}
	source, err := subscriber(os.Getenv("GROUP"), logger)
	if err != nil {
		return err
	}
	router.AddConsumerHandler("orders", os.Getenv("SOURCE"), source, refuse)
	return router.Run(ctx)
}

// refuse fails for good, but when messages are requeued it fails the first time in another way.
func refuse(m *message.Message) error {
	if os.Getenv("REQUEUE") != "" && m.Metadata.Get(requeuer.RetriesKey) == "" {
		return errBusy
	}
	return errRefused
}

// requeue sends the messages that failed for the first time back to their topic.
func requeue(router *message.Router, publisher message.Publisher, logger watermill.LoggerAdapter) error {
	topic := os.Getenv("DEAD_LETTERS") + ".requeue"
	poison, err := middleware.PoisonQueueWithFilter(publisher, topic, func(err error) bool { return errors.Is(err, errBusy) })
	if err != nil {
		return err
	}
	router.AddMiddleware(poison)
	delayed, err := subscriber(os.Getenv("GROUP")+"-requeuer", logger)
	if err != nil {
		return err
	}
	_, err = requeuer.NewRequeuer(requeuer.Config{
		Router: router, Subscriber: delayed, SubscribeTopic: topic, Publisher: publisher,
		GeneratePublishTopic: func(p requeuer.GeneratePublishTopicParams) (string, error) {
			return p.Message.Metadata.Get(middleware.PoisonedTopicKey), nil
		},
	}, logger)
	return err
}

// subscriber reads topics from the start. It creates those that do not exist.
func subscriber(group string, logger watermill.LoggerAdapter) (message.Subscriber, error) {
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = -2 // oldest
	return kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: []string{os.Getenv("BROKERS")}, ConsumerGroup: group,
		Unmarshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: settings,
	}, logger)
}
