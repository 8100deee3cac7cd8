package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/temporaltest"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

// target is a scripted Kafka. It decides the result of every publish, and records the
// accepted messages in order.
type target struct {
	mu    sync.Mutex
	taken []dlq.Envelope
	// answer decides; nil accepts everything. A call keeps the answer that it began with.
	answer func(envelope dlq.Envelope) error
	// pace is how long each call takes.
	pace time.Duration
	// calls is how many calls have begun.
	calls int
}

func (p *target) Publish(_ context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	p.mu.Lock()
	pace, answer := p.pace, p.answer
	p.calls++
	p.mu.Unlock()
	if pace > 0 {
		<-time.After(pace)
	}
	deliveries := make([]dlq.Delivery, len(envelopes))
	undelivered := map[string]bool{}
	for i, envelope := range envelopes {
		deliveries[i].Target, deliveries[i].Partitions = dlq.Target{Topic: envelope.OriginalTopic}, 1
		if slices.Contains(closed, deliveries[i].Target) {
			deliveries[i].Err = dlq.ErrTargetClosed
			continue
		}
		if order != dlq.OrderNone && undelivered[string(envelope.Record.Key)] {
			deliveries[i].Err = &dlq.BlockedError{Cause: refuse(dlq.CategoryTransient)} // as the Publisher interface requires
			continue
		}
		if answer != nil {
			deliveries[i].Err = answer(envelope)
		}
		if deliveries[i].Err == nil {
			p.mu.Lock()
			deliveries[i].Acknowledgement = &dlq.Acknowledgement{Offset: int64(len(p.taken))}
			p.taken = append(p.taken, envelope)
			p.mu.Unlock()
		} else {
			undelivered[string(envelope.Record.Key)] = true
		}
	}
	return deliveries
}

func (p *target) answers(answer func(dlq.Envelope) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

func (p *target) slowly(pace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace = pace
}

// inOrder requires that every key was sent in the order of arrival.
func (p *target) inOrder(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := map[string]int64{}
	for _, envelope := range p.taken {
		key := string(envelope.Record.Key)
		require.Greater(t, envelope.Seq, last[key], key)
		last[key] = envelope.Seq
	}
}

func (p *target) begun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

func (p *target) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.taken)
}

// system is a worker on a real Temporal server with a database of its own.
type system struct {
	client   *workflows.Client
	temporal client.Client
	store    *postgres.Store
	target   *target
	sweeper  *workflows.Sweeper
	// jobs is the store of jobs, unless it is nil.
	jobs  activities.JobStore
	queue string
	// stop ends the worker.
	stop func()
}

// Commands to jobs.
var (
	toResume = dlq.Command{Name: dlq.CommandResume}
	toCancel = dlq.Command{Name: dlq.CommandCancel}
)

func toPause(reason string) dlq.Command { return dlq.Command{Name: dlq.CommandPause, Reason: reason} }

func toLimit(perSecond int) dlq.Command {
	return dlq.Command{Name: dlq.CommandRate, RateLimit: &perSecond}
}

// retryOf is a bulk retry by its id, and changeOf a job that changes messages.
func retryOf(id dlq.ID) dlq.Job { return jobOf(dlq.KindRetry, id) }

func changeOf(id dlq.ID) dlq.Job { return jobOf(dlq.KindDead, id) }

func jobOf(kind dlq.JobKind, id dlq.ID) dlq.Job {
	return dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(kind, id), Spec: dlq.JobSpec{Kind: kind}}
}

// topic is a topic for this test alone.
func (s *system) topic() string { return s.queue + ".dlq" }

func newSystem(t *testing.T) *system {
	t.Helper()
	s := startlessSystem(t)
	s.start(t)
	return s
}

func startlessSystem(t *testing.T) *system {
	t.Helper()
	topics, err := dlq.NewTopics(dlq.DefaultTopicPatterns, nil)
	require.NoError(t, err)
	s := &system{
		temporal: temporaltest.Client(t), queue: temporaltest.TaskQueue(t),
		store: postgres.New(dbtest.New(t), topics), target: &target{},
	}
	s.client = workflows.NewClient(s.temporal, s.queue, workflows.ClientOptions{Namespace: "default", PublicURL: "https://dlq.test", Pages: "https://dlq.test/console"})
	return s
}

func (s *system) start(t *testing.T) {
	t.Helper()
	s.startOn(t, s.store)
}

// startOn is start with another store for single retries.
func (s *system) startOn(t *testing.T, store activities.RetryStore) {
	t.Helper()
	log, metrics := zap.NewNop(), activities.NewMetrics(prometheus.NewRegistry())
	jobs := s.jobs
	if jobs == nil {
		jobs = s.store
	}
	worker := workflows.NewWorker(s.temporal, s.queue, workflows.Activities{
		Retry: &activities.Retry{
			Store: store, Publisher: s.target, Owners: s.client, Metrics: metrics, Log: log,
		},
		Jobs:    &activities.Jobs{Store: jobs, Publisher: s.target, Metrics: metrics, Log: log, Targets: dlqtest.Targets(t)},
		Archive: archiveOf(s.store),
	}, 5*time.Second, func(err error) { t.Errorf("the worker ended: %v", err) })
	require.NoError(t, worker.Start())
	s.sweeper = &workflows.Sweeper{Store: s.store, Owners: s.client, Metrics: metrics, Log: log}
	s.stop = sync.OnceFunc(worker.Stop)
	t.Cleanup(func() { s.stop() })
}

// add stores messages and returns their ids in the order of arrival. There are
// as many keys as messages unless keys says otherwise.
func (s *system) add(t *testing.T, messages, keys int) []dlq.ID {
	t.Helper()
	arrivals := make([]dlq.Arrival, messages)
	ids := make([]dlq.ID, messages)
	source := [16]byte(dlq.NewID())
	for i := range arrivals {
		ids[i] = dlq.NewID()
		arrivals[i] = dlq.Arrival{
			ID: ids[i], DLQTopic: s.topic(),
			Source:     dlq.Source{TopicID: source, Offset: int64(i)},
			Failure:    dlq.Failure{Origin: dlq.Origin{Topic: s.queue, Family: "topic-name"}, ErrorMessage: dlq.UnknownError},
			Record:     dlq.Record{Key: fmt.Appendf(nil, "key-%d", i%keys), Value: fmt.Appendf(nil, "%d", i)},
			MaxRetries: dlq.DefaultMaxRetries,
		}
	}
	stored, err := s.store.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	require.Len(t, stored, messages)
	return ids
}

func (s *system) message(t *testing.T, id dlq.ID) dlq.Message {
	t.Helper()
	message, err := s.store.Message(t.Context(), id)
	require.NoError(t, err)
	return message
}

// statuses counts all messages of the topic.
func (s *system) statuses(t *testing.T) map[dlq.Status]int64 {
	t.Helper()
	summaries, err := s.store.Topics(t.Context())
	require.NoError(t, err)
	for _, summary := range summaries {
		if summary.DLQTopic == s.topic() {
			counts := map[dlq.Status]int64{}
			for status, n := range summary.Counts {
				if n > 0 {
					counts[status] = n
				}
			}
			return counts
		}
	}
	return nil
}

func refuse(category dlq.Category) error {
	return &dlq.DeliveryError{Category: category, Err: fmt.Errorf("refused: %s", category)}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, 5*time.Millisecond, what)
}
