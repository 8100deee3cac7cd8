package kafka

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dlqmanager/dlq"
)

// IngestStatus is how the ingest fares.
type IngestStatus struct {
	// Running is true while Run runs, also while it waits and while it stops.
	// When it is false, nothing else is set.
	Running bool
	// Partitions are assigned to this process right now. None is no fault:
	// other replicas may have them, or no topic matches yet.
	Partitions int
	// Waiting is WaitingForStore or another, else empty, and Since when; LastError says
	// why.
	Waiting   string
	Since     time.Time
	LastError string
	// Notice is what operators should know that names no hosts: that the database is
	// full or read-only, that too many messages are PENDING, or that Kafka had deleted
	// records before they were read.
	Notice string
	// Lost is how many offsets Kafka had deleted before they were read, since the start.
	Lost int64
}

// What the ingest waits for.
const (
	WaitingForStore      = "store"
	WaitingForKafka      = "kafka"
	WaitingForMaxPending = "max_pending"
)

// Status is for readiness checks.
func (in *Ingest) Status() IngestStatus { return in.status.get() }

type status struct {
	mu         sync.Mutex
	metrics    *ingestMetrics
	running    bool
	partitions int
	store      trouble
	broker     trouble // that no broker answers, or one refuses a fetch
	group      trouble // that the consumer group cannot be joined
	flood      trouble // that too many messages are PENDING
	lost       int64
	lostTopic  string
}

type trouble struct {
	err   error
	since time.Time
}

func (t *trouble) set(err error) {
	if err != nil && t.err == nil {
		t.since = time.Now()
	}
	t.err = err
}

func newStatus(metrics *ingestMetrics) *status { return &status{metrics: metrics} }

func (s *status) update(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	stalled := 0.0
	if s.store.err != nil || s.broker.err != nil || s.group.err != nil || s.flood.err != nil {
		stalled = 1
	}
	s.metrics.stalled.Set(stalled)
	s.metrics.partitions.Set(float64(s.partitions))
}

func (s *status) start()            { s.update(func() { s.running = true }) }
func (s *status) owning(n int)      { s.report(func() { s.partitions = n }) }
func (s *status) storing(err error) { s.report(func() { s.store.set(err) }) }
func (s *status) kafka(err error)   { s.report(func() { s.broker.set(err) }) }
func (s *status) joined(err error)  { s.report(func() { s.group.set(err) }) }
func (s *status) flooded(err error) { s.report(func() { s.flood.set(err) }) }

func (s *status) losing(topic string, n int64) {
	s.report(func() { s.lost, s.lostTopic = s.lost+n, topic })
}

// report changes nothing once the ingest has ended: a client that could not
// leave its group in time may still speak.
func (s *status) report(fn func()) {
	s.update(func() {
		if s.running {
			fn()
		}
	})
}

func (s *status) stop() {
	s.update(func() {
		s.running, s.partitions, s.lost, s.lostTopic = false, 0, 0, ""
		s.store, s.broker, s.group, s.flood = trouble{}, trouble{}, trouble{}, trouble{}
	})
}

func (s *status) get() IngestStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := IngestStatus{Running: s.running, Partitions: s.partitions, Lost: s.lost}
	if s.lost > 0 {
		out.Notice = fmt.Sprintf("Kafka had deleted %d offsets before they were taken in, most recently of %s", s.lost, s.lostTopic)
	}
	for _, t := range []struct {
		waiting string
		trouble *trouble
	}{{WaitingForStore, &s.store}, {WaitingForKafka, &s.group}, {WaitingForKafka, &s.broker}, {WaitingForMaxPending, &s.flood}} {
		if err := t.trouble.err; err != nil {
			out.Waiting, out.Since, out.LastError = t.waiting, t.trouble.since, err.Error()
			switch {
			case errors.Is(err, dlq.ErrFull):
				out.Notice = dlq.ErrFull.Error()
			case errors.Is(err, dlq.ErrReadOnly):
				out.Notice = dlq.ErrReadOnly.Error()
			case t.waiting == WaitingForMaxPending:
				out.Notice = err.Error()
			default:
				out.Notice = ""
			}
			break
		}
	}
	return out
}

// groupErrors is the hook that hears why the group cannot be joined.
type groupErrors struct{ status *status }

// OnGroupManageError implements kgo.HookGroupManageError.
func (g groupErrors) OnGroupManageError(err error) { g.status.joined(err) }

type ingestMetrics struct {
	ingested    *prometheus.CounterVec
	duplicates  *prometheus.CounterVec
	cameBack    *prometheus.CounterVec
	lost        *prometheus.CounterVec
	lag         *prometheus.GaugeVec
	lastArrival *prometheus.GaugeVec
	held        *prometheus.GaugeVec
	stalled     prometheus.Gauge
	partitions  prometheus.Gauge
}

func newIngestMetrics(reg prometheus.Registerer) *ingestMetrics {
	topic := []string{"topic"}
	m := &ingestMetrics{
		ingested: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_ingested_total", Help: "Dead letters stored, by dead-letter topic."}, topic),
		duplicates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_ingest_duplicates_total", Help: "Dead letters read again after a crash or rebalance and skipped, by dead-letter topic."}, topic),
		cameBack: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_came_back_total", Help: "Dead letters stored that had been sent back before and failed again, by dead-letter topic."}, topic),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_ingest_lost_offsets_total", Help: "Offsets that Kafka had deleted before they were read, by dead-letter topic."}, topic),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_lag", Help: "Records of this process's partitions that are not stored yet, by dead-letter topic."}, topic),
		lastArrival: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_last_arrival_timestamp_seconds", Help: "When a dead letter was last stored, by dead-letter topic."}, topic),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_held", Help: "1 while nothing is taken in because too many messages are PENDING, by dead-letter topic."}, topic),
		stalled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_ingest_stalled", Help: "1 while ingest waits for the store, for Kafka, or for fewer PENDING messages, else 0."}),
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_ingest_partitions", Help: "Partitions assigned to this process."}),
	}
	if reg != nil {
		reg.MustRegister(m.ingested, m.duplicates, m.cameBack, m.lost, m.lag, m.lastArrival, m.held, m.stalled, m.partitions)
	}
	return m
}
