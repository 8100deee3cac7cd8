package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// turnLength is how long a side works before the next side has its turn. The speed of a shared machine changes from second to second,
// by up to a factor of two. So sides that ran one after another would be compared at different speeds.
const turnLength = 250 * time.Millisecond

// side is one side of a comparison whose sides take turns.
type side struct {
	send    func(context.Context) error
	timings *timings
	lanes   int

	done chan struct{} // closed when send has returned
	took time.Duration // of all its turns
	wal  float64       // bytes
	cpu  time.Duration // of PostgreSQL
}

// takeTurns lets the sides send their messages. One side works at a time, and the lanes of the other sides wait before
// their next publish. The last side's last turn has no end.
func (b *bench) takeTurns(ctx context.Context, sides []*side) error {
	group, all := errgroup.WithContext(ctx)
	for _, s := range sides {
		s.done, s.timings.turn = make(chan struct{}), &turn{}
		s.timings.turn.gate.Lock()
		group.Go(func() error {
			defer close(s.done)
			s.timings.turn.await()
			return s.send(all)
		})
	}
	for working := slices.Clone(sides); len(working) > 0; {
		for _, s := range working {
			if err := b.takeTurn(ctx, s, len(working) == 1); err != nil {
				return err
			}
		}
		working = slices.DeleteFunc(working, (*side).isDone)
	}
	return group.Wait()
}

// takeTurn measures a turn of a side. The turn ends when all lanes of the side wait, so a side does nothing in the turns of
// the other sides.
func (b *bench) takeTurn(ctx context.Context, s *side, isAlone bool) error {
	wal, err := b.walPosition(ctx)
	if err != nil {
		return err
	}
	cpu, began := b.postgresCPU(), time.Now()
	s.timings.turn.gate.Unlock()
	length := time.After(turnLength)
	if isAlone {
		length = nil
	}
	select {
	case <-s.done:
	case <-length:
	}
	s.timings.turn.gate.Lock()
	s.took += s.drained().Sub(began)
	s.cpu += b.postgresCPU() - cpu
	after, err := b.walPosition(ctx)
	s.wal += after - wal
	return err
}

// drained returns when the side no longer works, and since when. A lane between two calls is not seen, and a lane that has
// ended never waits, so a side that seems to have stopped is watched for a moment.
func (s *side) drained() time.Time {
	const moment = 5 * time.Millisecond
	var idle time.Time
	for {
		now, turn := time.Now(), s.timings.turn
		switch waiting := int(turn.waiting.Load()); {
		case s.isDone() || waiting == s.lanes:
			return now
		case waiting == 0 || turn.busy.Load() > 0:
			idle = time.Time{}
		case idle.IsZero():
			idle = now
		case now.Sub(idle) > moment:
			return idle
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (s *side) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// turn is what the lanes of a side know of its turns. A nil turn lasts for ever.
type turn struct {
	gate    sync.RWMutex // closed by a lock
	waiting atomic.Int64 // lanes before the gate
	busy    atomic.Int64 // calls of lanes
}

// await returns in the side's next turn, or immediately.
func (t *turn) await() {
	if t == nil {
		return
	}
	t.waiting.Add(1)
	t.gate.RLock()
	t.waiting.Add(-1)
	t.gate.RUnlock()
}

// begin counts a call of a lane. The returned function ends the call.
func (t *turn) begin() (end func()) {
	if t == nil {
		return func() {}
	}
	t.busy.Add(1)
	return func() { t.busy.Add(-1) }
}
