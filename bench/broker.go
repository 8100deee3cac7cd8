package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dev"
	"dlqmanager/kafka"
)

// partitions is the number of partitions of every topic.
const partitions = 4

// broker is an in-process broker. Each measurement has its own broker, so that records of
// other measurements are not in memory.
type broker struct {
	addresses  []string
	stopServer func(context.Context) error
	client     *kgo.Client
	admin      *kadm.Client
}

func startBroker(ctx context.Context, topics ...string) (*broker, error) {
	server, err := dev.StartKafka(ctx, dev.KafkaOptions{Topics: topics, Partitions: partitions})
	if err != nil {
		return nil, err
	}
	return connect(ctx, server.Brokers, server.Stop)
}

func connect(ctx context.Context, addresses []string, stopServer func(context.Context) error) (*broker, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	if err != nil {
		return nil, errors.Join(err, stopServer(ctx))
	}
	return &broker{addresses: addresses, stopServer: stopServer, client: client, admin: kadm.NewClient(client)}, nil
}

func (k *broker) stop(ctx context.Context) {
	k.client.Close()
	_ = k.stopServer(ctx) // an error does not matter, since nobody needs the broker's state
}

// publisher makes a publisher with the programs' defaults.
func (k *broker) publisher() (*kafka.Publisher, error) {
	return kafka.NewPublisher(kafka.Options{Brokers: k.addresses}, zap.NewNop(), prometheus.NewRegistry())
}

// written is the number of records that a topic has ever received.
func (k *broker) written(ctx context.Context, topic string) (int64, error) {
	offsets, err := k.admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = offsets.Error()
	}
	var written int64
	offsets.Each(func(o kadm.ListedOffset) { written += o.Offset })
	return written, err
}

// deleteRecords deletes the records of a topic, since the broker keeps them in the memory of this process.
func (k *broker) deleteRecords(ctx context.Context, topic string) error {
	offsets, err := k.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	_, err = k.admin.DeleteRecords(ctx, offsets.Offsets())
	return err
}

// fill writes n dead letters to a topic.
func (b *bench) fill(ctx context.Context, k *broker, topic string, n int) error {
	var failed atomic.Pointer[error]
	for i := range n {
		r := b.samples[i%len(b.samples)].Record
		record := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		k.client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := k.client.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return fmt.Errorf("fill %s: %w", topic, *err)
	}
	return nil
}
