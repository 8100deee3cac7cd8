package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// WatermarkStore keeps the committed offsets of consumer groups.
type WatermarkStore interface {
	// LeaseWatermarks takes or renews the right to publish watermarks. taken is false while
	// another process has it.
	LeaseWatermarks(ctx context.Context, holder dlq.ID, expiry time.Duration) (lease dlq.WatermarkLease, taken bool, err error)
	WatermarkScope(ctx context.Context) (dlq.WatermarkScope, error)
	// Positions is that of ArrivalStore.
	Positions(ctx context.Context, partitions []dlq.Partition) ([]dlq.Position, error)
	// PublishWatermarks returns dlq.ErrFenced when another process has the lease.
	PublishWatermarks(ctx context.Context, lease dlq.WatermarkLease, watermarks *dlq.Watermarks) error
}

// watermarkTimeout bounds one poll. The lease lasts longer.
const watermarkTimeout = 20 * time.Second

// offsetsTimeout bounds the fetch of the committed offsets, within a poll. A group whose
// coordinator is away takes all of it.
const offsetsTimeout = 5 * time.Second

// WatermarkPoller publishes how far consumer groups have committed. Of several pollers, one
// at a time has the lease.
//
// A consumer writes a message that it fails on to a dead-letter topic, and commits its offset
// afterwards. So a poll fetches the committed offsets first and the end offsets of the
// dead-letter topics after that. It publishes the committed offsets once ingest has passed
// those ends: by then the database has every message that came back before the commit.
type WatermarkPoller struct {
	client   *kgo.Client
	admin    *kadm.Client
	store    WatermarkStore
	topics   *dlq.Topics
	interval time.Duration
	log      *zap.Logger
	holder   dlq.ID
	lease    dlq.WatermarkLease
	pending  *pendingWatermarks // nil between a publish and the next fetch
	denied   hourly
}

// pendingWatermarks wait for ingest to pass the ends.
type pendingWatermarks struct {
	dlq.Watermarks
	ends []partitionEnd
}

type partitionEnd struct {
	topic string
	dlq.Partition
	end int64
}

// NewWatermarkPoller returns a poller that uses the publisher's connections.
func NewWatermarkPoller(publisher *Publisher, store WatermarkStore, topics *dlq.Topics, interval time.Duration, log *zap.Logger) *WatermarkPoller {
	return &WatermarkPoller{client: publisher.batched, admin: kadm.NewClient(publisher.batched), store: store, topics: topics,
		interval: interval, log: log, holder: dlq.NewID()}
}

