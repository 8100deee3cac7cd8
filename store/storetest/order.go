package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var order = map[string]func(*testing.T, fixture){
	"without an order, later messages of a failed key are sent": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "a", "a")...)
		lane := f.startLane(unordered)
		f.setStepLimit(lane.Job, 1)
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, keyQueue(1, time.Hour)))
		require.NoError(t, f.SetStepLimit(t.Context(), lane.Job, nil))
		page := f.tryClaim(lane).Page
		require.Equal(t, ids(stored[1:]), envelopeIDs(page))
		f.finalizePage(lane, []dlq.PageOutcome{outcome(page[0], dlq.ResultFailed), outcome(page[1], dlq.ResultDelivered)})
		f.end(lane.Job, dlq.JobCancelled)
	},

	"a key that has failed is blocked for the rest of the job": func(t *testing.T, f fixture) {
		stored := f.store(append(keyed("a", "b", "c", "", "a", "b", "c", "", "d"), dlqtest.Arrival(dlqtest.NoKey), dlqtest.Arrival(dlqtest.NoKey))...)
		other := f.store(dlqtest.Arrival(dlqtest.Key("a"), dlqtest.FromTopic("orders.dlq", "elsewhere")))
		b := f.startBulk(dlqtest.Bulk("orders.dlq", 1))
		lane := f.openLane(dlqtest.Lane(b, 0))
		f.setStepLimit(b.ID, 4)
		page := f.tryClaim(lane).Page
		f.finalizePage(lane, []dlq.PageOutcome{outcome(page[0], dlq.ResultFailed), outcome(page[1], dlq.ResultRejected),
			outcome(page[2], dlq.ResultDelivered), outcome(page[3], dlq.ResultFailed)})
		_, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 100) // the key of an archived message stays blocked
		require.NoError(t, err)
		require.NoError(t, f.SetStepLimit(t.Context(), b.ID, nil))
		page = f.tryClaim(lane).Page
		require.Equal(t, page, f.claimed(lane))
		require.Equal(t, append(ids(stored[4:]), other[0].ID), envelopeIDs(page))
		var blocked []bool
		for _, e := range page {
			blocked = append(blocked, e.Blocked)
		}
		require.Equal(t, []bool{true, true, false, true, false, false, false, false}, blocked, "a key of another topic is another key")
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		for i := range page {
			if blocked[i] {
				outcomes[i] = outcome(page[i], dlq.ResultSkipped)
			}
		}
		f.finalizePage(lane, outcomes)
		require.Equal(t, dlq.JobCounts{Retried: 6, Failed: 2, Dead: 1, Skipped: 3}, f.end(b.ID, dlq.JobCompleted).Counts)
		lane = f.startLane()
		require.Equal(t, []bool{false}, []bool{f.tryClaim(lane).Page[0].Blocked}, "the next job starts without blocked keys")
	},

	"messages wait while another client retries an earlier one of their key": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "a", "b", "a")...)
		lane := f.startLane()
		owner := f.claim(stored[0].ID)
		page := f.tryClaim(lane).Page
		require.Equal(t, []dlq.ID{stored[2].ID}, envelopeIDs(page))
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		b := f.job(lane.Job)
		require.EqualValues(t, 2, b.Waiting)
		require.NotEmpty(t, b.Reason)
		claim := f.tryClaim(lane)
		require.Empty(t, claim.Page)
		require.True(t, claim.Next.OfKey())
		_, _, err := f.Finalize(t.Context(), owner, dlqtest.Failed(stored[0].ID))
		require.NoError(t, err)
		page = f.claimEventually(lane).Page
		require.Equal(t, []dlq.ID{stored[1].ID, stored[3].ID}, envelopeIDs(page), "without the one that the other client has retried")

		// The lane also waits when the other client claims a waiting message.
		f.finalizePage(lane, requeuedPage(page, keyQueue(1, 0)))
		owner = f.claim(stored[1].ID)
		require.Empty(t, f.tryClaim(lane).Page)
		require.EqualValues(t, 2, f.job(lane.Job).Waiting)
		_, _, err = f.Finalize(t.Context(), owner, dlqtest.Delivered(stored[1].ID))
		require.NoError(t, err)
		require.Equal(t, []dlq.ID{stored[3].ID}, f.drain(lane))
		ended := f.end(lane.Job, dlq.JobCompleted)
		require.Equal(t, dlq.JobCounts{Retried: 2, Skipped: 2}, ended.Counts)
	},

	"a key that another bulk retry has claimed waits for it": func(t *testing.T, f fixture) {
		start := func(topic string) dlq.Lane {
			return f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk(topic, 1)), 0))
		}
		from := func(topic, target, key string) dlq.Arrival {
			return dlqtest.Arrival(dlqtest.FromTopic(topic, target), dlqtest.Key(key))
		}
		for _, mixed := range []bool{false, true} {
			arrivals := []dlq.Arrival{
				from("one.dlq", "orders", "a"), from("one.dlq", "orders", "a"),
				from("other.dlq", "orders", "a"), from("other.dlq", "orders", "b"),
			}
			if mixed {
				arrivals[3] = from("other.dlq", "elsewhere", "b")
			}
			stored := f.store(arrivals...)
			one, other := start("one.dlq"), start("other.dlq")
			f.setStepLimit(one.Job, 1)
			claimed := f.tryClaim(one).Page
			require.Equal(t, ids(stored[:1]), envelopeIDs(claimed))
			page := f.tryClaim(other).Page
			require.Equal(t, ids(stored[3:]), envelopeIDs(page))
			f.finalizePage(other, dlqtest.Outcomes(page, dlq.ResultDelivered))
			require.EqualValues(t, 1, f.job(other.Job).Waiting)
			f.finalizePage(one, dlqtest.Outcomes(claimed, dlq.ResultDelivered))
			page = f.claimEventually(other).Page
			require.Equal(t, ids(stored[2:3]), envelopeIDs(page))

			// The same holds when one claims a message of the key while the message of other waits in a queue.
			f.finalizePage(other, requeuedPage(page, keyQueue(1, 0)))
			f.setStepLimit(one.Job, 1)
			claimed = f.tryClaim(one).Page
			require.Equal(t, ids(stored[1:2]), envelopeIDs(claimed))
			require.Empty(t, f.tryClaim(other).Page)
			f.finalizePage(one, dlqtest.Outcomes(claimed, dlq.ResultDelivered))
			require.Equal(t, ids(stored[2:3]), f.drain(other))
			f.end(one.Job, dlq.JobCompleted)
			f.end(other.Job, dlq.JobCompleted)
		}
	},

	"a key that waits for one topic does not wait for another": func(t *testing.T, f fixture) {
		to := func(topic string) dlq.Arrival {
			return dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", topic), dlqtest.Key("a"))
		}
		stored := f.store(to("orders"), to("stock"), to("stock"), to("orders"))
		lane := f.openLane(dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders.dlq", 1)), 0))
		f.setStepLimit(lane.Job, 1)
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, dlq.Wait{Target: partition0, Tries: 1, For: time.Hour}))
		require.NoError(t, f.SetStepLimit(t.Context(), lane.Job, nil))
		require.Equal(t, ids(stored[1:3]), envelopeIDs(f.tryClaim(lane).Page))
		require.EqualValues(t, 2, f.job(lane.Job).Waiting)
	},

	"the tries of the first message of a key do not count for the next one": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "a", "a")...)
		lane := f.startLane()
		page := f.tryClaim(lane).Page
		outcomes := requeuedPage(page, keyQueue(0, 0))
		outcomes[0].Wait.Tries = 9
		f.finalizePage(lane, outcomes)
		f.setStepLimit(lane.Job, 1)
		claim := f.claimEventually(lane)
		require.Equal(t, ids(stored[:1]), envelopeIDs(claim.Page))
		require.Equal(t, 9, claim.Queue.Tries)
		f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		f.setStepLimit(lane.Job, 1)
		claim = f.claimEventually(lane)
		require.Equal(t, ids(stored[1:2]), envelopeIDs(claim.Page))
		require.Zero(t, claim.Queue.Tries)
	},

	"a waiting message stays in its queue while an earlier one of its key is retried": func(t *testing.T, f fixture) {
		stored := f.store(keyed("a", "a")...)
		lane := f.startLane(dlqtest.Filter(dlq.Filter{IDs: []dlq.ID{stored[1].ID}}))
		f.finalizePage(lane, requeuedPage(f.tryClaim(lane).Page, keyQueue(1, 0)))
		single := f.claim(stored[0].ID)
		require.Empty(t, f.tryClaim(lane).Page)
		_, _, err := f.Finalize(t.Context(), single, dlqtest.Delivered(stored[0].ID))
		require.NoError(t, err)
		require.Equal(t, ids(stored[1:]), f.drain(lane))
	},

	"a key that another client retries does not block other keys in the queue of a target": func(t *testing.T, f fixture) {
		keys := slices.Repeat([]string{"hot"}, dlq.PageSize+20)
		stored := f.store(keyed(append(keys, "b", "c")...)...)
		lane := f.startLane()
		page := f.tryClaim(lane).Page
		f.finalizePage(lane, requeuedPage(page, dlq.Wait{Target: partition0, Tries: 1}))
		page = f.tryClaim(lane).Page // one message tries the target
		f.finalizePage(lane, []dlq.PageOutcome{delivered(page[0], partition0)})
		single := f.claim(stored[1].ID)
		var sent []dlq.ID
		require.Eventually(t, func() bool {
			page := f.tryClaim(lane).Page
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			sent = append(sent, envelopeIDs(page)...)
			return len(sent) == 2
		}, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, ids(stored[dlq.PageSize+20:]), sent)

		_, _, err := f.Finalize(t.Context(), single, dlqtest.Delivered(stored[1].ID))
		require.NoError(t, err)
		sent = nil
		require.Eventually(t, func() bool {
			page := f.tryClaim(lane).Page
			f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			sent = append(sent, envelopeIDs(page)...)
			return len(sent) == dlq.PageSize+18
		}, 10*time.Second, 5*time.Millisecond)
		require.Equal(t, ids(stored[2:dlq.PageSize+20]), sent)
	},

	"the order of a key is kept under random faults": func(t *testing.T, f fixture) {
		for range 3 {
			seed := rand.Uint64() //nolint:gosec // any will do
			newChaos(t, f, seed).run()
		}
	},
}

