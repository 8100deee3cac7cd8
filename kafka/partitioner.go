package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// targets are those that a caller of Publish knows to be closed.
type targets map[dlq.Target]struct{}

func newTargets(list []dlq.Target) targets {
	set := make(targets, len(list))
	for _, target := range list {
		set[target] = struct{}{}
	}
	return set
}

func (t targets) has(topic string, partition int32) bool {
	if len(t) == 0 {
		return false
	}
	_, ok := t[dlq.Target{Topic: topic, Partition: partition}]
	return ok
}

// hasAll reports whether the first n partitions of the topic are closed.
func (t targets) hasAll(topic string, n int) bool {
	for partition := range n {
		if !t.has(topic, int32(partition)) {
			return false
		}
	}
	return true
}

// route is the way of one record. The client library partitions in goroutines of
// its own, but only before it calls the record's promise. After that the route may
// be read.
type route struct {
	closed targets
	// anywhere says that every partition is as good: the record's key is null, or a
	// UUID of ours. An empty key is a key.
	anywhere bool
	// partition is dlq.AnyPartition, and partitions is zero, until the client
	// knows the topic.
	partition  int32
	partitions int
	refused    bool
}

func (w *route) target(topic string) dlq.Target {
	return dlq.Target{Topic: topic, Partition: w.partition}
}

type routeKey struct{}

// begin starts an attempt to send the record. The record's context tells the
// partitioner about the route, since it learns nothing else of the call.
func (w *route) begin(ctx context.Context, r *kgo.Record) {
	w.partition, w.partitions, w.refused = dlq.AnyPartition, 0, false
	r.Context = context.WithValue(ctx, routeKey{}, w)
}

func targetClosed(target dlq.Target) error {
	return fmt.Errorf("publish to %s: %w", target, dlq.ErrTargetClosed)
}

// routing is the client's partitioner. It hashes keys as Kafka's own client
// does, and keeps records from closed partitions.
type routing struct{ hashing kgo.Partitioner }

func newRouting() kgo.Partitioner { return routing{kgo.StickyKeyPartitioner(nil)} }

// ForTopic implements kgo.Partitioner.
func (r routing) ForTopic(topic string) kgo.TopicPartitioner {
	return topicRouting{r.hashing.ForTopic(topic)}
}

type topicRouting struct{ hashing kgo.TopicPartitioner }

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch: records without a key go to
// one partition until their batch is full, and then to another.
func (t topicRouting) OnNewBatch() {
	if sticky, ok := t.hashing.(kgo.TopicPartitionerOnNewBatch); ok {
		sticky.OnNewBatch()
	}
}

// RequiresConsistency implements kgo.TopicPartitioner: n counts all partitions of
// the topic, and not only those that have a leader.
func (topicRouting) RequiresConsistency(*kgo.Record) bool { return true }

// refusal is out of range. The library then fails the record before it takes a
// place in the partition's sequence, so the records around it notice nothing.
const refusal = -1

// Partition implements kgo.TopicPartitioner.
func (t topicRouting) Partition(r *kgo.Record, n int) int {
	pick := t.hashing.Partition(r, n)
	way, ok := r.Context.Value(routeKey{}).(*route)
	if !ok {
		return pick
	}
	closed := func() bool { return way.closed.has(r.Topic, int32(pick)) }
	if way.anywhere && closed() && !way.closed.hasAll(r.Topic, n) {
		for closed() {
			if r.Key == nil {
				pick = rand.IntN(n) //nolint:gosec // any will do
				continue
			}
			r.Key = newKey() // as long as the old one, which the library has counted
			pick = t.hashing.Partition(r, n)
		}
	}
	way.partition, way.partitions, way.refused = int32(pick), n, closed()
	if way.refused {
		return refusal
	}
	return pick
}
