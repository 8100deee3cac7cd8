package kafka

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// place is one partition.
type place struct {
	topic     string
	partition int32
}

// claim is a partition that this member reads on from a position. A partition that is
// taken away and given back is another claim, and so is one whose position has moved
// under us: records that were fetched for the claim before are dropped.
type claim struct {
	place
	topicID  [16]byte
	at       dlq.Position // as the database has it
	reported int64        // the offset that the group was told last
	// seeks is how often the client was told to go to target, since the position has
	// moved under us; 0 once records have come from there.
	seeks  int
	target int64
	// since is when it became ours, and emptied how often in a row the log was found
	// to begin beyond it and to hold nothing.
	since   time.Time
	emptied int
	looked  time.Time // when the log was found so
}

func (c *claim) partitionID() dlq.Partition {
	return dlq.Partition{TopicID: c.topicID, Number: c.partition}
}

// of is the same partition of the topic that was created anew. Its position is to be
// asked for: nobody has this one.
func (c *claim) of(topicID [16]byte) *claim {
	return &claim{place: c.place, topicID: topicID, at: dlq.Position{Next: math.MinInt64}, reported: -1, since: time.Now()}
}

// ownership knows which partitions are ours. A member that does not know yet that it
// has lost one does no harm: the database refuses what it brings.
type ownership struct {
	mu     sync.Mutex
	claims map[place]*claim
}

func newOwnership() *ownership { return &ownership{claims: map[place]*claim{}} }

// claim returns nil when the partition is not ours.
func (o *ownership) claim(p place) *claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claims[p]
}

// replace gives claims that are still ours other positions, and returns the claims that
// take their place.
func (o *ownership) replace(claims []*claim, positions []dlq.Position) (after []*claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range claims {
		if o.claims[c.place] == c {
			moved := &claim{place: c.place, topicID: c.topicID, at: positions[i], reported: c.reported, since: time.Now()}
			o.claims[c.place] = moved
			after = append(after, moved)
		}
	}
	return after
}

// set makes claims ours, in the place of those before.
func (o *ownership) set(claims []*claim) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range claims {
		o.claims[c.place] = c
	}
	return len(o.claims)
}

func (o *ownership) remove(gone map[string][]int32) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for topic, numbers := range gone {
		for _, number := range numbers {
			delete(o.claims, place{topic, number})
		}
	}
	return len(o.claims)
}

// all lists the claims, of the given partitions or, when that is nil, of every one.
func (o *ownership) all(only map[string][]int32) (claims []*claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if only == nil {
		for _, c := range o.claims {
			claims = append(claims, c)
		}
	}
	for topic, numbers := range only {
		for _, number := range numbers {
			if c := o.claims[place{topic, number}]; c != nil {
				claims = append(claims, c)
			}
		}
	}
	return claims
}

// filter keeps what still belongs to us.
func (o *ownership) filter(batch []received) []received {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := batch[:0:0]
	for _, r := range batch {
		if o.claims[r.claim.place] == r.claim {
			kept = append(kept, r)
		}
	}
	return kept
}

// move sets the positions of claims as they are in the database now.
func (o *ownership) move(claims []*claim, advances []dlq.Advance) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, c := range claims {
		c.at, c.emptied = advances[i].To, 0
	}
}

// positions lists the partitions of each topic, with the position of each.
func (o *ownership) positions() map[string]map[int32]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	topics := map[string]map[int32]int64{}
	for p, c := range o.claims {
		if topics[p.topic] == nil {
			topics[p.topic] = map[int32]int64{}
		}
		topics[p.topic][p.partition] = c.at.Next
	}
	return topics
}

// assigned, revoked and lost are called by the group, one at a time, and never
// between a poll and AllowRebalance. The partitions are ours once their positions are
// known.
func (in *Ingest) assigned(client *kgo.Client, added map[string][]int32) {
	in.group.Store(client)
	in.status.joined(nil)
	if len(added) > 0 {
		in.log.Info("partitions assigned", zap.Any("partitions", added))
	}
}

func (in *Ingest) revoked(ctx context.Context, gone map[string][]int32) {
	in.report(ctx, in.owned.all(gone))
	in.drop(gone, "partitions revoked")
}

func (in *Ingest) lost(gone map[string][]int32) { in.drop(gone, "partitions lost") }

func (in *Ingest) drop(gone map[string][]int32, what string) {
	in.status.owning(in.owned.remove(gone))
	if len(gone) > 0 {
		in.log.Info(what, zap.Any("partitions", gone))
	}
}

// report commits how far the partitions have been taken in, for Kafka's tools and
// their users. Nothing depends on it, so it is no harm when it fails or comes late.
func (in *Ingest) report(ctx context.Context, claims []*claim) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	in.owned.mu.Lock()
	for _, c := range claims {
		if c.at.Next < 0 || c.at.Next == c.reported {
			continue
		}
		if offsets[c.topic] == nil {
			offsets[c.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[c.topic][c.partition] = kgo.EpochOffset{Epoch: c.at.Epoch, Offset: c.at.Next}
	}
	in.owned.mu.Unlock()
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
			in.log.Warn("offsets not committed; Kafka's tools show a lag that is none", zap.Error(err))
			return
		}
		in.owned.mu.Lock()
		defer in.owned.mu.Unlock()
		for _, c := range claims {
			if offset, reported := offsets[c.topic][c.partition]; reported {
				c.reported = offset.Offset
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
