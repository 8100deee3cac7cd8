package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/worker"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

// engine is a worker in this process, wired like cmd/worker.
type engine struct {
	temporal *temporal
	db       *database
	client   *workflows.Client
	worker   worker.Worker
	timings  *timings
}

// queues numbers the task queues, so that a measurement never receives tasks of another measurement.
var queues atomic.Int64

func (b *bench) startEngine(t *temporal, db *database, publisher activities.Publisher) (*engine, error) {
	return b.startTimedEngine(t, db, publisher, &timings{})
}

func (b *bench) startTimedEngine(t *temporal, db *database, publisher activities.Publisher, timings *timings) (*engine, error) {
	queue := fmt.Sprintf("bench-%d", queues.Add(1))
	e := &engine{temporal: t, db: db, client: workflows.NewClient(t.client, queue, workflows.ClientOptions{}), timings: timings}
	timed := timedStore{db.store, e.timings}
	sender := timedPublisher{publisher, e.timings}
	metrics, log := activities.NewMetrics(prometheus.NewRegistry()), zap.NewNop()
	e.worker = workflows.NewWorker(t.client, queue, workflows.Activities{
		Retry:   &activities.Retry{Store: db.store, Publisher: sender, Owners: e.client, Metrics: metrics, Log: log},
		Jobs:    &activities.Jobs{Store: timed, Publisher: sender, Memory: activities.NewMemory(activities.DefaultMemory), Metrics: metrics, Log: log},
		Archive: &activities.Archive{Store: db.store, Metrics: metrics, Log: log},
	}, 20*time.Second, func(err error) { fmt.Fprintln(os.Stderr, "the worker ended:", err) })
	return e, e.worker.Start()
}

func (e *engine) stop() { e.worker.Stop() }

// job is the result of a bulk retry that has ended.
type job struct {
	took   time.Duration
	events int
	bulk   dlq.Job
}

// startBulk creates a bulk retry of a topic and starts its workflow, as the API does.
func startBulk(ctx context.Context, db *database, client *workflows.Client, topic string, lanes, rateLimit int) (dlq.Job, error) {
	id := dlq.NewID()
	created, err := db.store.CreateJob(ctx, nil, dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, id), Lanes: lanes,
		Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: topic}, Order: dlq.OrderKey, RateLimit: rateLimit}})
	if err == nil {
		_, err = client.StartJob(ctx, nil, created)
	}
	return created, err
}

// retryAll sends all messages of a topic and returns when the workflow has ended, like
// a caller of the REST API.
func (e *engine) retryAll(ctx context.Context, topic string, lanes, messages int) (job, error) {
	j, err := e.sendAll(ctx, topic, lanes)
	if err == nil {
		err = e.complete(ctx, &j, messages)
	}
	return j, err
}

func (e *engine) sendAll(ctx context.Context, topic string, lanes int) (job, error) {
	started := time.Now()
	created, err := startBulk(ctx, e.db, e.client, topic, lanes, 0)
	if err != nil {
		return job{}, err
	}
	result, err := e.client.AwaitJob(ctx, created)
	return job{took: time.Since(started), bulk: result.Job}, err
}

// complete checks that all messages were sent, and counts the events of the job's history.
func (e *engine) complete(ctx context.Context, j *job, messages int) error {
	if j.bulk.Counts.Retried != int64(messages) {
		return fmt.Errorf("%d of %d messages were retried: %+v", j.bulk.Counts.Retried, messages, j.bulk)
	}
	events := e.temporal.client.GetWorkflowHistory(ctx, j.bulk.WorkflowID, "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		if _, err := events.Next(); err != nil {
			return err
		}
		j.events++
	}
	return nil
}

// timings adds up the time that lanes wait for the store and for the publisher.
type timings struct {
	store, publish atomic.Int64
	turn           *turn
}

// measure adds the time until the call of end to a sum.
func (t *timings) measure(sum *atomic.Int64) (end func()) {
	started, endOfCall := time.Now(), t.turn.begin()
	return func() {
		sum.Add(int64(time.Since(started)))
		endOfCall()
	}
}

// shares shows which part of the lanes' time each step takes.
func (t *timings) shares(lanes int, took time.Duration) string {
	all := float64(lanes) * float64(took)
	percent := func(sum *atomic.Int64) float64 { return 100 * float64(sum.Load()) / all }
	store, publish := percent(&t.store), percent(&t.publish)
	return fmt.Sprintf("claim and finalize %.0f %%, publish %.0f %%, everything else %.0f %%", store, publish, 100-store-publish)
}

// timedStore times the calls of the store for a page.
type timedStore struct {
	*postgres.Store
	t *timings
}

func (s timedStore) NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error) {
	defer s.t.measure(&s.t.store)()
	return s.Store.NextPage(ctx, lane, outcomes, scan)
}

func (s timedStore) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	defer s.t.measure(&s.t.store)()
	return s.Store.FinalizePage(ctx, lane, outcomes)
}

// OpenLane counts as a call, but its time is not added, because it runs between two time slices of a lane.
func (s timedStore) OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error) {
	defer s.t.turn.begin()()
	return s.Store.OpenLane(ctx, bulk, number, attempt)
}

// ClaimedPage counts as a call, but its time is not added, as with OpenLane.
func (s timedStore) ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error) {
	defer s.t.turn.begin()()
	return s.Store.ClaimedPage(ctx, lane, bytes)
}

// timedPublisher waits for the turn of its side, and then times the publish.
type timedPublisher struct {
	activities.Publisher
	t *timings
}

func (p timedPublisher) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	p.t.turn.await()
	defer p.t.measure(&p.t.publish)()
	return p.Publisher.Publish(ctx, envelopes, order, closed)
}
