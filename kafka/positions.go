package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// beforeStart is out of range in every log, so the client resets to the log start offset.
const beforeStart = -2

// startOffsets replaces the group's committed offsets by the positions in the database. It
// waits while the database is unavailable, and nothing is fetched meanwhile.
func (in *Ingest) startOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ids, err := topicIDs(ctx, in.group.Load(), slices.Collect(maps.Keys(offsets)))
	if err != nil {
		return nil, err
	}
	var assignments []*assignment
	for topic, partitions := range offsets {
		id, isKnown := ids[topic]
		if !isKnown { // the group assigns the topic again once the topic exists
			delete(offsets, topic)
			continue
		}
		for partition := range partitions {
			assignments = append(assignments, &assignment{topicPartition: topicPartition{topic, partition}, topicID: id, since: time.Now()})
		}
	}

	var positions []dlq.Position
	for wait := storeBackoffMin; ; wait = min(2*wait, storeBackoffMax) {
		if positions, err = in.positions(ctx, assignments); err == nil {
			break
		}
		in.status.setError(storeFails, err)
		in.log.Error("cannot read the positions of the partitions; ingest waits and retries", zap.Error(err), zap.Duration("wait", wait))
		if sleep(ctx, wait); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	in.status.setError(storeFails, nil)
	for i, a := range assignments {
		a.position, a.committed = positions[i], offsets[a.topic][a.partition].EpochOffset().Offset
		at := kgo.NewOffset().AtStart()
		if a.position.Next >= 0 {
			at = kgo.NewOffset().At(a.position.Next).WithEpoch(a.position.Epoch)
		}
		offsets[a.topic][a.partition] = at
	}
	in.status.setPartitions(in.assignments.set(assignments))
	return offsets, nil
}

