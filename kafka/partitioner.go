package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// targetSet has the targets that the caller of Publish knows to be closed.
type targetSet map[dlq.Target]bool

// hasAll reports whether the first n partitions of the topic are closed.
func (t targetSet) hasAll(topic string, n int) bool {
	for partition := range n {
		if !t[dlq.Target{Topic: topic, Partition: int32(partition)}] {
			return false
		}
	}
	return true
}

// route has the partition that a record is sent to. The client library writes a route in its
// own goroutines, and only before it calls the record's promise. Read the route only after
// that call.
type route struct {
	closed targetSet
	// anyPartition is set if the record may go to any partition, because its key is null or
	// a generated UUID. An empty key is a key.
	anyPartition bool
	// partitions is the topic's number of partitions. Until the client knows the topic,
	// partition is dlq.AnyPartition and partitions is 0.
	partition  int32
	partitions int
	refused    bool // because the target is closed
}

func (w *route) target(topic string) dlq.Target {
	return dlq.Target{Topic: topic, Partition: w.partition}
}

type routeKey struct{}

// begin starts an attempt to send the record. The record's context is the only way to
// pass the route to the partitioner.
func (w *route) begin(ctx context.Context, r *kgo.Record) {
	w.partition, w.partitions, w.refused = dlq.AnyPartition, 0, false
	r.Context = context.WithValue(ctx, routeKey{}, w)
}

func targetClosedError(target dlq.Target) error {
	return fmt.Errorf("publish to %s: %w", target, dlq.ErrTargetClosed)
}

// routing is the client's partitioner, which hashes keys as Kafka's Java client does, and
// refuses records for closed partitions.
type routing struct{ hashing kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (r routing) ForTopic(topic string) kgo.TopicPartitioner {
	return topicRouting{r.hashing.ForTopic(topic)}
}

type topicRouting struct{ hashing kgo.TopicPartitioner }

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch: records without a key stay with
// a partition until its batch is full.
func (t topicRouting) OnNewBatch() {
	if sticky, ok := t.hashing.(kgo.TopicPartitionerOnNewBatch); ok {
		sticky.OnNewBatch()
	}
}

// RequiresConsistency implements kgo.TopicPartitioner: Partition gets the number of all
// partitions, also of those without a leader.
func (topicRouting) RequiresConsistency(*kgo.Record) bool { return true }

// refusedPartition is out of range. So the library fails the record before assigning a
// sequence number, and other records are not affected.
const refusedPartition = -1

// Partition implements kgo.TopicPartitioner.
func (t topicRouting) Partition(r *kgo.Record, n int) int {
	pick := t.hashing.Partition(r, n)
	route, ok := r.Context.Value(routeKey{}).(*route)
	if !ok {
		return pick
	}
	closed := func() bool { return route.closed[dlq.Target{Topic: r.Topic, Partition: int32(pick)}] }
	if route.anyPartition && closed() && !route.closed.hasAll(r.Topic, n) {
		for closed() {
			if r.Key == nil {
				pick = rand.IntN(n) //nolint:gosec // any will do
				continue
			}
			r.Key = newKey() // the same length, since the library has counted the record's bytes
			pick = t.hashing.Partition(r, n)
		}
	}
	route.partition, route.partitions, route.refused = int32(pick), n, closed()
	if route.refused {
		return refusedPartition
	}
	return pick
}
