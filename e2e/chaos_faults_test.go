package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// fault is one kind of fault.
type fault struct {
	// name is the name of the kind in the journal, the summary and DLQ_CHAOS_FAULTS.
	name string
	// weight is how often the kind is in a deck of faults.
	weight int
	// aside is set if the storm continues while the fault lasts. The calm may begin before the fault ends.
	aside bool
	// excuses says which copies the fault excuses; nil for no copies.
	excuses *reach
	// whole is set if every message may be sent once more, not only a page of each lane.
	whole bool
	// blocks is set if sent pages cannot be finalized while the fault lasts.
	blocks bool
	// strike injects the fault, and reports whether it took effect.
	strike func(*chaos, *dice) bool
}

// reach is how long before and after its window a fault excuses copies.
type reach struct{ before, after time.Duration }

const (
	// inFlight is the longest time between publish and finalize of a page, on a slow
	// machine.
	inFlight = 5 * time.Second
	// deliveryTimeout is how long the publisher retries a request to a broker that does not
	// answer.
	deliveryTimeout = 6 * time.Second
	// handOver is how long lanes may run twice after Temporal is back. Temporal missed the lanes'
	// heartbeats and gave the lanes to another worker. The old worker learns of that from its next
	// heartbeat, once it is connected again.
	handOver = 12 * time.Second
	// keepAlive is how long Temporal's client waits on a silent connection.
	keepAlive = 45 * time.Second
	// pooled is how long a client may wait on a silent connection of its pool, until its
	// statement times out.
	pooled = 15 * time.Second
)

var faults = []fault{
	{name: "kill-worker", weight: 3, strike: (*chaos).killWorker, excuses: &reach{before: inFlight}},
	{name: "stop-worker", weight: 1, strike: (*chaos).stopWorker},
	{name: "freeze-worker", weight: 1, strike: (*chaos).freezeWorker, excuses: &reach{before: inFlight, after: 2 * time.Second}},
	{name: "isolate-worker", weight: 1, strike: (*chaos).isolateWorker, excuses: &reach{before: inFlight, after: handOver}},
	{name: "kill-api", weight: 1, strike: (*chaos).killAPI},
	{name: "broker", weight: 2, strike: (*chaos).restartBroker, excuses: &reach{before: inFlight + deliveryTimeout, after: 2 * time.Second}},
	{name: "postgres", weight: 1, strike: (*chaos).restartPostgres, excuses: &reach{before: inFlight, after: 2 * time.Second}, blocks: true},
	{name: "restore", weight: 1, strike: (*chaos).restoreDatabase, excuses: &reach{before: inFlight, after: pooled}, whole: true, blocks: true},
	{name: "temporal", weight: 1, strike: (*chaos).restartTemporal, excuses: &reach{before: inFlight, after: handOver}},
	{name: "silent-postgres", weight: 1, strike: silence("postgres"), excuses: &reach{before: inFlight, after: pooled}, blocks: true},
	{name: "silent-broker", weight: 1, strike: silence("broker"), excuses: &reach{before: inFlight + deliveryTimeout, after: pooled}},
	{name: "silent-temporal", weight: 1, strike: silence("temporal"), excuses: &reach{before: inFlight, after: keepAlive + handOver}},
	{name: "rowlock", weight: 1, strike: (*chaos).lockRows, aside: true, blocks: true},
	{name: "index", weight: 1, strike: (*chaos).buildIndex, aside: true, blocks: true},
	{name: "minisr", weight: 1, strike: (*chaos).closeTarget},
	// A message is sent again if somebody sets it back to PENDING by hand while it is being sent.
	{name: "hand", weight: 1, strike: (*chaos).writeByHand, excuses: &reach{before: inFlight, after: 2 * time.Second}},
	{name: "cancel", weight: 1, strike: (*chaos).cancelRetries},
}

// faultNamed returns nil for an unknown name.
func faultNamed(name string) *fault {
	if i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name }); i >= 0 {
		return &faults[i]
	}
	return nil
}

// envChaosFaults selects kinds of faults, separated by commas.
const envChaosFaults = "DLQ_CHAOS_FAULTS"

func (c *chaos) chooseFaults() error {
	text := os.Getenv(envChaosFaults)
	for i := range faults {
		if text == "" {
			c.kinds = append(c.kinds, &faults[i])
		}
	}
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		f := faultNamed(strings.TrimSpace(name))
		if f == nil {
			return fmt.Errorf("%s: there is no fault %q", envChaosFaults, name)
		}
		c.kinds = append(c.kinds, f)
	}
	return nil
}

const (
	faultsPerStorm = 6
	calmFor        = 7 * time.Second
	// evenRounds is the number of first decks, which have each kind once. Ten minutes are
	// enough for these decks, so each kind strikes three times in such a run.
	evenRounds = 3
)

// draw takes the next fault from the deck.
func (c *chaos) draw() *fault {
	if len(c.deck) == 0 {
		for _, f := range c.kinds {
			n := f.weight
			if c.round < evenRounds {
				n = 1
			}
			for range n {
				c.deck = append(c.deck, f)
			}
		}
		c.faultDice.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
		c.round++
	}
	f := c.deck[0]
	c.deck = c.deck[1:]
	return f
}