// chaos is a publisher that refuses messages and whose partitions open and close at random. It also
// is the operators who retry single messages.
type chaos struct {
	fixture
	seed     uint64
	rand     *rand.Rand
	messages map[dlq.ID]dlq.Message
	keys     map[dlq.ID]string
	closed   []bool
	sent     map[string][]int64
	owners   map[dlq.ID]dlq.Owner
	singles  int
}

func newChaos(t *testing.T, f fixture, seed uint64) *chaos {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed must repeat
	c := &chaos{fixture: f, seed: seed, rand: dice, messages: map[dlq.ID]dlq.Message{}, keys: map[dlq.ID]string{},
		closed: make([]bool, 3), sent: map[string][]int64{}, owners: map[dlq.ID]dlq.Owner{}}
	arrivals := make([]dlq.Arrival, 150)
	for i := range arrivals {
		arrivals[i] = dlqtest.Arrival(dlqtest.Key(fmt.Sprint("key-", c.rand.IntN(12))))
		c.keys[arrivals[i].ID] = string(arrivals[i].Record.Key)
	}
	for _, m := range f.store(arrivals...) {
		c.messages[m.ID] = m
	}
	return c
}

func (c *chaos) partition(key string) int32 { return int32(key[len(key)-1]) % 3 }

// publish returns an outcome for each message of a page, as a lane would.
func (c *chaos) publish(claim dlq.LaneClaim) []dlq.PageOutcome {
	var outcomes []dlq.PageOutcome
	blocked := map[string]dlq.Wait{}
	for _, e := range claim.Page {
		key := string(e.Record.Key)
		target := dlq.Target{Topic: "orders", Partition: c.partition(key)}
		tries := 0
		if claim.Queue != nil && (claim.Queue.OfKey() || claim.Queue.Target == target) {
			tries = claim.Queue.Tries
		}
		wait, isBlocked := blocked[key]
		switch {
		case isBlocked:
			wait.Tries = 0
		case slices.Contains(claim.Closed, target) && (claim.Queue == nil || claim.Queue.OfKey() || claim.Queue.Target != target):
			wait = dlq.Wait{Target: target}
		case c.closed[target.Partition]:
			wait = dlq.Wait{Target: target, Tries: tries + 1, For: time.Duration(c.rand.IntN(3)) * time.Millisecond}
		case !slices.Contains(claim.Closed, target) && c.rand.IntN(12) == 0:
			wait = keyQueue(tries+1, time.Duration(c.rand.IntN(3))*time.Millisecond)
		default:
			outcomes = append(outcomes, delivered(e, target))
			c.sent[key] = append(c.sent[key], e.Seq)
			continue
		}
		blocked[key] = wait
		outcomes = append(outcomes, requeued(e, wait))
	}
	return outcomes
}

