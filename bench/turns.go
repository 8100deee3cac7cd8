package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// turnLength is how long a side works before the next side has its turn. The speed of a shared machine changes from second to
// second, by up to a factor of two. Without turns, the sides would run at different speeds of the machine.
const turnLength = 250 * time.Millisecond

// side is one side of a comparison whose sides take turns.
type side struct {
	send    func(context.Context) error
	timings *timings
	lanes   int

	done chan struct{} // closed when send has returned
	took time.Duration // the time of all its turns
	wal  float64       // bytes
	cpu  time.Duration // processor time of PostgreSQL
}

// takeTurns lets the sides send their messages. One side works at a time, and the lanes of the other sides wait before
// their next publish. When only one side is left, its turn lasts until it has sent all messages. The order changes each
// time, so that no side always works after the same other side.
func (b *bench) takeTurns(ctx context.Context, sides []*side) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, all := errgroup.WithContext(ctx)
	for _, s := range sides {
		s.done, s.timings.turn = make(chan struct{}), &turn{}
		s.timings.turn.gate.Lock()
		defer s.timings.turn.gate.Unlock() // after an error no lane may wait for ever
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
		slices.Reverse(working)
	}
	return group.Wait()
}

// takeTurn measures a turn of a side. The turn ends when all lanes of the side wait, so the lanes of a side make no
// calls in the turns of the other sides.
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

// drained waits until the side no longer works, and returns the time at which its work ended. A lane between two calls neither
// works nor waits, and a lane that has ended never waits. So drained watches a side that seems to have stopped for a moment.
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

// turn tells the lanes of a side whether the side has its turn. With a nil turn, the side always has its
// turn.
type turn struct {
	gate    sync.RWMutex // locked while the side has no turn
	waiting atomic.Int64 // number of lanes that wait for the turn
	busy    atomic.Int64 // number of calls of lanes in progress
}

// await returns when the side has its turn.
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
