package kafka

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// watchInterval is how often the lag is measured and the brokers are tried.
const watchInterval = 5 * time.Second

// errorPause keeps a broker that refuses every fetch from being asked again at
// once.
const errorPause = 250 * time.Millisecond

// settleErrors deals with what a poll could not fetch.
func (in *Ingest) settleErrors(ctx context.Context, fetches kgo.Fetches) {
	var recreated []string
	failed := false
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.DeadlineExceeded) {
			return // a poll without records
		}
		failed = true
		var loss *kgo.ErrDataLoss
		switch {
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
			recreated = append(recreated, topic)
		case errors.As(err, &loss):
			in.log.Warn("Kafka lost records that were already read; going on from what is left", zap.Error(err))
		default:
			in.status.kafka(err)
			in.log.Error("cannot fetch dead letters", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
		}
	})
	if len(recreated) > 0 {
		// The client refuses a topic that was deleted and created again until
		// it forgets the old one; the pattern then finds the new one.
		in.log.Info("topic was deleted; looking whether it was created again", zap.Strings("topics", recreated))
		in.client.PurgeTopicsFromConsuming(recreated...)
		in.client.ForceMetadataRefresh()
	}
	if failed {
		sleep(ctx, errorPause)
	}
}

// watch measures the lag and learns whether the brokers answer. It goes on
// while the store is away, which is when the lag is of interest.
func (in *Ingest) watch(ctx context.Context) {
	admin := kadm.NewClient(in.client)
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		in.observe(ctx, admin)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (in *Ingest) observe(ctx context.Context, admin *kadm.Client) {
	limit, cancel := context.WithTimeout(ctx, watchInterval)
	defer cancel()
	err := Ping(limit, in.client)
	if ctx.Err() != nil {
		return
	}
	in.status.kafka(err)
	if err != nil {
		in.log.Warn("Kafka does not answer; ingest waits for it", zap.Error(err))
		return
	}
	if err := in.observeLag(limit, admin); err != nil && ctx.Err() == nil {
		in.log.Warn("cannot measure the ingest lag", zap.Error(err))
	}
}

// observeLag counts records by their offsets. The markers of transactions have
// offsets too, so a topic that is written in transactions shows a lag of a few
// for each partition when there is none.
func (in *Ingest) observeLag(ctx context.Context, admin *kadm.Client) error {
	places := in.owned.positions()
	if len(places) == 0 {
		in.metrics.lag.Reset()
		return nil
	}
	topics := make([]string, 0, len(places))
	for topic := range places {
		topics = append(topics, topic)
	}
	asked := time.Now()
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	in.logs.set(asked, starts, ends)
	in.metrics.lag.Reset() // drops the topics that are not ours any more
	for topic, partitions := range places {
		lag := int64(0)
		for partition, stored := range partitions {
			end, ok := ends.Lookup(topic, partition)
			if !ok || end.Err != nil {
				continue
			}
			if start, ok := starts.Lookup(topic, partition); ok && start.Err == nil {
				stored = max(stored, start.Offset)
			}
			lag += max(end.Offset-max(stored, 0), 0)
		}
		in.metrics.lag.WithLabelValues(topic).Set(float64(lag))
	}
	return nil
}

// logs are where the logs began and ended when they were last asked for.
type logs struct {
	mu           sync.Mutex
	asked        time.Time
	starts, ends kadm.ListedOffsets
}

func (l *logs) set(asked time.Time, starts, ends kadm.ListedOffsets) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.starts, l.ends = asked, starts, ends
}

// of returns where the claim's log began, whether it held nothing, and when. What is
// older than the claim may be about another topic of the name.
func (l *logs) of(c *claim) (start int64, isEmpty bool, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin, known := l.starts.Lookup(c.topic, c.partition)
	end, alsoKnown := l.ends.Lookup(c.topic, c.partition)
	if !known || !alsoKnown || begin.Err != nil || end.Err != nil || l.asked.Before(c.since) {
		return 0, false, l.asked
	}
	return begin.Offset, end.Offset <= begin.Offset, l.asked
}