// disturb opens and closes partitions, and starts or ends single retries. If calm is set, it
// opens all partitions and ends all single retries.
func (c *chaos) disturb(calm bool) {
	for i := range c.closed {
		if calm {
			c.closed[i] = false
		} else if c.rand.IntN(6) == 0 {
			c.closed[i] = !c.closed[i]
		}
	}
	for id, owner := range maps.Clone(c.owners) {
		if calm || c.rand.IntN(8) == 0 {
			_, _, err := c.Finalize(c.t.Context(), owner, dlqtest.Delivered(id))
			require.NoError(c.t, err)
			delete(c.owners, id)
		}
	}
	if calm || c.rand.IntN(8) > 0 || c.singles == 8 {
		return
	}
	for id, m := range c.messages {
		owner := dlqtest.Owner()
		if _, err := c.Claim(c.t.Context(), id, owner, dlq.ID{}); err == nil {
			c.owners[id] = owner
			c.singles++
			delete(c.messages, m.ID)
			return
		}
	}
}

// requireAllowed checks that no single retry has an earlier message of the key.
func (c *chaos) requireAllowed(e dlq.PageEnvelope) {
	for id := range c.owners {
		if c.keys[id] == string(e.Record.Key) {
			require.Greater(c.t, c.message(id).Seq, e.Seq, "a single retry has an earlier message of the key, seed %d", c.seed)
		}
	}
}