func (in *Ingest) positions(ctx context.Context, assignments []*assignment) ([]dlq.Position, error) {
	partitions := make([]dlq.Partition, len(assignments))
	for i, a := range assignments {
		partitions[i] = a.partitionID()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return in.store.Positions(ctx, partitions)
}

// positionCheckInterval is how soon a restore of the database is detected while no records
// arrive.
const positionCheckInterval = 3 * time.Second

// checkPositions checks whether the database still has the positions of the assignments.
// Lost offsets of empty partitions are recorded too, and the pending limit is enforced.
func (in *Ingest) checkPositions(ctx context.Context) {
	if time.Since(in.positionsChecked) < positionCheckInterval {
		return
	}
	in.positionsChecked = time.Now()
	in.enforcePendingLimit(ctx)
	assignments := in.assignments.all()
	if len(assignments) == 0 {
		return
	}
	if _, err := in.followDatabase(ctx, assignments); err != nil {
		if ctx.Err() == nil {
			in.status.setError(storeFails, err)
			in.log.Warn("cannot compare the positions of the partitions with the database", zap.Error(err))
		}
		return
	}
	in.status.setError(storeFails, nil)
	in.recordEmptied(ctx)
}

// recordEmptied records lost offsets of partitions that are empty now. In a partition with records, the
// next record shows the loss. A partition must be seen empty twice, since fetched records may not be stored
// yet.
func (in *Ingest) recordEmptied(ctx context.Context) {
	var emptied []*assignment
	var advances []dlq.Advance
	ranges := in.logRanges.Load()
	for _, a := range in.assignments.all() {
		start, isEmpty, looked := ranges.of(a)
		if a.position.Next < 0 || !isEmpty || start <= a.position.Next {
			a.emptied = 0
			continue
		}
		if looked.After(a.emptiedAt) {
			a.emptied, a.emptiedAt = a.emptied+1, looked
		}
		if a.emptied < 2 {
			continue
		}
		emptied = append(emptied, a)
		advances = append(advances, dlq.Advance{Partition: a.partitionID(), Topic: a.topic, From: a.position,
			To: dlq.Position{Next: start, Epoch: -1}, Lost: start - a.position.Next})
	}
	if len(advances) == 0 {
		return
	}
	if _, err := in.tryStore(ctx, nil, advances); err == nil { // after an error the next check tries again
		in.advanced(emptied, advances)
	}
}

// followDatabase reads the positions from the database. Where a position differs, followDatabase
// replaces the assignment and seeks. moved reports whether any position differed.
func (in *Ingest) followDatabase(ctx context.Context, assignments []*assignment) (moved bool, err error) {
	positions, err := in.positions(ctx, assignments)
	if err != nil {
		return false, err
	}
	var outdated []*assignment
	var newPositions []dlq.Position
	for i, a := range assignments {
		if positions[i].Next == a.position.Next {
			continue
		}
		in.log.Warn("the database has another offset for a partition; continuing there",
			zap.String("topic", a.topic), zap.Int32("partition", a.partition),
			zap.Int64("offset", positions[i].Next), zap.Int64("instead_of", a.position.Next))
		outdated, newPositions = append(outdated, a), append(newPositions, positions[i])
	}
	after := in.assignments.replace(outdated, newPositions)
	in.setSeekOffsets(ctx, after)
	in.seek(after)
	return len(outdated) > 0, nil
}

// setSeekOffsets sets the offset at which reading continues. Normally this offset is the position. If an
// unclean leader election has truncated the log before the position, the offset is the end of the log. The
// client detects such a truncation itself only when a partition is assigned.
func (in *Ingest) setSeekOffsets(ctx context.Context, assignments []*assignment) {
	var request kadm.OffsetForLeaderEpochRequest
	for _, a := range assignments {
		if a.seekOffset = a.position.Next; a.position.Next >= 0 && a.position.Epoch >= 0 {
			request.Add(a.topic, a.partition, a.position.Epoch)
		}
	}
	if len(request) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ends, err := kadm.NewClient(in.client).OffsetForLeaderEpoch(ctx, request)
	if err != nil {
		in.log.Warn("cannot check whether a log was truncated; continuing at the positions in the database", zap.Error(err))
	}
	for _, a := range assignments {
		if end, known := ends[a.topic][a.partition]; known && end.Err == nil && end.EndOffset >= 0 {
			a.seekOffset = min(a.seekOffset, end.EndOffset)
		}
	}
}

// seek sets the client's offsets to seekOffset. The client ignores a seek while it loads a partition's
// offset or epoch, so reachedSeekOffset checks the result.
func (in *Ingest) seek(assignments []*assignment) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, a := range assignments {
		a.seeks++
		at := kgo.EpochOffset{Epoch: -1, Offset: beforeStart}
		if a.seekOffset >= 0 {
			at.Offset = a.seekOffset
		}
		put(offsets, a.topicPartition, at)
	}
	in.client.SetOffsets(offsets)
}

// reachedSeekOffset reports whether the fetched records start at seekOffset. If not, the ingest seeks once
// more. If the records start elsewhere again, the offsets before the first record have no records.
func (in *Ingest) reachedSeekOffset(a *assignment, fetched *kgo.FetchPartition) bool {
	if a.seeks == 0 {
		return true
	}
	expected := a.seekOffset
	if expected < 0 {
		expected = max(fetched.LogStartOffset, 0)
	}
	if a.seeks == 1 && fetched.Records[0].Offset != expected {
		in.seek([]*assignment{a})
		return false
	}
	a.seeks = 0
	return true
}

// advanced updates the assignments after the database has moved their positions.
func (in *Ingest) advanced(assignments []*assignment, advances []dlq.Advance) {
	for i, a := range advances {
		fields := []zap.Field{zap.String("topic", a.Topic), zap.Int32("partition", a.Number),
			zap.Int64("from_offset", a.From.Next), zap.Int64("to_offset", a.To.Next)}
		if a.Lost > 0 {
			in.metrics.lost.WithLabelValues(in.metrics.topics.Of(a.Topic)).Add(float64(a.Lost))
			in.status.addLost(a.Topic, a.Lost)
			in.log.Error("Kafka has deleted records before they were ingested", append(fields, zap.Int64("lost", a.Lost))...)
		}
		if a.To.Next < assignments[i].position.Next {
			in.log.Warn("the log was truncated by an unclean leader election; its new records are ingested", fields...)
		}
	}
	in.assignments.move(assignments, advances)
}
