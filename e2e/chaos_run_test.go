//go:build chaos

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestChaos injects faults into all parts, while operators steer bulk retries and dead
// letters keep arriving. Then it proves from the topics and the tables alone that no
// message was lost, sent without a claim, or sent out of order; see verify.
//
// Storms of faults alternate with calm phases, in which only the operators act. No copy
// that is sent in a calm phase is excused. A blocked write may last into a calm phase, and
// excuses no copy either.
func TestChaos(t *testing.T) { //nolint:paralleltest // its faults are timed, so no other test should run at the same time
	c := newChaos(t)
	c.startParts()
	for range 3 {
		c.produceBurst(t.Context(), backlog)
	}
	c.waitUntil("the backlog is stored", time.Minute, func() bool { return c.stored() >= 3*backlog })

	var helpers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer helpers.Wait()
	defer stop()
	helpers.Go(func() { c.keepProducing(ctx) })
	helpers.Go(func() { c.operate(ctx) })
	helpers.Go(func() { c.watchClaims(ctx) })
	for c.begun = time.Now(); time.Since(c.begun) < c.duration || c.round == 1 && len(c.deck) > 0; {
		c.storm()
		c.calm()
	}
	c.aside.Wait()
	stop()
	helpers.Wait()

	c.heal()
	c.drain()
	c.verify()
	c.countStrikes()
	for _, violation := range c.journal.violations() {
		t.Errorf("seed %d: %s", c.seed, violation) // printed first, because a log that is cut keeps its beginning
	}
	t.Log(strings.Join(c.journal.summary(), "\n"))
}
