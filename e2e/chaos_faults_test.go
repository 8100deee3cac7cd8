package e2e

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// faultKind is what can be done to a part.
type faultKind int

const (
	killWorker    faultKind = iota
	stopWorker              // in good order, which excuses nothing
	freezeWorker            // until its lanes are given to another one, and then it goes on
	isolateWorker           // from Temporal alone: its lanes are given to another one while it goes on
	killAPI
	restartBroker
	restartPostgres
	restartTemporal
)

// faultDeck has every kind at least once; a storm draws from it without putting
// back, so that a short run sees them all.
var faultDeck = []faultKind{
	killWorker, killWorker, killWorker, stopWorker, freezeWorker, isolateWorker, killAPI, restartBroker, restartBroker, restartPostgres, restartTemporal,
}

const (
	faultsPerStorm = 5
	calmFor        = 8 * time.Second
)

// storm breaks parts, one after the other; now and then a worker is killed
// while another part is away.
func (c *chaos) storm() {
	c.journal.note("--- storm")
	for range faultsPerStorm {
		if len(c.deck) == 0 {
			c.deck = append(c.deck, faultDeck...)
			c.faultDice.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
		}
		kind := c.deck[0]
		c.deck = c.deck[1:]
		c.fault(kind)
		pause(c.t.Context(), between(c.faultDice, 500*time.Millisecond, 2500*time.Millisecond))
	}
}

// calm leaves everything alone. Its first seconds still belong to the storm.
func (c *chaos) calm() {
	c.waitUntil("all programs are ready again", 2*time.Minute, c.allReady)
	c.journal.note("--- calm")
	pause(c.t.Context(), calmFor)
}

func (c *chaos) fault(kind faultKind) {
	// All numbers are drawn before anything is done: what a seed means must
	// not depend on how things go.
	var (
		hard   = c.faultDice.IntN(2) == 0
		worker = c.workers[c.faultDice.IntN(len(c.workers))]
		down   = between(c.faultDice, 100*time.Millisecond, 3*time.Second)
		also   = c.faultDice.IntN(4) == 0
		later  = between(c.faultDice, 0, time.Second)
		held   = between(c.faultDice, 5*time.Millisecond, 200*time.Millisecond)
		frozen = between(c.faultDice, 3500*time.Millisecond, 5*time.Second)
	)
	c.awaitClaims(time.Second)
	from := time.Now()
	switch kind {
	case killWorker:
		c.journal.count("fault: worker killed")
		c.killWorker(worker, held, down)
	case stopWorker:
		c.journal.count("fault: worker stopped")
		worker.terminate()
		pause(c.t.Context(), down)
		worker.start()
	case freezeWorker:
		c.journal.count("fault: worker frozen")
		c.freezeWorker(worker, held, frozen)
	case isolateWorker:
		c.journal.count("fault: worker isolated")
		c.isolateWorker(worker, held, 3*frozen/2)
	case killAPI:
		c.journal.count("fault: api killed")
		c.api.kill()
		pause(c.t.Context(), down)
		c.api.start()
	case restartBroker:
		c.outage(&outage{part: "broker", kill: c.broker.Kill, stop: c.broker.Stop, start: func() { c.broker.Start(c.t) }, down: down, later: later}, hard, also, worker)
	case restartPostgres:
		c.outage(&outage{part: "postgres", kill: c.postgres.kill, stop: c.postgres.stop, start: c.postgres.start, down: down, later: later, held: held}, hard, also, worker)
	case restartTemporal:
		// Longer, since only beyond the heartbeat timeout lanes change hands.
		c.outage(&outage{part: "temporal", kill: c.temporal.kill, stop: c.temporal.stop, start: c.temporal.start, down: 2 * down, later: later}, hard, also, worker)
	}
	c.journal.note("that fault took %s", time.Since(from).Round(time.Millisecond))
}

// killWorker kills it while its publishes wait for their acknowledgement.
func (c *chaos) killWorker(worker *chaosProgram, held, down time.Duration) {
	at := time.Now()
	c.holding(held, worker.kill)
	c.windows.add("worker", at, time.Now())
	pause(c.t.Context(), down)
	worker.start()
}

// freezeWorker makes a worker hang, as a machine without memory or a paused
// virtual one does. Its lanes go to the other worker, and when it wakes up, in
// the middle of a page, it does not know that yet.
func (c *chaos) freezeWorker(worker *chaosProgram, held, frozen time.Duration) {
	from := time.Now()
	c.holding(held, func() {
		c.journal.note("freeze %s", worker.name)
		worker.process.signal(syscall.SIGSTOP)
	})
	pause(c.t.Context(), frozen)
	c.journal.note("thaw %s", worker.name)
	worker.process.signal(syscall.SIGCONT)
	c.windows.add("frozen", from, time.Now())
}

// isolateWorker cuts a worker off from Temporal alone. Its lanes go to the other
// worker, and it can neither know that nor be told to stop. The broker stutters
// meanwhile, so that the two have pages under way at the same time.
func (c *chaos) isolateWorker(worker *chaosProgram, held, d time.Duration) {
	from := time.Now()
	c.journal.note("isolate %s from temporal", worker.name)
	worker.toTemporal.cut()
	for time.Since(from) < d {
		c.holding(held, func() {})
		pause(c.t.Context(), 100*time.Millisecond)
	}
	c.journal.note("join %s to temporal", worker.name)
	worker.toTemporal.join(c.t)
	c.windows.add("isolated", from, time.Now())
}

// outage is a part that goes away for a while.
type outage struct {
	part              string
	kill, stop, start func()
	down              time.Duration
	// later is when a worker is killed too; held is how long the broker holds
	// back its answers before the part goes away.
	later, held time.Duration
}

func (c *chaos) outage(o *outage, hard, also bool, worker *chaosProgram) {
	from := time.Now()
	goAway := o.stop
	if hard {
		goAway = o.kill
	}
	c.journal.count(fmt.Sprintf("fault: %s %s", o.part, map[bool]string{false: "stopped", true: "killed"}[hard]))
	c.journal.note("%s goes away, killed: %t", o.part, hard)
	if o.held > 0 {
		c.holding(o.held, goAway)
	} else {
		goAway()
	}
	c.journal.note("%s is down", o.part)
	if also {
		c.journal.count("fault: worker killed during an outage")
		pause(c.t.Context(), o.later)
		at := time.Now()
		worker.kill()
		c.windows.add("worker", at, time.Now())
	}
	pause(c.t.Context(), o.down)
	if also {
		worker.start()
	}
	c.journal.note("start %s", o.part)
	o.start()
	c.journal.note("%s is up", o.part)
	c.windows.add(o.part, from, time.Now())
}

// awaitClaims waits a little for messages to be under way, which is when a
// fault hurts most.
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

// watchClaims looks all the time for what no moment may show: a job that is
// paused or has ended, and messages that it still holds.
func (c *chaos) watchClaims(ctx context.Context) {
	for ctx.Err() == nil {
		c.findStrayClaims(ctx)
		pause(ctx, 100*time.Millisecond)
	}
}

func (c *chaos) findStrayClaims(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := c.pool.Query(ctx, `
		SELECT b.id::text, b.state, count(*)
		FROM dlq.dlq_messages m JOIN dlq.dlq_bulk_retries b ON b.id::text = m.owner_token
		WHERE m.status = 'RETRYING' AND b.state <> 'RUNNING'
		GROUP BY b.id, b.state`)
	if err != nil {
		return // away
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
