package telemetry

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A scrape waits for a reading at most maxReadingWait. The reading itself may take
// readingTimeout, and is then available to the next scrape.
const (
	maxReadingWait = time.Second
	readingTimeout = 10 * time.Second
)

// latest caches a value that is read from the store, for metrics. It is read at most once
// in an interval, by one goroutine at a time, and is kept while the store is unavailable.
// The creator sets the fields above mu.
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

// get returns the latest value and when it was read: the zero time until a reading has
// succeeded.
func (l *latest[T]) get() (T, time.Time) {
	timeout := time.NewTimer(maxReadingWait)
	defer timeout.Stop()
	select {
	case <-l.refresh():
	case <-timeout.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.at
}

// refresh starts a reading if the last one has ended and is older than the interval. The
// returned channel is closed at the end of the latest reading.
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
