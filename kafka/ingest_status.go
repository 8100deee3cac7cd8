package kafka

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
)

// IngestStatus is the state of the ingest, for readiness checks.
type IngestStatus struct {
	// Running is true while Run runs, also during a wait and during the stop.
	// If Running is false, no other field is set.
	Running bool
	// Partitions is how many partitions are assigned to this process now. 0 is no error: other replicas may
	// have all partitions, or no topic matches yet.
	Partitions int
	// Waiting is one of the constants WaitingFor…, or empty. Since is when the wait began,
	// and LastError is its reason.
	Waiting   string
	Since     time.Time
	LastError string
	// Notice is a text for operators that names no hosts: the database is full or
	// read-only, too many messages are PENDING, or Kafka had deleted records before they
	// were read.
	Notice string
	// Lost is how many offsets Kafka had deleted before they were read, counted since Run began.
	Lost int64
}

// Values of IngestStatus.Waiting.
const (
	WaitingForStore      = "store"
	WaitingForKafka      = "kafka"
	WaitingForMaxPending = "max_pending"
)

// Status returns the current state.
func (in *Ingest) Status() IngestStatus { return in.status.get() }

// reason is a reason for which the ingest waits. If there are several, the status names the first of this
// list.
type reason int

const (
	storeFails     reason = iota
	groupFails            // the consumer group cannot be joined
	brokersFail           // no broker answers, or a broker refuses a fetch
	tooManyPending        // the number of PENDING messages has reached a limit
)

var waitingFor = [...]string{storeFails: WaitingForStore, groupFails: WaitingForKafka, brokersFail: WaitingForKafka, tooManyPending: WaitingForMaxPending}

type status struct {
	mu      sync.Mutex
	metrics *ingestMetrics
	ingestState
}

// ingestState is zero while the ingest does not run.
type ingestState struct {
	running    bool
	partitions int
	waits      [len(waitingFor)]waitReason
	lost       int64
	lostTopic  string
}

type waitReason struct {
	err   error
	since time.Time
}

func (s *status) update(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	stalled := 0.0
	for _, wait := range s.waits {
		if wait.err != nil {
			stalled = 1
		}
	}
	s.metrics.stalled.Set(stalled)
	s.metrics.partitions.Set(float64(s.partitions))
}

// start reports false if the ingest runs already.
func (s *status) start() (isFirst bool) {
	s.update(func() { isFirst, s.running = !s.running, true })
	return isFirst
}

func (s *status) stop()               { s.update(func() { s.ingestState = ingestState{} }) }
func (s *status) setPartitions(n int) { s.report(func() { s.partitions = n }) }

// setError notes why the ingest waits; nil ends the wait.
func (s *status) setError(r reason, err error) {
	s.report(func() {
		wait := &s.waits[r]
		if err != nil && wait.err == nil {
			wait.since = time.Now()
		}
		wait.err = err
	})
}

func (s *status) addLost(topic string, n int64) {
	s.report(func() { s.lost, s.lostTopic = s.lost+n, topic })
}

// report changes nothing once the ingest has ended. A client that could not leave its group in time may
// still call report.
func (s *status) report(fn func()) {
	s.update(func() {
		if s.running {
			fn()
		}
	})
}

func (s *status) get() IngestStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := IngestStatus{Running: s.running, Partitions: s.partitions, Lost: s.lost}
	if s.lost > 0 {
		out.Notice = fmt.Sprintf("Kafka had deleted %d offsets before they were ingested, most recently of %s", s.lost, s.lostTopic)
	}
	for r, wait := range s.waits {
		if wait.err == nil {
			continue
		}
		out.Waiting, out.Since, out.LastError, out.Notice = waitingFor[r], wait.since, wait.err.Error(), ""
		switch {
		case errors.Is(wait.err, dlq.ErrFull):
			out.Notice = dlq.ErrFull.Error()
		case errors.Is(wait.err, dlq.ErrReadOnly):
			out.Notice = dlq.ErrReadOnly.Error()
		case reason(r) == tooManyPending:
			out.Notice = wait.err.Error()
		}
		break
	}
	return out
}

// groupErrors is a hook that records why the group cannot be joined.
type groupErrors struct {
	status *status
	group  string
}

// OnGroupManageError implements kgo.HookGroupManageError.
func (g groupErrors) OnGroupManageError(err error) {
	g.status.setError(groupFails, withGrant(err, kmsg.ACLOperationRead, "", g.group))
}

type ingestMetrics struct {
	topics      dlq.TopicLabels
	ingested    *prometheus.CounterVec
	duplicates  *prometheus.CounterVec
	cameBack    *prometheus.CounterVec
	lost        *prometheus.CounterVec
	lag         *prometheus.GaugeVec
	expiring    *prometheus.GaugeVec
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
			Name: "dlq_came_back_total", Help: "Dead letters stored whose headers say that they were sent back before, by dead-letter topic. " +
				"Whoever writes a record can claim that; dlq_bulk_retry_came_back counts only what the database confirms."}, topic),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_ingest_lost_offsets_total", Help: "Offsets that Kafka had deleted before they were read, by dead-letter topic."}, topic),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_lag", Help: "Records of this process's partitions that are not stored yet, by dead-letter topic."}, topic),
		expiring: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_expiring_records", Help: "Records of this process's partitions that are not stored yet " +
				"and that the topic's retention.ms deletes soon: four fifths of it have passed. By dead-letter topic; absent without a lag. " +
				"A limit in bytes is not considered."}, topic),
		lastArrival: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_last_arrival_timestamp_seconds", Help: "When a dead letter was last stored, by dead-letter topic."}, topic),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_held", Help: "1 while nothing is ingested because too many messages are PENDING, by dead-letter topic."}, topic),
		stalled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_ingest_stalled", Help: "1 while ingest waits for the store, for Kafka, or for fewer PENDING messages, else 0."}),
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_ingest_partitions", Help: "Partitions assigned to this process."}),
	}
	reg.MustRegister(m.ingested, m.duplicates, m.cameBack, m.lost, m.lag, m.expiring, m.lastArrival, m.held, m.stalled, m.partitions)
	return m
}
