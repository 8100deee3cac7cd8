package telemetry

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
)

// collector exports gauges of a value that it reads from the store or from another source. It reads at most once in an
// interval, in one goroutine. While reading fails, it exports the last known value. Before the first value it exports no
// gauges, since zero would be wrong.
type collector[T any] struct {
	what     string // the name of the value in the log
	interval time.Duration
	read     func(context.Context) (T, error)
	logger   *zap.Logger
	export   func(value T, at time.Time, to gauges)
	descs    []*prometheus.Desc

	reading singleflight.Group
	asked   time.Time // when the latest reading began
	mu      sync.Mutex
	at      time.Time
	value   T
}

// gauges are the values of a scrape. Two gauges with the same labels would make the whole scrape fail, so add and raise combine
// their values.
type gauges map[series]float64

type series struct {
	desc   *prometheus.Desc
	labels string // all labels, with a separator in front of each label
}

// labelSeparator cannot be part of a label, since labels are UTF-8.
const labelSeparator = "\xff"

func seriesOf(desc *prometheus.Desc, labels []string) series {
	return series{desc, strings.Join(append([]string{""}, labels...), labelSeparator)}
}

// add adds value to the gauge with these labels.
func (g gauges) add(desc *prometheus.Desc, value float64, labels ...string) {
	g[seriesOf(desc, labels)] += value
}

// raise sets the gauge with these labels to value if the gauge is smaller. Values are not negative.
func (g gauges) raise(desc *prometheus.Desc, value float64, labels ...string) {
	of := seriesOf(desc, labels)
	g[of] = max(g[of], value)
}

func newCollector[T any](
	what string, interval time.Duration, read func(context.Context) (T, error), logger *zap.Logger,
	export func(T, time.Time, gauges), descs ...*prometheus.Desc,
) prometheus.Collector {
	return &collector[T]{what: what, interval: interval, read: read, logger: logger, export: export, descs: descs}
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(metrics chan<- prometheus.Metric) {
	value, at := c.get()
	if at.IsZero() {
		return
	}
	values := gauges{}
	c.export(value, at, values)
	for of, value := range values {
		labels := strings.Split(of.labels, labelSeparator)[1:]
		metrics <- prometheus.MustNewConstMetric(of.desc, prometheus.GaugeValue, value, labels...)
	}
}

func ageOf(at time.Time) float64 { return max(time.Since(at), 0).Seconds() }

// flag converts a condition to the value of a gauge, 1 or 0.
func flag(isSet bool) float64 {
	if isSet {
		return 1
	}
	return 0
}

// A scrape waits at most maxReadingWait for a reading. A reading may take up to readingTimeout. If a reading takes longer than
// the scrape waits, the next scrape has its value.
const (
	maxReadingWait = time.Second
	readingTimeout = 10 * time.Second
)

// get returns the latest value and the time at which it was read. The time is zero if no reading has succeeded yet.
func (c *collector[T]) get() (T, time.Time) {
	timeout := time.NewTimer(maxReadingWait)
	defer timeout.Stop()
	select {
	case <-c.reading.DoChan("", func() (any, error) { c.refresh(); return nil, nil }): //nolint:nilnil // the value is kept
	case <-timeout.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.at
}

// refresh reads the value if the latest reading is older than the interval. Calls do not run in parallel.
func (c *collector[T]) refresh() {
	if time.Since(c.asked) < c.interval {
		return
	}
	c.asked = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), readingTimeout)
	defer cancel()
	value, err := c.read(ctx)
	if err != nil {
		c.logger.Warn("cannot read "+c.what+" for the metrics", zap.Error(err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.at = value, time.Now()
}
