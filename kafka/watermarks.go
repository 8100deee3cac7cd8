package kafka

import (
	"cmp"
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

// WatermarkStore keeps watermarks: the committed offsets of consumer groups.
type WatermarkStore interface {
	// LeaseWatermarks takes or renews the right to publish watermarks. taken is false while
	// another process has the right.
	LeaseWatermarks(ctx context.Context, holder dlq.ID, expiry time.Duration) (lease dlq.WatermarkLease, taken bool, err error)
	WatermarkScope(ctx context.Context) (dlq.WatermarkScope, error)
	// Positions is as in ArrivalStore.
	Positions(ctx context.Context, partitions []dlq.Partition) ([]dlq.Position, error)
	// PublishWatermarks returns dlq.ErrFenced when another process has the lease.
	PublishWatermarks(ctx context.Context, lease dlq.WatermarkLease, watermarks *dlq.Watermarks) error
}

// watermarkTimeout bounds a poll. The lease lasts longer.
const watermarkTimeout = 20 * time.Second

// offsetsTimeout bounds each request for committed offsets, end offsets or start offsets. A request for a
// group whose coordinator is unavailable takes all of that time.
const offsetsTimeout = 5 * time.Second

// WatermarkPoller publishes how far consumer groups have committed. Of several pollers, only the holder of
// the lease publishes.
//
// A consumer writes a failed message to a dead-letter topic, and commits the message's offset afterwards.
// So a poll fetches the committed offsets first, and then the end offsets of the dead-letter topics. The
// committed offsets of a target are published once ingest has passed the ends of the dead-letter topics
// into which the target's messages can come back. By then the database has every message that came back
// before the commit.
type WatermarkPoller struct {
	client   *kgo.Client
	admin    *kadm.Client
	store    WatermarkStore
	topics   *dlq.Topics
	interval time.Duration
	log      *zap.Logger
	holder   dlq.ID
	lease    dlq.WatermarkLease
	// pending has the targets whose offsets were fetched and are not published yet.
	pending map[int32]*pendingTarget
	// groups has each group of the latest fetch, with the reason why Kafka refused the request, or an empty text. at is the
	// time of that fetch.
	groups map[string]string
	at     time.Time
	denied hourly
}

// pendingTarget has the fetched offsets of a target. They wait until ingest has passed the ends.
type pendingTarget struct {
	at        time.Time
	committed []dlq.Watermark
	away      []string
	isChanged bool
	ends      []partitionEnd
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
	every(ctx, w.interval, func(ctx context.Context) {
		if _, err := w.Poll(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("cannot fetch how far consumer groups have committed; trying again", zap.Error(err))
		}
	})
}

// Poll fetches the watermarks of the targets that are not pending, and publishes the watermarks of the
// targets for which ingest is far enough.
func (w *WatermarkPoller) Poll(ctx context.Context) (published bool, err error) {
	// kadm caches topics, unless rights are requested too. The cache may not have a
	// dead-letter topic that a consumer has just created.
	ctx, cancel := context.WithTimeout(kadm.WithAuthorizedOps(ctx), watermarkTimeout)
	defer cancel()
	lease, taken, err := w.store.LeaseWatermarks(ctx, w.holder, 2*watermarkTimeout+w.interval)
	if err != nil {
		return false, err
	}
	if !taken || lease != w.lease { // another process may have published later watermarks
		w.lease, w.pending = lease, map[int32]*pendingTarget{}
	}
	if !taken {
		return false, nil
	}
	if err := w.fetch(ctx); err != nil {
		return false, err
	}
	if err := w.pass(ctx); err != nil {
		return false, err
	}
	ready := dlq.Watermarks{At: w.at, Groups: w.groups, Targets: map[int32]time.Time{}}
	for id, p := range w.pending {
		if len(p.ends) > 0 {
			continue
		}
		ready.Targets[id] = p.at
		ready.Committed, ready.Away = append(ready.Committed, p.committed...), append(ready.Away, p.away...)
		if p.isChanged {
			ready.Changed = append(ready.Changed, id)
		}
		delete(w.pending, id)
	}
	if len(ready.Targets) == 0 {
		return false, nil
	}
	err = w.store.PublishWatermarks(ctx, w.lease, &ready)
	if errors.Is(err, dlq.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// fetch makes targets pending. It leaves out targets that Kafka cannot describe now, and targets with a dead-letter
// topic whose end is unknown, for example because a partition has no leader.
func (w *WatermarkPoller) fetch(ctx context.Context) error {
	scope, err := w.store.WatermarkScope(ctx)
	if err != nil {
		return err
	}
	scope.Targets = slices.DeleteFunc(scope.Targets, func(t dlq.WatermarkTarget) bool { return w.pending[t.ID] != nil })
	if len(scope.Groups) == 0 || len(scope.Targets) == 0 {
		return nil
	}
	at := time.Now()
	before, err := w.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	slices.Sort(scope.Groups)
	limited, cancel := context.WithTimeout(ctx, offsetsTimeout)
	offsets := w.admin.FetchManyOffsets(limited, slices.Compact(scope.Groups)...)
	cancel()
	after, err := w.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	groups, away, err := w.groupsOf(offsets)
	if err != nil {
		return err
	}
	w.groups, w.at = groups, at
	ends := w.deadLetterEnds(ctx, after, scope.Targets)
	for i := range scope.Targets {
		t := &scope.Targets[i]
		p := &pendingTarget{at: at, away: away}
		switch first, last := currentID(before, t.Topic), currentID(after, t.Topic); {
		case first == t.TopicID && last == t.TopicID:
			p.committed = committed(offsets, t)
		case after[t.Topic].Err == nil || errors.Is(after[t.Topic].Err, kerr.UnknownTopicOrPartition):
			p.isChanged = true
		default:
			continue
		}
		isKnown := true
		for topic, of := range ends {
			if w.takesBack(t, topic) {
				p.ends = append(p.ends, of...)
				isKnown = isKnown && of != nil
			}
		}
		if isKnown {
			w.pending[t.ID] = p
		}
	}
	return nil
}

// groupsOf returns each fetched group with the reason why Kafka refused the request, or with an empty text. away has the
// groups whose coordinator is unavailable. groupsOf fails if all groups are away.
func (w *WatermarkPoller) groupsOf(offsets kadm.FetchOffsetsResponses) (groups map[string]string, away []string, err error) {
	groups = map[string]string{}
	for group, fetched := range offsets {
		switch cause := fetched.Err; {
		case cause == nil, errors.Is(cause, kerr.GroupIDNotFound):
			groups[group] = ""
		case kerr.IsRetriable(cause) || !errors.As(cause, new(*kerr.Error)):
			away, err = append(away, group), fmt.Errorf("offsets of consumer group %s: %w", group, cause)
		default:
			cause = withGrant(cause, kmsg.ACLOperationDescribe, "", group)
			if w.denied.isDue(group) {
				w.log.Warn("Kafka refuses to show how far a consumer group has committed; only a share group loses nothing by that", zap.Error(cause))
			}
			groups[group] = cause.Error()
		}
	}
	if err != nil && len(groups) > 0 {
		w.log.Warn("cannot fetch how far some consumer groups have committed; trying again", zap.Int("groups", len(away)), zap.Error(err))
		err = nil
	}
	return groups, away, err
}

// committed returns the offsets that all groups have committed in a target.
func committed(offsets kadm.FetchOffsetsResponses, target *dlq.WatermarkTarget) (found []dlq.Watermark) {
	for group, fetched := range offsets {
		for partition, o := range fetched.Fetched[target.Topic] {
			if fetched.Err == nil && o.Err == nil && o.At >= 0 {
				found = append(found, dlq.Watermark{Group: group, Target: target.ID, Partition: partition, Offset: o.At})
			}
		}
	}
	return found
}

// takesBack reports whether messages of the target can come back into a dead-letter topic.
func (w *WatermarkPoller) takesBack(target *dlq.WatermarkTarget, topic string) bool {
	origin, _ := w.topics.OriginOf(topic)
	return origin == target.Topic || slices.Contains(target.DLQTopics, topic)
}

// currentID is the id of a topic, and zero if Kafka does not describe the topic.
func currentID(topics kadm.TopicDetails, topic string) dlq.ID {
	if found, exists := topics[topic]; exists && found.Err == nil {
		return topicIDOr(found.ID, topic)
	}
	return dlq.ID{}
}

// deadLetterEnds returns the end offsets of the dead-letter topics into which messages of the targets can come back. It leaves
// out partitions that never had a record. A topic has nil if the end of any partition is unknown.
func (w *WatermarkPoller) deadLetterEnds(ctx context.Context, topics kadm.TopicDetails, targets []dlq.WatermarkTarget) map[string][]partitionEnd {
	ends := map[string][]partitionEnd{}
	var names []string
	for name := range topics {
		takesBack := func(t dlq.WatermarkTarget) bool { return w.takesBack(&t, name) }
		if !w.topics.IsDeadLetter(name) || !slices.ContainsFunc(targets, takesBack) {
			continue
		}
		ends[name] = nil
		hasNoLeader := func(p kadm.PartitionDetail) bool { return p.Err != nil || p.Leader < 0 }
		if !slices.ContainsFunc(slices.Collect(maps.Values(topics[name].Partitions)), hasNoLeader) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ends // a request without topics would ask for all topics
	}
	ctx, cancel := context.WithTimeout(ctx, offsetsTimeout)
	defer cancel()
	listed, err := w.admin.ListEndOffsets(ctx, names...)
	for _, name := range names {
		of := []partitionEnd{}
		for number := range topics[name].Partitions {
			o, isListed := listed.Lookup(name, number)
			if !isListed || o.Err != nil {
				of, err = nil, cmp.Or(o.Err, err)
				break
			}
			if o.Offset > 0 {
				of = append(of, partitionEnd{name, dlq.Partition{TopicID: currentID(topics, name), Number: number}, o.Offset})
			}
		}
		ends[name] = of
	}
	if err != nil {
		w.log.Warn("cannot find the ends of some dead-letter topics; trying again", zap.Error(err))
	}
	return ends
}

// pass forgets the ends that ingest has passed. It also forgets the ends that ingest will never pass, because
// the topic is gone or denied, or because Kafka has deleted the records.
func (w *WatermarkPoller) pass(ctx context.Context) error {
	behind := map[partitionEnd]bool{}
	for _, p := range w.pending {
		for _, end := range p.ends {
			behind[end] = true
		}
	}
	if len(behind) == 0 {
		return nil
	}
	ends := slices.Collect(maps.Keys(behind))
	partitions := make([]dlq.Partition, len(ends))
	for i := range ends {
		partitions[i] = ends[i].Partition
	}
	positions, err := w.store.Positions(ctx, partitions)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for i, end := range ends {
		if positions[i].Next >= end.end {
			delete(behind, end)
		} else {
			names[end.topic] = true
		}
	}
	if err := w.forgetGone(ctx, behind, slices.Collect(maps.Keys(names))); err != nil {
		return err
	}
	for _, p := range w.pending {
		p.ends = slices.DeleteFunc(p.ends, func(end partitionEnd) bool { return !behind[end] })
	}
	return nil
}

// forgetGone deletes the ends that ingest will never pass. topics are the topics of the ends.
func (w *WatermarkPoller) forgetGone(ctx context.Context, behind map[partitionEnd]bool, topics []string) error {
	described, err := describeTopics(ctx, w.client, topics, 0)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	maps.DeleteFunc(behind, func(end partitionEnd, _ bool) bool {
		topic := described[end.topic]
		err := kerr.ErrorForCode(topic.ErrorCode)
		return isDenied(err) || errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && topicIDOr(topic.TopicID, end.topic) != end.TopicID
	})
	topics = slices.DeleteFunc(topics, func(name string) bool { return described[name].ErrorCode != 0 })
	if len(topics) == 0 {
		return nil // a request without topics would ask for all topics
	}
	limited, cancel := context.WithTimeout(ctx, offsetsTimeout)
	defer cancel()
	starts, err := w.admin.ListStartOffsets(limited, topics...)
	if err != nil { // some partitions failed; starts has the other partitions
		w.log.Warn("cannot find the starts of some dead-letter topics; trying again", zap.Error(err))
	}
	maps.DeleteFunc(behind, func(end partitionEnd, _ bool) bool {
		start, found := starts.Lookup(end.topic, end.Number)
		return found && start.Err == nil && start.Offset >= end.end
	})
	return nil
}