func (c *chaos) run() {
	t := c.t
	b := c.startBulk(dlqtest.Bulk("orders", 2))
	lanes := []dlq.Lane{c.openLane(dlqtest.Lane(b, 0)), c.openLane(dlqtest.Lane(b, 1))}
	began := time.Now()
	for round, idle := 0, 0; idle < len(lanes); round++ {
		require.Less(t, time.Since(began), time.Minute, "it does not end, seed %d", c.seed)
		calm := round > 150
		c.disturb(calm)
		n := c.rand.IntN(len(lanes))
		if calm {
			n = round % len(lanes)
		}
		if !calm && c.rand.IntN(10) == 0 {
			c.setStepLimit(b.ID, int64(c.rand.IntN(10)))
		} else {
			require.NoError(t, c.SetStepLimit(t.Context(), b.ID, nil))
		}
		claim := c.tryClaim(lanes[n])
		for _, e := range claim.Page {
			c.requireAllowed(e)
		}
		switch {
		case len(claim.Page) > 0 && (claim.Queue == nil || claim.Queue.OfKey()) && c.rand.IntN(15) == 0:
			lanes[n] = c.openLane(lanes[n]) // a crash before anything was sent
			require.NoError(t, c.ReleasePage(t.Context(), lanes[n]))
		case len(claim.Page) > 0:
			c.finalizePage(lanes[n], c.publish(claim))
		}
		if len(claim.Page) == 0 && claim.Next == nil && claim.Wait == 0 && calm {
			idle++
		} else {
			idle = 0
		}
		if claim.Next != nil {
			time.Sleep(min(claim.Next.Due, 5*time.Millisecond)) // as a lane does
		}
	}
	for key, seqs := range c.sent {
		require.True(t, slices.IsSorted(seqs), "%s: %v, seed %d", key, seqs, c.seed)
	}
	sent := 0
	for _, seqs := range c.sent {
		sent += len(seqs)
	}
	found := c.job(b.ID)
	require.Zero(t, found.Waiting, "seed %d", c.seed)
	require.EqualValues(t, sent, found.Counts.Retried)
	require.Equal(t, 150-c.singles, sent, "seed %d", c.seed)
	ended := c.end(b.ID, dlq.JobCompleted)
	require.Equal(t, dlq.JobCounts{Retried: int64(sent), Skipped: int64(c.singles)}, ended.Counts)
}