// Run polls until ctx ends.
func (w *WatermarkPoller) Run(ctx context.Context) {
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		if _, err := w.Poll(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("cannot fetch how far consumer groups have committed; trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Poll fetches watermarks, unless some are pending, and publishes them if ingest is far
// enough.
func (w *WatermarkPoller) Poll(ctx context.Context) (published bool, err error) {
	// kadm caches topics, unless it is asked for rights too. The cache may not have a
	// dead-letter topic that a consumer has just created.
	ctx, cancel := context.WithTimeout(kadm.WithAuthorizedOps(ctx), watermarkTimeout)
	defer cancel()
	lease, taken, err := w.store.LeaseWatermarks(ctx, w.holder, 2*watermarkTimeout+w.interval)
	if err != nil {
		return false, err
	}
	if !taken || lease != w.lease {
		w.lease, w.pending = lease, nil // another process may have published later ones
	}
	if !taken {
		return false, nil
	}
	if w.pending == nil {
		if w.pending, err = w.fetch(ctx); err != nil || w.pending == nil {
			return false, err
		}
	}
	if passed, err := w.passed(ctx); !passed || err != nil {
		return false, err
	}
	err = w.store.PublishWatermarks(ctx, w.lease, &w.pending.Watermarks)
	w.pending = nil
	if errors.Is(err, dlq.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// fetch returns nil while nothing was delivered, or no group is known.
func (w *WatermarkPoller) fetch(ctx context.Context) (*pendingWatermarks, error) {
	scope, err := w.store.WatermarkScope(ctx)
	if err != nil || len(scope.Groups) == 0 || len(scope.Targets) == 0 {
		return nil, err
	}
	p := &pendingWatermarks{Watermarks: dlq.Watermarks{At: time.Now(), Groups: map[string]string{}}}
	before, err := w.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	slices.Sort(scope.Groups)
	limited, cancel := context.WithTimeout(ctx, offsetsTimeout)
	offsets := w.admin.FetchManyOffsets(limited, slices.Compact(scope.Groups)...)
	cancel()
	after, err := w.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	targets := map[string]int32{} // the topics whose ids did not change meanwhile
	for _, t := range scope.Targets {
		switch first, last := currentID(before, t.Topic), currentID(after, t.Topic); {
		case first == t.TopicID && last == t.TopicID:
			targets[t.Topic] = t.ID
		case after[t.Topic].Err == nil || errors.Is(after[t.Topic].Err, kerr.UnknownTopicOrPartition):
			p.Changed = append(p.Changed, t.ID)
		}
	}
	var awayErr error
	for group, fetched := range offsets {
		switch err := fetched.Err; {
		case err == nil:
			p.Groups[group] = ""
		case errors.Is(err, kerr.GroupIDNotFound):
			p.Groups[group] = ""
			continue
		case kerr.IsRetriable(err) || !errors.As(err, new(*kerr.Error)):
			p.Away, awayErr = append(p.Away, group), fmt.Errorf("offsets of consumer group %s: %w", group, err)
			continue
		default:
			if err = withGrant(err, kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeGroup, group); w.denied.isDue(group) {
				w.log.Warn("Kafka refuses to show how far a consumer group has committed; only a share group loses nothing by that", zap.Error(err))
			}
			p.Groups[group] = err.Error()
			continue
		}
		fetched.Fetched.Each(func(o kadm.OffsetResponse) {
			if target, wanted := targets[o.Topic]; wanted && o.Err == nil && o.At >= 0 {
				p.Committed = append(p.Committed, dlq.Watermark{Group: group, Target: target, Partition: o.Partition, Offset: o.At})
			}
		})
	}
	switch {
	case awayErr == nil:
	case len(p.Groups) == 0:
		return nil, awayErr
	default:
		w.log.Warn("cannot fetch how far some consumer groups have committed; trying again", zap.Int("groups", len(p.Away)), zap.Error(awayErr))
	}
	p.ends, err = w.deadLetterEnds(ctx, after)
	return p, err
}

// currentID is the id of a topic; zero if it does not exist.
func currentID(topics kadm.TopicDetails, topic string) dlq.ID {
	if found, exists := topics[topic]; exists && found.Err == nil {
		return topicIDOr(found.ID, topic)
	}
	return dlq.ID{}
}

// deadLetterEnds are the ends of the partitions of all dead-letter topics, but for those that
// never had a record.
func (w *WatermarkPoller) deadLetterEnds(ctx context.Context, topics kadm.TopicDetails) ([]partitionEnd, error) {
	var names []string
	for name := range topics {
		if w.topics.IsDeadLetter(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil // a request without topics would ask for all
	}
	listed, err := w.admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("ends of the dead-letter topics: %w", err)
	}
	var ends []partitionEnd
	listed.Each(func(o kadm.ListedOffset) {
		switch {
		case errors.Is(o.Err, kerr.UnknownTopicOrPartition):
		case o.Err != nil:
			err = fmt.Errorf("end of %s[%d]: %w", o.Topic, o.Partition, o.Err)
		case o.Offset > 0:
			ends = append(ends, partitionEnd{o.Topic, dlq.Partition{TopicID: currentID(topics, o.Topic), Number: o.Partition}, o.Offset})
		}
	})
	return ends, err
}

// passed tells whether ingest has passed the pending ends. It forgets those that it has
// passed, and those that it never will: the topic is gone or denied, or Kafka has deleted the records.
func (w *WatermarkPoller) passed(ctx context.Context) (bool, error) {
	p := w.pending
	if len(p.ends) == 0 {
		return true, nil
	}
	partitions := make([]dlq.Partition, len(p.ends))
	names := map[string]bool{}
	for i := range p.ends {
		partitions[i] = p.ends[i].Partition
	}
	positions, err := w.store.Positions(ctx, partitions)
	if err != nil {
		return false, err
	}
	var behind []partitionEnd
	for i, end := range p.ends {
		if positions[i].Next < end.end {
			behind = append(behind, end)
			names[end.topic] = true
		}
	}
	if p.ends = behind; len(behind) == 0 {
		return true, nil
	}
	visible, err := withoutDenied(ctx, w.client, slices.Collect(maps.Keys(names)))
	if err != nil {
		return false, fmt.Errorf("list topics: %w", err)
	}
	if len(visible) == 0 {
		p.ends = nil
		return true, nil
	}
	topics, err := w.admin.ListTopics(ctx, visible...)
	if err != nil {
		return false, fmt.Errorf("list topics: %w", err)
	}
	starts, err := w.admin.ListStartOffsets(ctx, visible...)
	if err != nil {
		return false, fmt.Errorf("starts of the dead-letter topics: %w", err)
	}
	p.ends = slices.DeleteFunc(behind, func(end partitionEnd) bool {
		start, found := starts.Lookup(end.topic, end.Number)
		isGone := errors.Is(topics[end.topic].Err, kerr.UnknownTopicOrPartition) || !slices.Contains(visible, end.topic)
		if id := currentID(topics, end.topic); !id.IsZero() && id != end.TopicID {
			isGone = true
		}
		return isGone || found && start.Err == nil && start.Offset >= end.end
	})
	return len(p.ends) == 0, nil
}
