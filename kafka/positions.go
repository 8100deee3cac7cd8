package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// beforeStart is out of every log's range, which takes the client to the log's start.
const beforeStart = -2

// locate is called by the group with the offsets to read on from, which are the
// group's commits. The database's own are put in their place. While it is away nothing
// is read, however long that takes.
func (in *Ingest) locate(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	if err := in.ids.learn(ctx, in.group.Load(), offsets); err != nil {
		return nil, err
	}
	var claims []*claim
	in.ids.mu.Lock()
	for topic, partitions := range offsets {
		id := in.ids.known(topic)
		for partition := range partitions {
			claims = append(claims, &claim{place: place{topic, partition}, topicID: id, since: time.Now()})
		}
	}
	in.ids.mu.Unlock()

	var positions []dlq.Position
	for wait := storeBackoffMin; ; wait = min(2*wait, storeBackoffMax) {
		var err error
		if positions, err = in.positions(ctx, claims); err == nil {
			break
		}
		in.status.storing(err)
		in.log.Error("cannot read how far the partitions were taken in; ingest waits and tries again", zap.Error(err), zap.Duration("wait", wait))
		if sleep(ctx, wait); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	in.status.storing(nil)
	for i, c := range claims {
		c.at, c.reported = positions[i], offsets[c.topic][c.partition].EpochOffset().Offset
		at := kgo.NewOffset().AtStart()
		if c.at.Next >= 0 {
			at = kgo.NewOffset().At(c.at.Next).WithEpoch(c.at.Epoch)
		}
		offsets[c.topic][c.partition] = at
	}
	in.status.owning(in.owned.set(claims))
	return offsets, nil
}

func (in *Ingest) positions(ctx context.Context, claims []*claim) ([]dlq.Position, error) {
	partitions := make([]dlq.Partition, len(claims))
	for i, c := range claims {
		partitions[i] = c.partitionID()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return in.store.Positions(ctx, partitions)
}

// compareInterval is how soon it is noticed that the database was restored, where
// nothing arrives that would tell.
const compareInterval = 3 * time.Second

// compare looks whether the database still has the positions that we read on from,
// and notes what Kafka has deleted of partitions of which nothing arrives.
func (in *Ingest) compare(ctx context.Context) {
	if time.Since(in.compared) < compareInterval {
		return
	}
	in.compared = time.Now()
	in.regulate(ctx)
	claims := in.owned.all(nil)
	if len(claims) == 0 {
		return
	}
	if _, err := in.follow(ctx, claims); err != nil {
		if ctx.Err() == nil {
			in.status.storing(err)
			in.log.Warn("cannot compare how far the partitions were taken in", zap.Error(err))
		}
		return
	}
	in.status.storing(nil)
	in.noteEmptied(ctx)
}

// noteEmptied notes what Kafka has deleted of logs that hold nothing any more, so that
// no record will tell. It waits for a second look: records may be on their way.
func (in *Ingest) noteEmptied(ctx context.Context) {
	var emptied []*claim
	var advances []dlq.Advance
	for _, c := range in.owned.all(nil) {
		start, isEmpty, looked := in.logs.of(c)
		if c.at.Next < 0 || !isEmpty || start <= c.at.Next {
			c.emptied = 0
			continue
		}
		if looked.After(c.looked) {
			c.emptied, c.looked = c.emptied+1, looked
		}
		if c.emptied < 2 {
			continue
		}
		emptied = append(emptied, c)
		advances = append(advances, dlq.Advance{Partition: c.partitionID(), Topic: c.topic, From: c.at,
			To: dlq.Position{Next: start, Epoch: -1}, Lost: start - c.at.Next})
	}
	if len(advances) == 0 {
		return
	}
	if _, err := in.tryStore(ctx, nil, advances); err == nil { // else it is tried again
		in.advanced(emptied, advances)
	}
}

// follow reads on from where the database says, for those of the claims whose
// positions are elsewhere, and reports whether there were any.
func (in *Ingest) follow(ctx context.Context, claims []*claim) (moved bool, err error) {
	positions, err := in.positions(ctx, claims)
	if err != nil {
		return false, err
	}
	var elsewhere []*claim
	var where []dlq.Position
	for i, c := range claims {
		if positions[i].Next == c.at.Next {
			continue
		}
		in.log.Warn("the database has another offset for a partition; reading on from there",
			zap.String("topic", c.topic), zap.Int32("partition", c.partition),
			zap.Int64("offset", positions[i].Next), zap.Int64("instead_of", c.at.Next))
		elsewhere, where = append(elsewhere, c), append(where, positions[i])
	}
	after := in.owned.replace(elsewhere, where)
	in.aim(ctx, after)
	in.seek(after)
	return len(elsewhere) > 0, nil
}

// aim says where to read on: at the position, unless the log has been cut off before it
// by an unclean election. The client asks for that only when it is assigned a partition.
func (in *Ingest) aim(ctx context.Context, claims []*claim) {
	var request kadm.OffsetForLeaderEpochRequest
	for _, c := range claims {
		if c.target = c.at.Next; c.at.Next >= 0 && c.at.Epoch >= 0 {
			request.Add(c.topic, c.partition, c.at.Epoch)
		}
	}
	if len(request) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ends, err := kadm.NewClient(in.client).OffsetForLeaderEpoch(ctx, request)
	if err != nil {
		in.log.Warn("cannot ask whether a log was cut off; reading on from where the database says", zap.Error(err))
	}
	for _, c := range claims {
		if end, known := ends[c.topic][c.partition]; known && end.Err == nil && end.EndOffset >= 0 {
			c.target = min(c.target, end.EndOffset)
		}
	}
}

// seek tells the client where to read on. It does not heed that while it is finding
// out about a partition; see arrived.
func (in *Ingest) seek(claims []*claim) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, c := range claims {
		if offsets[c.topic] == nil {
			offsets[c.topic] = map[int32]kgo.EpochOffset{}
		}
		c.seeks++
		at := kgo.EpochOffset{Epoch: -1, Offset: beforeStart}
		if c.target >= 0 {
			at.Offset = c.target
		}
		offsets[c.topic][c.partition] = at
	}
	in.client.SetOffsets(offsets)
}

// arrived reports whether records of a claim come from where the client was told to
// go. It is told once more when they do not; the second time there is a gap.
func (in *Ingest) arrived(c *claim, fetched *kgo.FetchPartition) bool {
	if c.seeks == 0 {
		return true
	}
	wanted := c.target
	if wanted < 0 {
		wanted = max(fetched.LogStartOffset, 0)
	}
	if c.seeks == 1 && fetched.Records[0].Offset != wanted {
		in.seek([]*claim{c})
		return false
	}
	c.seeks = 0
	return true
}

// advanced notes that the database has moved the positions of claims.
func (in *Ingest) advanced(claims []*claim, advances []dlq.Advance) {
	for i, a := range advances {
		fields := []zap.Field{zap.String("topic", a.Topic), zap.Int32("partition", a.Number),
			zap.Int64("from_offset", a.From.Next), zap.Int64("to_offset", a.To.Next)}
		if a.Lost > 0 {
			in.metrics.lost.WithLabelValues(a.Topic).Add(float64(a.Lost))
			in.status.losing(a.Topic, a.Lost)
			in.log.Error("Kafka has deleted records before they were taken in", append(fields, zap.Int64("lost", a.Lost))...)
		}
		if a.To.Next < claims[i].at.Next {
			in.log.Warn("the log was cut off, by an unclean election; its new records are taken in", fields...)
		}
	}
	in.owned.move(claims, advances)
}