// storm injects faults one after another. Sometimes a worker is killed while another part
// is unavailable.
func (c *chaos) storm() {
	c.journal.note("--- storm")
	for range faultsPerStorm {
		c.fault(c.draw())
		pause(c.t.Context(), between(c.faultDice, 500*time.Millisecond, 2500*time.Millisecond))
	}
}

// calm waits until all programs are ready again, and then injects no faults for a while. The faults of the
// storm may still excuse copies that are sent in the first seconds of the calm.
func (c *chaos) calm() {
	c.waitUntil("all programs are ready again", 2*time.Minute, c.allReady)
	c.journal.note("--- calm")
	pause(c.t.Context(), calmFor)
}

// dice are the random choices of one fault. All choices are drawn before the fault strikes, so that the
// later choices of a seed do not depend on the course of the fault.
type dice struct {
	hard, also                bool
	worker                    *chaosProgram
	topic                     chaosTopic
	down, later, held, frozen time.Duration
	silent, locked, indexed   time.Duration
	closed                    time.Duration
	number                    uint64
}

func (c *chaos) roll() *dice {
	d := &dice{
		hard:    c.faultDice.IntN(2) == 0,
		worker:  c.workers[c.faultDice.IntN(len(c.workers))],
		down:    between(c.faultDice, 100*time.Millisecond, 3*time.Second),
		also:    c.faultDice.IntN(4) == 0,
		later:   between(c.faultDice, 0, time.Second),
		held:    between(c.faultDice, 5*time.Millisecond, 200*time.Millisecond),
		frozen:  between(c.faultDice, 3500*time.Millisecond, 5*time.Second),
		silent:  between(c.faultDice, 3*time.Second, 6*time.Second),
		locked:  30 * time.Second,
		indexed: between(c.faultDice, 15*time.Second, 30*time.Second),
		closed:  between(c.faultDice, 8*time.Second, 12*time.Second),
		topic:   chaosTopics[c.faultDice.IntN(len(chaosTopics))],
		number:  c.faultDice.Uint64(),
	}
	if c.duration <= chaosLong {
		d.locked, d.indexed, d.closed, d.silent = d.locked/8, d.indexed/8, d.closed/3, d.silent/2
	}
	return d
}

func (c *chaos) fault(f *fault) {
	d := c.roll()
	c.awaitClaims(time.Second)
	strike := func() {
		from := time.Now()
		c.journal.note("fault %s", f.name)
		if f.strike(c, d) {
			c.journal.count("fault: " + f.name)
			c.struck.add(f.name)
		} else {
			c.journal.count("fault without effect: " + f.name)
		}
		c.journal.note("fault %s took %s", f.name, time.Since(from).Round(time.Millisecond))
	}
	if f.aside {
		c.aside.Wait() // one fault at a time, since a second fault would wait for the lock of the first
		c.aside.Go(strike)
		return
	}
	strike()
}

const (
	// enoughStrikes is how often each kind must strike in a run of longEnough or more.
	enoughStrikes = 3
	longEnough    = 10 * time.Minute
)

// countStrikes requires that a long run has injected every kind of fault often enough.
func (c *chaos) countStrikes() {
	for _, f := range c.kinds {
		if n := c.struck.of(f.name); n < enoughStrikes && c.duration >= longEnough {
			c.journal.violate("fault %s struck %d times in %s, which proves little", f.name, n, c.duration)
		}
	}
}

// awaitClaims waits briefly for RETRYING messages, so that the fault affects some messages.
func (c *chaos) awaitClaims(limit time.Duration) {
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	for ctx.Err() == nil {
		var n int
		err := c.pool.QueryRow(ctx, "SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'").Scan(&n)
		if err == nil && n > 0 {
			c.journal.note("%d messages are under way", n)
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// watchClaims checks repeatedly that paused and ended jobs own no messages.
func (c *chaos) watchClaims(ctx context.Context) {
	for ctx.Err() == nil {
		c.findStrayClaims(ctx)
		pause(ctx, 100*time.Millisecond)
	}
}

func (c *chaos) findStrayClaims(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c.hands.writing.RLock()
	defer c.hands.writing.RUnlock()
	rows, err := c.pool.Query(ctx, `
		SELECT b.id::text, b.state, count(*)
		FROM dlq.dlq_messages m JOIN dlq.dlq_jobs b ON b.id::text = m.owner_token
		WHERE m.status = 'RETRYING' AND b.state IN ('PAUSED', 'COMPLETED', 'CANCELLED', 'FAILED') AND m.id::text <> ALL ($1)
		GROUP BY b.id, b.state`, c.hands.ids())
	if err != nil {
		return // the database is unavailable
	}
	defer rows.Close()
	for rows.Next() {
		var id, state string
		var n int
		if rows.Scan(&id, &state, &n) == nil {
			c.journal.violate("bulk retry %s is %s and %d of its messages are RETRYING", id, state, n)
		}
	}
}
