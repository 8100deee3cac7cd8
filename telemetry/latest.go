package telemetry

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A scrape waits for a new reading no longer than readingPatience; the reading
// itself may take readingTimeout, and is then there for the next scrape.
const (
	readingPatience = time.Second
	readingTimeout  = 10 * time.Second
)

// latest is what was last read from the store, for metrics: read at most once
// in an interval and by one at a time, however often it is asked for, and kept
// while the store is away. The fields up to mu are set by who makes one.
type latest[T any] struct {
	what     string // for the log
	read     func(context.Context) (T, error)
	interval time.Duration
	logger   *zap.Logger

	mu    sync.Mutex
	asked time.Time
	done  chan struct{} // closed at the end of the latest reading
	at    time.Time
	value T
}

// get returns the latest reading and when it was made: never, as long as none
// succeeded.
func (l *latest[T]) get() (T, time.Time) {
	patience := time.NewTimer(readingPatience)
	defer patience.Stop()
	select {
	case <-l.refresh():
	case <-patience.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.at
}

// refresh starts a reading when the last one is old enough and has ended, and
// returns when the latest one ends.
func (l *latest[T]) refresh() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		select {
		case <-l.done:
		default:
			return l.done
		}
		if time.Since(l.asked) < l.interval {
			return l.done
		}
	}
	l.asked, l.done = time.Now(), make(chan struct{})
	go l.run(l.done)
	return l.done
}

func (l *latest[T]) run(done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(context.Background(), readingTimeout)
	defer cancel()
	value, err := l.read(ctx)
	if err != nil {
		l.logger.Warn("cannot read "+l.what+" for the metrics", zap.Error(err))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value, l.at = value, time.Now()
}
