package telemetry

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
)

// collector exports gauges of a value that is read from the store or elsewhere. While the reading
// fails, it exports the last known value. An unknown value is absent; zero would be wrong.
type collector[T any] struct {
	*latest[T]
	descs  []*prometheus.Desc
	export func(value T, at time.Time, set gauge)
}

// gauge exports a value.
type gauge func(desc *prometheus.Desc, value float64, labels ...string)

func newCollector[T any](
	what string, interval time.Duration, read func(context.Context) (T, error), logger *zap.Logger,
	export func(T, time.Time, gauge), descs ...*prometheus.Desc,
) prometheus.Collector {
	return collector[T]{&latest[T]{what: what, read: read, interval: interval, logger: logger}, descs, export}
}

// Describe implements prometheus.Collector.
func (c collector[T]) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector[T]) Collect(metrics chan<- prometheus.Metric) {
	value, at := c.get()
	if at.IsZero() {
		return
	}
	c.export(value, at, func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	})
}

// flag is the value of a gauge that is 1 or 0.
func flag(isSet bool) float64 {
	if isSet {
		return 1
	}
	return 0
}

// A scrape waits for a reading at most maxReadingWait. The reading itself may take
// readingTimeout, and is then available to the next scrape.
const (
	maxReadingWait = time.Second
	readingTimeout = 10 * time.Second
)

// latest caches a value that is read from the store, for metrics. Reading happens at most once
// in an interval, in a single goroutine, and the value is kept while the store is unavailable.
// The creator sets the fields above reading.
type latest[T any] struct {
	what     string // for the log
	read     func(context.Context) (T, error)
	interval time.Duration
	logger   *zap.Logger

	reading singleflight.Group
	asked   time.Time // of the reading that runs, or of the last one
	mu      sync.Mutex
	at      time.Time
	value   T
}

// get returns the latest value and the time of the reading: zero until a reading has
// succeeded.
func (l *latest[T]) get() (T, time.Time) {
	timeout := time.NewTimer(maxReadingWait)
	defer timeout.Stop()
	select {
	case <-l.reading.DoChan("", func() (any, error) { l.refresh(); return nil, nil }): //nolint:nilnil // the value is kept
	case <-timeout.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.value, l.at
}

// refresh reads the value, unless the last reading is younger than the interval. One call runs
// at a time.
func (l *latest[T]) refresh() {
	if time.Since(l.asked) < l.interval {
		return
	}
	l.asked = time.Now()
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
