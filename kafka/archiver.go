package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

const (
	// archiveInterval is how often the Archiver looks for exhausted messages.
	archiveInterval = 3 * time.Second

	// archiveTurn is how long messages of a topic are published before the next topic has its turn.
	archiveTurn = 10 * time.Second
)

// ExhaustedStore has the exhausted messages that must still be published.
type ExhaustedStore interface {
	// ExhaustedTopics returns the dead-letter topics of the exhausted messages.
	ExhaustedTopics(ctx context.Context) ([]string, error)
	// PublishExhausted calls publish with a topic's first messages that come after the given message. It
	// forgets the messages for which publish returns true, and returns all messages of the call. While
	// another call publishes, the error is dlq.ErrBlocked.
	PublishExhausted(ctx context.Context, topic string, after dlq.Exhausted, publish func([]dlq.Exhausted) []bool) ([]dlq.Exhausted, error)
}

// Archiver publishes exhausted messages to the archive topics. Each message is published once. But if the
// process dies after a publish, the message is published again, with the same id. Several archivers may run
// at once.
type Archiver struct {
	publisher *Publisher
	store     ExhaustedStore
	archives  *dlq.ArchiveTopics
	log       *zap.Logger
	published *prometheus.CounterVec
	failed    *prometheus.CounterVec
	labels    dlq.TopicLabels
	walks     map[string]*walk // of each topic in the outbox
	logged    hourly
}

// NewArchiver returns an archiver that uses the publisher's connections.
func NewArchiver(publisher *Publisher, store ExhaustedStore, archives *dlq.ArchiveTopics, log *zap.Logger, reg prometheus.Registerer) *Archiver {
	a := &Archiver{publisher: publisher, store: store, archives: archives, log: log,
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_exhausted_published_total",
			Help: "Exhausted messages published to their archive topic, by dead-letter topic. Topics beyond the first 1000 are counted as \"other\".",
		}, []string{"topic"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_exhausted_failed_total",
			Help: "Attempts to publish an exhausted message that failed, by dead-letter topic and category of the error. " +
				"Topics beyond the first 1000 are counted as \"other\".",
		}, []string{"topic", "category"})}
	reg.MustRegister(a.published, a.failed)
	return a
}

// Run publishes until ctx ends. A running publish is completed.
func (a *Archiver) Run(ctx context.Context) {
	every(ctx, archiveInterval, a.publishAll)
}

// warn logs why messages wait, once an hour for each topic and category of errors.
func (a *Archiver) warn(ctx context.Context, topic string, err error) {
	if ctx.Err() == nil && a.logged.isDue(topic+" "+string(dlq.CategoryOf(err))) {
		a.log.Warn("exhausted messages wait for their archive topic; trying again", zap.String("topic", topic), zap.Error(err))
	}
}

// publishAll gives a turn to each topic that is due. A topic that fails does not stop the later topics.
func (a *Archiver) publishAll(ctx context.Context) {
	topics, err := a.store.ExhaustedTopics(ctx)
	if err != nil {
		a.warn(ctx, "", err)
		return
	}
	archives := a.dueTopics(ctx, topics)
	unusable, err := a.unusable(ctx, archives)
	if err != nil {
		a.warn(ctx, "", err)
		return
	}
	for _, topic := range slices.Sorted(maps.Keys(archives)) {
		archive := archives[topic]
		if err := unusable[archive]; err != nil {
			a.warn(ctx, topic, fmt.Errorf("archive topic %q of %q: %w", archive, topic, err))
			continue
		}
		a.publishTopic(ctx, topic, archive, a.walks[topic])
	}
}

// dueTopics returns the archive topics of the dead-letter topics that need not wait, and forgets
// the walks of topics without exhausted messages.
func (a *Archiver) dueTopics(ctx context.Context, topics []string) map[string]string {
	walks, archives := map[string]*walk{}, map[string]string{}
	for _, topic := range topics {
		walks[topic] = cmp.Or(a.walks[topic], newWalk())
		if time.Now().Before(walks[topic].due) {
			continue
		}
		if archive, err := a.archives.Of(topic); err != nil {
			a.warn(ctx, topic, err)
		} else {
			archives[topic] = archive
		}
	}
	a.walks = walks
	return archives
}

// unusable returns why archive topics cannot be used: a topic does not exist, or Kafka does not show it to
// this client. A single request asks for all archive topics, since a publish to a missing topic takes a
// second to fail.
func (a *Archiver) unusable(ctx context.Context, archives map[string]string) (map[string]error, error) {
	names := slices.Compact(slices.Sorted(maps.Values(archives)))
	ctx, cancel := context.WithTimeout(ctx, a.publisher.deliveryLimit())
	defer cancel()
	unusable, err := topicErrors(ctx, a.publisher.batched, names)
	if err != nil {
		return nil, fmt.Errorf("read the archive topics: %w", err)
	}
	for topic, err := range unusable {
		unusable[topic] = withGrant(err, kmsg.ACLOperationWrite, topic, "")
	}
	return unusable, nil
}

// publishTopic gives a topic its turn.
func (a *Archiver) publishTopic(ctx context.Context, topic, archive string, w *walk) {
	for end := time.Now().Add(archiveTurn); ctx.Err() == nil && time.Now().Before(end); {
		var errs []error
		page, err := a.store.PublishExhausted(ctx, topic, w.after, func(page []dlq.Exhausted) (done []bool) {
			done, errs = a.publish(ctx, topic, archive, page)
			return done
		})
		switch {
		case errors.Is(err, dlq.ErrBlocked):
			return // another worker publishes
		case err != nil:
			a.warn(ctx, topic, err)
			return
		case len(page) == 0:
			w.end()
			return
		case !w.pass(page, errs):
			return
		}
	}
}

// publish publishes messages, and returns for each message whether it is done, and its error.
func (a *Archiver) publish(ctx context.Context, topic, archive string, page []dlq.Exhausted) (done []bool, errs []error) {
	done, errs = make([]bool, len(page)), a.publisher.archive(ctx, archive, page)
	label := a.labels.Of(topic)
	for i, err := range errs {
		done[i] = err == nil
		switch {
		case err != nil:
			a.warn(ctx, topic, fmt.Errorf("message %s: %w", page[i].ID, err))
			a.failed.WithLabelValues(label, string(dlq.CategoryOf(err))).Inc()
		case !page[i].Deleted:
			a.published.WithLabelValues(label).Inc()
		}
	}
	return done, errs
}
