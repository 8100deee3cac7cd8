package e2e

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// killWorker kills a worker while its publishes wait for their acknowledgement.
func (c *chaos) killWorker(d *dice) bool {
	at := time.Now()
	c.holding(d.held, d.worker.kill)
	c.windows.add("kill-worker", at, time.Now())
	pause(c.t.Context(), d.down)
	d.worker.start()
	return true
}

// stopWorker stops a worker cleanly. A clean stop excuses no copies.
func (c *chaos) stopWorker(d *dice) bool {
	d.worker.terminate()
	pause(c.t.Context(), d.down)
	d.worker.start()
	return true
}

func (c *chaos) killAPI(d *dice) bool {
	c.api.kill()
	pause(c.t.Context(), d.down)
	c.api.start()
	return true
}

// freezeWorker suspends a worker, as if its machine had no memory or were paused. The worker's lanes move
// to the other worker. When the worker resumes in the middle of a page, it does not know yet that its lanes
// have moved.
func (c *chaos) freezeWorker(d *dice) bool {
	from := time.Now()
	c.holding(d.held, func() {
		c.journal.note("freeze %s", d.worker.name)
		d.worker.process.signal(syscall.SIGSTOP)
	})
	pause(c.t.Context(), d.frozen)
	c.journal.note("thaw %s", d.worker.name)
	d.worker.process.signal(syscall.SIGCONT)
	c.windows.add("freeze-worker", from, time.Now())
	return true
}

// isolateWorker disconnects a worker from Temporal only. Its lanes move to the other worker. The isolated
// worker does not learn that its lanes have moved, and Temporal cannot stop it. Meanwhile the broker is
// suspended repeatedly, so that both workers have pages in flight.
func (c *chaos) isolateWorker(d *dice) bool {
	from := time.Now()
	c.journal.note("isolate %s from temporal", d.worker.name)
	d.worker.ways["temporal"].cut()
	for time.Since(from) < 3*d.frozen/2 {
		c.holding(d.held, func() {})
		pause(c.t.Context(), 100*time.Millisecond)
	}
	c.journal.note("join %s to temporal", d.worker.name)
	d.worker.ways["temporal"].join(c.t)
	c.windows.add("isolate-worker", from, time.Now())
	return true
}

// silence makes the connections of a program to a part hang for ever, and also the connections that are
// opened soon afterwards. Each strike takes the next program.
func silence(part string) func(*chaos, *dice) bool {
	turn := 0
	return func(c *chaos, d *dice) bool {
		program := c.programs()[turn%len(c.programs())]
		turn++
		from, open := time.Now(), 0
		c.holding(d.held, func() { open = program.ways[part].silence(d.silent) })
		c.journal.note("%d connections from %s to %s are silent, new ones for %s", open, program.name, part, d.silent)
		c.journal.count(fmt.Sprintf("variant: %s to %s silent", program.name, part))
		pause(c.t.Context(), d.silent)
		if program != c.api { // the API sends no messages
			c.windows.add("silent-"+part, from, time.Now())
		}
		return open > 0
	}
}

func (c *chaos) restartBroker(d *dice) bool {
	return c.outage(&outage{part: "broker", kill: c.broker.Kill, stop: c.broker.Stop, start: func() { c.broker.Start(c.t) }, down: d.down}, d)
}

func (c *chaos) restartPostgres(d *dice) bool {
	return c.outage(&outage{part: "postgres", kill: c.postgres.kill, stop: c.postgres.stop, start: c.postgres.start, down: d.down, held: d.held}, d)
}

// restoreDatabase restores the database to an earlier moment, as with a backup, or as in a
// failover to a replica that lagged.
func (c *chaos) restoreDatabase(d *dice) bool {
	from := time.Now()
	c.journal.note("back up the database")
	c.postgres.stop()
	c.postgres.copyData("data", "backup")
	c.postgres.start()
	until := time.Now().Add(d.silent)
	c.pauseAll(until)
	pause(c.t.Context(), time.Until(until))
	c.journal.note("restore the database")
	c.restored.Store(true)
	c.holding(d.held, c.postgres.stop)
	c.postgres.copyData("backup", "data")
	c.postgres.start()
	c.journal.note("the database is as it was %s ago", time.Since(from).Round(time.Millisecond))
	c.windows.add("restore", from, time.Now())
	return true
}

// pauseAll pauses the job of each topic once, until the given time. After the restore, the database no
// longer has the pauses.
func (c *chaos) pauseAll(until time.Time) {
	ctx, cancel := context.WithDeadline(c.t.Context(), until)
	defer cancel()
	paused := map[string]bool{}
	for ; ctx.Err() == nil && len(paused) < len(chaosTopics); pause(ctx, 200*time.Millisecond) {
		for _, topic := range chaosTopics {
			live, known := c.liveJob(ctx, topic.dlq)
			if !known || paused[topic.dlq] {
				continue
			}
			paused[topic.dlq] = true
			if live != nil {
				c.journal.count("variant: paused, and forgotten by the restore")
				c.steer(ctx, live.ID, "pause", 0)
			}
		}
	}
}

func (c *chaos) restartTemporal(d *dice) bool {
	// The outage is longer than the heartbeat timeout, so that lanes move to other workers.
	return c.outage(&outage{part: "temporal", kill: c.temporal.kill, stop: c.temporal.stop, start: c.temporal.start, down: 2 * d.down}, d)
}

// outage is a part that is unavailable for a while.
type outage struct {
	part              string
	kill, stop, start func()
	down              time.Duration
	// held is how long the broker is suspended before the part stops.
	held time.Duration
}

func (c *chaos) outage(o *outage, d *dice) bool {
	from := time.Now()
	goAway := o.stop
	if d.hard {
		goAway = o.kill
	}
	c.journal.count(fmt.Sprintf("variant: %s %s", o.part, map[bool]string{false: "stopped", true: "killed"}[d.hard]))
	c.journal.note("%s stops, killed: %t", o.part, d.hard)
	if o.held > 0 {
		c.holding(o.held, goAway)
	} else {
		goAway()
	}
	c.journal.note("%s is down", o.part)
	if d.also {
		c.journal.count("variant: worker killed during an outage")
		pause(c.t.Context(), d.later)
		at := time.Now()
		d.worker.kill()
		c.windows.add("kill-worker", at, time.Now())
	}
	pause(c.t.Context(), o.down)
	if d.also {
		d.worker.start()
	}
	c.journal.note("start %s", o.part)
	o.start()
	c.journal.note("%s is up", o.part)
	c.windows.add(o.part, from, time.Now())
	return true
}
