package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// place is one partition.
type place struct {
	topic     string
	partition int32
}

// claim is one assignment of a partition to this member. When the partition is
// taken away and given back, that is another claim.
type claim struct {
	place
	topicID   [16]byte
	stored    kgo.EpochOffset // just past the newest stored record; -1 at first
	committed int64
}

// ownership knows which partitions are ours. Its lock is held during a commit,
// so that a partition is not given to another member before its commit ended:
// a late commit could set that member's offset back.
type ownership struct {
	mu     sync.Mutex
	claims map[place]*claim
}

func newOwnership() *ownership { return &ownership{claims: map[place]*claim{}} }

// claim returns nil when the partition is not ours.
func (o *ownership) claim(p place, topicID [16]byte) *claim {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims[p]
	if c != nil && c.topicID != topicID {
		if c.topicID != ([16]byte{}) { // deleted and created again: offsets start over
			c = newClaim(p)
			o.claims[p] = c
		}
		c.topicID = topicID
	}
	return c
}

func newClaim(p place) *claim {
	return &claim{place: p, stored: kgo.EpochOffset{Epoch: -1, Offset: -1}, committed: -1}
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

func (o *ownership) advance(batch []received) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range batch {
		r.claim.stored = r.after
	}
}

// places lists the partitions of each topic, with the offset up to which each
// is stored, or -1.
func (o *ownership) places() map[string]map[int32]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	topics := map[string]map[int32]int64{}
	for p, c := range o.claims {
		if topics[p.topic] == nil {
			topics[p.topic] = map[int32]int64{}
		}
		topics[p.topic][p.partition] = c.stored.Offset
	}
	return topics
}

// change calls fn for every partition, under the lock.
func (o *ownership) change(partitions map[string][]int32, fn func(place)) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for topic, numbers := range partitions {
		for _, number := range numbers {
			fn(place{topic, number})
		}
	}
	return len(o.claims)
}

// assigned, revoked and lost are called by the group, one at a time, and never
// between a poll and AllowRebalance.
func (in *Ingest) assigned(added map[string][]int32) {
	n := in.owned.change(added, func(p place) { in.owned.claims[p] = newClaim(p) })
	in.status.owning(n)
	in.status.joined(nil)
	if len(added) > 0 {
		in.log.Info("partitions assigned", zap.Any("partitions", added))
	}
}

func (in *Ingest) revoked(ctx context.Context, gone map[string][]int32) {
	in.commit(ctx, gone) // only what an earlier commit failed to
	in.drop(gone, "partitions revoked")
}

// lost commits nothing: the partitions are already someone else's.
func (in *Ingest) lost(gone map[string][]int32) { in.drop(gone, "partitions lost") }

func (in *Ingest) drop(gone map[string][]int32, what string) {
	n := in.owned.change(gone, func(p place) { delete(in.owned.claims, p) })
	in.status.owning(n)
	if len(gone) > 0 {
		in.log.Info(what, zap.Any("partitions", gone))
	}
}

// commit tells the group what is stored, of the given partitions or, when that
// is nil, of all that are ours. A commit that fails is made up for by the next;
// until then the records in between would be read again and skipped.
func (in *Ingest) commit(ctx context.Context, only map[string][]int32) {
	in.owned.mu.Lock()
	defer in.owned.mu.Unlock()
	offsets, claims := map[string]map[int32]kgo.EpochOffset{}, []*claim{}
	add := func(c *claim) {
		if c == nil || c.stored.Offset <= c.committed {
			return
		}
		if offsets[c.topic] == nil {
			offsets[c.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[c.topic][c.partition] = c.stored
		claims = append(claims, c)
	}
	if only == nil {
		for _, c := range in.owned.claims {
			add(c)
		}
	} else {
		for topic, numbers := range only {
			for _, number := range numbers {
				add(in.owned.claims[place{topic, number}])
			}
		}
	}
	if len(claims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		sign(request, claims)
		return nil
	})
	in.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
		if err == nil {
			err = commitError(response)
		}
		if err != nil {
			in.log.Warn("offsets not committed; their records may be read again, and are then skipped", zap.Error(err))
			in.status.kafka(err)
			return
		}
		for _, c := range claims {
			c.committed = c.stored.Offset
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
