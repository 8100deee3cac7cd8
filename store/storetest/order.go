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

// chaos is a publisher whose partitions open and close and which refuses messages, and
// operators who retry messages alone.
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

// publish answers for each message of a page as a lane would write it down.
func (c *chaos) publish(claim dlq.LaneClaim) []dlq.PageOutcome {
	var outcomes []dlq.PageOutcome
	behind := map[string]dlq.Wait{}
	for _, e := range claim.Page {
		key := string(e.Record.Key)
		target := dlq.Target{Topic: "orders", Partition: c.partition(key)}
		tries := 0
		if claim.Queue != nil && (claim.Queue.OfKey || claim.Queue.Target == target) {
			tries = claim.Queue.Tries
		}
		wait, waits0 := behind[key]
		switch {
		case waits0:
			wait.Tries = 0
		case slices.Contains(claim.Closed, target) && (claim.Queue == nil || claim.Queue.OfKey || claim.Queue.Target != target):
			wait = dlq.Wait{Target: target}
		case c.closed[target.Partition]:
			wait = dlq.Wait{Target: target, Tries: tries + 1, For: time.Duration(c.rand.IntN(3)) * time.Millisecond}
		case !slices.Contains(claim.Closed, target) && c.rand.IntN(12) == 0:
			wait = ofKey(tries+1, time.Duration(c.rand.IntN(3))*time.Millisecond)
		default:
			outcomes = append(outcomes, delivered(e, target))
			c.sent[key] = append(c.sent[key], e.Seq)
			continue
		}
		behind[key] = wait
		outcomes = append(outcomes, waits(e, wait))
	}
	return outcomes
}

// meddle opens and closes partitions, and begins or ends a retry of a message alone.
func (c *chaos) meddle(calm bool) {
	for i := range c.closed {
		if calm {
			c.closed[i] = false
		} else if c.rand.IntN(6) == 0 {
			c.closed[i] = !c.closed[i]
		}
	}
	for id, owner := range maps.Clone(c.owners) {
		if calm || c.rand.IntN(8) == 0 {
			_, err := c.Finalize(c.t.Context(), owner, dlqtest.Sent(id))
			require.NoError(c.t, err)
			delete(c.owners, id)
		}
	}
	if calm || c.rand.IntN(8) > 0 || c.singles == 8 {
		return
	}
	for id, m := range c.messages {
		owner := dlqtest.Owner()
		if _, err := c.Claim(c.t.Context(), id, owner); err == nil {
			c.owners[id] = owner
			c.singles++
			delete(c.messages, m.ID)
			return
		}
	}
}

// allowed expects that nobody else retries an earlier message of the key.
func (c *chaos) allowed(e dlq.PageEnvelope) {
	for id := range c.owners {
		if c.keys[id] == string(e.Record.Key) {
			require.Greater(c.t, c.message(id).Seq, e.Seq, "somebody else retries an earlier message of the key, seed %d", c.seed)
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
		c.meddle(calm)
		n := c.rand.IntN(len(lanes))
		if calm {
			n = round % len(lanes)
		}
		if !calm && c.rand.IntN(10) == 0 {
			c.allow(b.ID, int64(c.rand.IntN(10)))
		} else {
			require.NoError(t, c.SetBulkAllowance(t.Context(), b.ID, nil))
		}
		claim := c.ask(lanes[n])
		for _, e := range claim.Page {
			c.allowed(e)
		}
		switch {
		case len(claim.Page) > 0 && (claim.Queue == nil || claim.Queue.OfKey) && c.rand.IntN(15) == 0:
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
	found := c.bulk(b.ID)
	require.Zero(t, found.Waiting, "seed %d", c.seed)
	require.EqualValues(t, sent, found.Counts.Retried)
	require.Equal(t, 150-c.singles, sent, "seed %d", c.seed)
	ended := c.end(b.ID, dlq.BulkCompleted)
	require.Equal(t, dlq.BulkCounts{Retried: int64(sent), Skipped: int64(c.singles)}, ended.Counts)
}
