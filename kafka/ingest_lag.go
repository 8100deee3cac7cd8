package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// watchTimeout bounds a ping and the measurement of the lag after it.
const watchTimeout = 5 * time.Second

// errorPause is the pause after a failed fetch, so that a broker which refuses every fetch
// is not polled in a tight loop.
const errorPause = 250 * time.Millisecond

// settleErrors handles the errors of a poll.
func (in *Ingest) settleErrors(ctx context.Context, fetches kgo.Fetches) {
	var recreated []string
	failed := false
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.DeadlineExceeded) {
			return // not an error: a poll without records
		}
		failed = true
		switch {
		case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
			recreated = append(recreated, topic)
		case errors.As(err, new(*kgo.ErrDataLoss)):
			in.log.Warn("Kafka lost records that were already read; continuing with the remaining ones", zap.Error(err))
		default:
			err = withGrant(err, kmsg.ACLOperationRead, topic, in.o.ConsumerGroup)
			in.status.setError(brokersFail, err)
			if !isDenied(err) || in.denied.isDue(topic) {
				in.log.Error("cannot fetch dead letters", zap.String("topic", topic), zap.Int32("partition", partition), zap.Error(err))
			}
		}
	})
	if len(recreated) > 0 {
		// The client refuses a re-created topic until it has forgotten the old topic. Afterwards the
		// pattern finds the new topic.
		in.log.Info("topic was deleted; checking whether it was re-created", zap.Strings("topics", recreated))
		in.client.PurgeTopicsFromConsuming(recreated...)
		in.client.ForceMetadataRefresh()
	}
	if failed {
		sleep(ctx, errorPause)
	}
}

// watch measures the lag and checks whether the brokers answer. It runs beside the poll
// loop, so the lag is also known while the store is unavailable.
func (in *Ingest) watch(ctx context.Context) {
	admin := kadm.NewClient(in.client)
	every(ctx, in.o.WatchInterval, func(ctx context.Context) { in.observe(ctx, admin) })
}

func (in *Ingest) observe(ctx context.Context, admin *kadm.Client) {
	limit, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	err := Ping(limit, in.client)
	if ctx.Err() != nil {
		return
	}
	in.status.setError(brokersFail, err)
	if err != nil {
		in.log.Warn("Kafka does not answer; ingest waits for it", zap.Error(err))
		return
	}
	if err := in.observeLag(limit, admin); err != nil && ctx.Err() == nil {
		in.log.Warn("cannot measure the ingest lag", zap.Error(err))
	}
}

// observeLag computes the lag from the positions and the end offsets of the assigned partitions.
func (in *Ingest) observeLag(ctx context.Context, admin *kadm.Client) error {
	positions := in.assignments.positions()
	for topic := range positions {
		in.assignedTopics[topic] = true
	}
	failed, err := topicErrors(ctx, in.client, slices.Collect(maps.Keys(in.assignedTopics)))
	if err != nil {
		return err
	}
	var topics []string
	for topic := range in.assignedTopics {
		_, assigned := positions[topic]
		switch err := failed[topic]; {
		case isDenied(err):
			if in.denied.isDue(topic) {
				in.log.Error("cannot fetch dead letters", zap.String("topic", topic), zap.Error(withGrant(err, kmsg.ACLOperationRead, topic, "")))
			}
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			delete(in.assignedTopics, topic)
		case assigned:
			topics = append(topics, topic)
		}
	}
	if len(topics) == 0 {
		in.metrics.lag.Reset()
		return nil
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
	in.logRanges.Store(&logRanges{asked, starts, ends})
	in.metrics.lag.Reset() // drops the topics that are no longer assigned
	var behind []string
	for _, topic := range topics {
		lag := int64(0)
		for partition, stored := range positions[topic] {
			end, ok := ends.Lookup(topic, partition)
			if !ok || end.Err != nil {
				continue
			}
			if start, ok := starts.Lookup(topic, partition); ok && start.Err == nil {
				stored = max(stored, start.Offset)
			}
			lag += max(end.Offset-max(stored, 0), 0)
		}
		in.metrics.lag.WithLabelValues(in.metrics.topics.Of(topic)).Add(float64(lag))
		if lag > 0 {
			behind = append(behind, topic)
		}
	}
	return in.observeExpiring(ctx, admin, positions, starts, behind)
}

// observeExpiring counts the records that are not stored yet and that retention deletes soon. behind has
// the topics with such records. Topics with the same retention share a request.
func (in *Ingest) observeExpiring(
	ctx context.Context, admin *kadm.Client, positions map[string]map[int32]int64, starts kadm.ListedOffsets, behind []string,
) error {
	in.metrics.expiring.Reset()
	if len(behind) == 0 {
		return nil
	}
	request := kmsg.NewPtrDescribeConfigsRequest() // kadm fails for all topics if one is denied
	for _, topic := range behind {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{retentionConfig}
		request.Resources = append(request.Resources, resource)
	}
	response, err := request.RequestWith(ctx, in.client)
	if err != nil {
		return err
	}
	byRetention := map[int64][]string{}
	for _, config := range response.Resources {
		topic := config.ResourceName
		if err := kerr.ErrorForCode(config.ErrorCode); err != nil && in.unknownRetention.isDue(topic) {
			in.log.Warn("cannot tell which records expire before they are ingested", zap.String("topic", topic),
				zap.Error(withGrant(err, kmsg.ACLOperationDescribeConfigs, topic, "")))
		}
		if retention := retentionOf(&config); retention > 0 {
			byRetention[retention] = append(byRetention[retention], topic)
		}
	}
	for retention, topics := range byRetention {
		safe, err := admin.ListOffsetsAfterMilli(ctx, time.Now().UnixMilli()-retention/5*4, topics...)
		if err != nil {
			return err
		}
		for _, topic := range topics {
			expiring := int64(0)
			for partition, stored := range positions[topic] {
				first, ok := safe.Lookup(topic, partition)
				start, _ := starts.Lookup(topic, partition)
				if ok && first.Err == nil && start.Err == nil {
					expiring += max(first.Offset-max(stored, start.Offset), 0)
				}
			}
			in.metrics.expiring.WithLabelValues(in.metrics.topics.Of(topic)).Add(float64(expiring))
		}
	}
	return nil
}

// retentionOf is the topic's retention.ms, zero if unknown, and negative without a
// limit.
func retentionOf(config *kmsg.DescribeConfigsResponseResource) int64 {
	for _, c := range config.Configs {
		if c.Name == retentionConfig && c.Value != nil {
			retention, _ := strconv.ParseInt(*c.Value, 10, 64)
			return retention
		}
	}
	return 0
}

const retentionConfig = "retention.ms"

// logRanges are the start and end offsets of the partitions at the last request.
type logRanges struct {
	asked        time.Time
	starts, ends kadm.ListedOffsets
}

// of returns the start offset of the assignment's partition, whether the partition was empty, and when the
// brokers were asked. An answer older than the assignment may concern a deleted topic of the same name, and
// is not used.
func (l *logRanges) of(a *assignment) (start int64, isEmpty bool, asked time.Time) {
	first, known := l.starts.Lookup(a.topic, a.partition)
	end, alsoKnown := l.ends.Lookup(a.topic, a.partition)
	if !known || !alsoKnown || first.Err != nil || end.Err != nil || l.asked.Before(a.since) {
		return 0, false, l.asked
	}
	return first.Offset, end.Offset <= first.Offset, l.asked
}
