package kafka

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

type topicPartition struct {
	topic     string
	partition int32
}

// assignment is a partition that this member of the group reads from a position. A partition that is
// revoked and assigned again is a new assignment. A partition whose position has changed in the database
// also becomes a new assignment. Records that were fetched for the old assignment are dropped.
type assignment struct {
	topicPartition
	topicID   [16]byte
	position  dlq.Position // in the database
	committed int64        // the offset that was last committed to the group
	// seeks counts the seeks to seekOffset since the position changed in the database. seeks is 0 again
	// once records have been fetched from seekOffset.
	seeks      int
	seekOffset int64
	since      time.Time // when the assignment was made
	// emptied counts the successive observations in which Kafka had deleted all records from the position
	// on. emptiedAt is the time of the last observation.
	emptied   int
	emptiedAt time.Time
}

func (a *assignment) partitionID() dlq.Partition {
	return dlq.Partition{TopicID: a.topicID, Number: a.partition}
}

// recreated returns the assignment of the same partition in the re-created topic. Its position is a number
// that the database never has, so followDatabase replaces the assignment.
func (a *assignment) recreated(topicID [16]byte) *assignment {
	return &assignment{topicPartition: a.topicPartition, topicID: topicID, position: dlq.Position{Next: math.MinInt64}, committed: -1, since: time.Now()}
}

// assignmentSet has the partitions that are assigned to this member. A member may have lost a partition
// without knowing it yet. This does no harm: the database refuses the member's records once another member
// has moved the position.
type assignmentSet struct {
	mu          sync.Mutex
	byPartition map[topicPartition]*assignment
}

// assignment returns nil when the partition is not in the set.
func (s *assignmentSet) assignment(p topicPartition) *assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byPartition[p]
}

// replace replaces assignments that are still in the set by new assignments with
// these positions, and returns the new assignments.
func (s *assignmentSet) replace(assignments []*assignment, positions []dlq.Position) (after []*assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range assignments {
		if s.byPartition[a.topicPartition] == a {
			moved := &assignment{topicPartition: a.topicPartition, topicID: a.topicID, position: positions[i], committed: a.committed, since: time.Now()}
			s.byPartition[a.topicPartition] = moved
			after = append(after, moved)
		}
	}
	return after
}

// set adds assignments, or replaces the assignments of the same partitions, and returns the size of
// the set.
func (s *assignmentSet) set(assignments []*assignment) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range assignments {
		s.byPartition[a.topicPartition] = a
	}
	return len(s.byPartition)
}

func (s *assignmentSet) remove(partitions map[string][]int32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			delete(s.byPartition, topicPartition{topic, number})
		}
	}
	return len(s.byPartition)
}

func (s *assignmentSet) all() []*assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byPartition))
}

// filter returns the records whose assignment is still in the set.
func (s *assignmentSet) filter(batch []received) []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(batch), func(r received) bool { return s.byPartition[r.assignment.topicPartition] != r.assignment })
}

// move sets the position of each assignment to the end of its advance.
func (s *assignmentSet) move(assignments []*assignment, advances []dlq.Advance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range assignments {
		a.position, a.emptied = advances[i].To, 0
	}
}

// positions returns the next offset of each assigned partition, by topic.
func (s *assignmentSet) positions() map[string]map[int32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	topics := map[string]map[int32]int64{}
	for p, a := range s.byPartition {
		put(topics, p, a.position.Next)
	}
	return topics
}

// assigned, revoked and lost are the group's callbacks. They run one after another, and never between a
// poll and AllowRebalance. assigned adds no assignment; startOffsets does.
func (in *Ingest) assigned(client *kgo.Client, added map[string][]int32) {
	in.group.Store(client)
	in.status.setError(groupFails, nil)
	if len(added) > 0 {
		in.log.Info("partitions assigned", zap.Any("partitions", added))
	}
}

func (in *Ingest) revoked(ctx context.Context, partitions map[string][]int32) {
	in.commit(ctx)
	in.drop(partitions, "partitions revoked")
}

func (in *Ingest) lost(partitions map[string][]int32) { in.drop(partitions, "partitions lost") }

func (in *Ingest) drop(partitions map[string][]int32, message string) {
	in.status.setPartitions(in.assignments.remove(partitions))
	if len(partitions) > 0 {
		in.log.Info(message, zap.Any("partitions", partitions))
	}
}

// commit commits the positions to the group, for Kafka's tools and their users. Nothing
// else depends on commits, so they may fail or come late.
func (in *Ingest) commit(ctx context.Context) {
	assignments, offsets := in.assignments.all(), map[string]map[int32]kgo.EpochOffset{}
	in.assignments.mu.Lock()
	for _, a := range assignments {
		if a.position.Next < 0 || a.position.Next == a.committed {
			continue
		}
		put(offsets, a.topicPartition, kgo.EpochOffset{Epoch: a.position.Epoch, Offset: a.position.Next})
	}
	in.assignments.mu.Unlock()
	if len(offsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	in.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			err = commitError(response)
		}
		if err != nil {
			in.log.Warn("offsets not committed; the lag in Kafka's tools is too high", zap.Error(err))
			return
		}
		in.assignments.mu.Lock()
		defer in.assignments.mu.Unlock()
		for _, a := range assignments {
			if offset, reported := offsets[a.topic][a.partition]; reported {
				a.committed = offset.Offset
			}
		}
	})
}

func commitError(response *kmsg.OffsetCommitResponse) error {
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}
