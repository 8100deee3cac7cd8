// Package storetest is the contract of a store, as tests. Package postgres passes all tests, and package
// memory passes the tests of its own methods.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// Store has all methods of a store. Packages that use a store declare interfaces with the
// methods that they need.
type Store interface {
	Basic
	HandIn(ctx context.Context, asked *dlq.Operation, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error)

	Topics(ctx context.Context) ([]dlq.TopicSummary, error)
	Restore(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error)
	Chain(ctx context.Context, id dlq.ID) (dlq.Chain, error)
	Revive(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error)
	Replace(ctx context.Context, asked *dlq.Operation, id dlq.ID, edited dlq.Arrival) (dlq.Message, error)
	Ping(ctx context.Context) error

	Now(ctx context.Context) (time.Time, error)
	JobOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error)
	Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error)

	CreateJob(ctx context.Context, asked *dlq.Operation, b dlq.Job) (dlq.Job, error)
	CountJob(ctx context.Context, id dlq.ID) (dlq.Job, error)
	OpenLane(ctx context.Context, bulk dlq.ID, number int, attempt dlq.LaneAttempt) (dlq.Lane, error)
	ClaimedPage(ctx context.Context, lane dlq.Lane, bytes int64) (dlq.LaneClaim, error)
	NextPage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome, scan bool) (dlq.LaneClaim, dlq.PageResult, error)
	FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error)
	ReleasePage(ctx context.Context, lane dlq.Lane) error
	StopJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	PauseJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, reason string) (dlq.Job, error)
	ResumeJob(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Job, error)
	HasClosedTarget(ctx context.Context, id dlq.ID) (bool, error)
	SetJobRate(ctx context.Context, asked *dlq.Operation, id dlq.ID, rate int) error
	SetStepLimit(ctx context.Context, id dlq.ID, messages *int64) error
	EndJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error)
	Job(ctx context.Context, id dlq.ID) (dlq.Job, error)
	Jobs(ctx context.Context, query dlq.JobQuery) (dlq.PageOf[dlq.Job], error)
	RunningRetries(ctx context.Context) ([]dlq.Job, error)
	SampleJobs(ctx context.Context) error
	JobSamples(ctx context.Context, id dlq.ID) ([]dlq.JobSample, error)
	PreviewJob(ctx context.Context, spec dlq.JobSpec) (dlq.JobPreview, error)

	ExhaustedTopics(ctx context.Context) ([]string, error)
	Unpublished(ctx context.Context) ([]dlq.TopicCount, error)
	PublishExhausted(ctx context.Context, topic string, after dlq.Exhausted, publish func([]dlq.Exhausted) []bool) ([]dlq.Exhausted, error)

	Act(ctx context.Context, job dlq.Job, limit int) (dlq.ChangeStep, error)
	ExplainJob(ctx context.Context, id dlq.ID, cause error) error

	ArchiveBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error)
	PurgeBatch(ctx context.Context, run dlq.ArchiveRun, olderThan time.Duration, limit int) (int64, error)

	RecordOperation(ctx context.Context, o dlq.Operation) error
	OperationsOf(ctx context.Context, messages []dlq.ID, tokens []string) (map[string]dlq.ID, error)
	Operations(ctx context.Context, q dlq.OperationQuery) (dlq.PageOf[dlq.Operation], error)
	SingleRetries(ctx context.Context, q dlq.OperationQuery) (dlq.PageOf[dlq.SingleRetry], error)
	PurgeOperations(ctx context.Context, olderThan time.Duration, limit int) (int64, error)

	Groups(ctx context.Context, q dlq.GroupQuery) (dlq.PageOf[dlq.Group], error)
	Group(ctx context.Context, id dlq.ID, within string) (dlq.Group, error)
	ChangeGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, change dlq.GroupChange) error
	FixGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, fix dlq.GroupFix) error
	OpenHeldGroups(ctx context.Context) (opened int, err error)
	GroupBacklogs(ctx context.Context) ([]dlq.GroupBacklog, error)
	HeldDead(ctx context.Context) ([]dlq.TopicCount, error)
	FoldCounts(ctx context.Context) error
	Series(ctx context.Context, q dlq.SeriesQuery) ([]dlq.Series, error)

	Verdicts(ctx context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error)
	VerifyJob(ctx context.Context, id dlq.ID) (dlq.Verifications, error)
	LeaseWatermarks(ctx context.Context, holder dlq.ID, expiry time.Duration) (lease dlq.WatermarkLease, taken bool, err error)
	WatermarkScope(ctx context.Context) (dlq.WatermarkScope, error)
	PublishWatermarks(ctx context.Context, lease dlq.WatermarkLease, watermarks *dlq.Watermarks) error
}

// Run runs the contract tests. open returns an empty store with the topics of dlqtest.Topics and
// with an outbox, and closes the store at the end of the test.
func Run(t *testing.T, open func(t *testing.T) Store) {
	run(t, open, ingest, messages, lists, retries, bulks, pages, overlaps, steering, queues, order, rateLimits, previews, cameBack, chains, archives, sweeps,
		exhausted, late, actions, actionJobs, within, audits, singleRetries, groups, searches, redirects, edits, verified, handIns, origins, basics, series)
}

func run(t *testing.T, open func(t *testing.T) Store, suites ...map[string]func(*testing.T, fixture)) {
	t.Helper()
	for _, suite := range suites {
		for name, test := range suite {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, fixture{Store: open(t), t: t})
			})
		}
	}
}

// fixture is a store with helpers for the tests.
type fixture struct {
	Store
	t *testing.T
}

// StoreArrivals stores arrivals without moving a position, and returns how many of the messages were new.
func (f fixture) StoreArrivals(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	ids, err := f.Ingest(ctx, arrivals, nil)
	return len(ids), err
}

// store stores the arrivals and returns them as messages.
func (f fixture) store(arrivals ...dlq.Arrival) []dlq.Message {
	f.t.Helper()
	stored, err := f.StoreArrivals(f.t.Context(), arrivals)
	require.NoError(f.t, err)
	require.Equal(f.t, len(arrivals), stored)
	messages := make([]dlq.Message, len(arrivals))
	for i, a := range arrivals {
		messages[i] = f.message(a.ID)
	}
	return messages
}

func (f fixture) message(id dlq.ID) dlq.Message {
	f.t.Helper()
	m, err := f.Message(f.t.Context(), id)
	require.NoError(f.t, err)
	return m
}

func (f fixture) detail(id dlq.ID) dlq.Detail {
	f.t.Helper()
	d, err := dlqtest.Detail(f.t.Context(), f, id)
	require.NoError(f.t, err)
	return d
}

// claim claims the message for a new owner.
func (f fixture) claim(id dlq.ID) dlq.Owner {
	f.t.Helper()
	owner := dlqtest.Owner()
	_, err := f.Claim(f.t.Context(), id, owner, dlq.ID{})
	require.NoError(f.t, err)
	return owner
}

// retry claims the message and finalizes it with the result.
func (f fixture) retry(id dlq.ID, result dlq.Result) dlq.Message {
	f.t.Helper()
	m, _, err := f.Finalize(f.t.Context(), f.claim(id), dlqtest.Outcome(id, result))
	require.NoError(f.t, err)
	return m
}

// jobs returns a page of jobs.
func (f fixture) jobs(q dlq.JobQuery) []dlq.Job {
	f.t.Helper()
	page, err := f.Jobs(f.t.Context(), q)
	require.NoError(f.t, err)
	return page.Entries
}

func (f fixture) list(q dlq.ListQuery) dlq.Page {
	f.t.Helper()
	page, err := f.List(f.t.Context(), q)
	require.NoError(f.t, err)
	return page
}

// startBulk creates a bulk retry and counts its messages.
func (f fixture) startBulk(b dlq.Job) dlq.Job {
	f.t.Helper()
	created, err := f.CreateJob(f.t.Context(), nil, b)
	require.NoError(f.t, err)
	require.Equal(f.t, b.ID, created.ID, "another one was joined")
	return f.countBulk(b.ID)
}

func (f fixture) countBulk(id dlq.ID) dlq.Job {
	f.t.Helper()
	counted, err := f.CountJob(f.t.Context(), id)
	require.NoError(f.t, err)
	return counted
}

func (f fixture) openLane(lane dlq.Lane) dlq.Lane {
	f.t.Helper()
	opened, err := f.OpenLane(f.t.Context(), lane.Job, lane.Number, dlq.LaneAttempt{})
	require.NoError(f.t, err)
	return opened
}

func (f fixture) claimPage(lane dlq.Lane) []dlq.PageEnvelope {
	f.t.Helper()
	claim := f.tryClaim(lane)
	require.Zero(f.t, claim.Wait)
	require.False(f.t, claim.StepLimitReached)
	require.False(f.t, claim.Limited)
	return claim.Page
}

// claimed are the messages that the lane has claimed and not finalized.
func (f fixture) claimed(lane dlq.Lane) []dlq.PageEnvelope {
	f.t.Helper()
	claim, err := f.ClaimedPage(f.t.Context(), lane, dlq.PageBytes)
	require.NoError(f.t, err)
	return claim.Page
}

// tryClaim claims a page of a lane that may have limits.
func (f fixture) tryClaim(lane dlq.Lane) dlq.LaneClaim {
	f.t.Helper()
	claim, err := f.ClaimPage(f.t.Context(), lane, true)
	require.NoError(f.t, err)
	return claim
}

// send claims a page and delivers it.
func (f fixture) send(lane dlq.Lane) dlq.LaneClaim {
	f.t.Helper()
	claim := f.tryClaim(lane)
	f.finalizePage(lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
	return claim
}

func (f fixture) job(id dlq.ID) dlq.Job {
	f.t.Helper()
	b, err := f.Job(f.t.Context(), id)
	require.NoError(f.t, err)
	return b
}

func (f fixture) hasClosedTarget(id dlq.ID) bool {
	f.t.Helper()
	is, err := f.HasClosedTarget(f.t.Context(), id)
	require.NoError(f.t, err)
	return is
}

func (f fixture) pause(id dlq.ID, reason string) dlq.Job {
	f.t.Helper()
	return f.steer(func(ctx context.Context) (dlq.Job, error) { return f.PauseJob(ctx, nil, id, reason) })
}

func (f fixture) resume(id dlq.ID) dlq.Job {
	f.t.Helper()
	return f.steer(func(ctx context.Context) (dlq.Job, error) { return f.ResumeJob(ctx, nil, id) })
}

func (f fixture) end(id dlq.ID, state dlq.JobState) dlq.Job {
	f.t.Helper()
	return f.steer(func(ctx context.Context) (dlq.Job, error) { return f.EndJob(ctx, nil, id, state, "") })
}

// steer repeats a change while another transaction holds a lock for too long, as the workflow of a job does.
func (f fixture) steer(change func(context.Context) (dlq.Job, error)) dlq.Job {
	f.t.Helper()
	var b dlq.Job
	var err error
	require.Eventually(f.t, func() bool {
		b, err = change(f.t.Context())
		return !errors.Is(err, dlq.ErrBlocked)
	}, 30*time.Second, time.Millisecond)
	require.NoError(f.t, err)
	return b
}

// ClaimPage claims a page. The page before has to be finalized.
func (f fixture) ClaimPage(ctx context.Context, lane dlq.Lane, scan bool) (dlq.LaneClaim, error) {
	claim, _, err := f.NextPage(ctx, lane, nil, scan)
	return claim, err
}

func (f fixture) setStepLimit(id dlq.ID, messages int64) {
	f.t.Helper()
	require.NoError(f.t, f.SetStepLimit(f.t.Context(), id, &messages))
}

func (f fixture) stop(id dlq.ID, state dlq.JobState, reason string) dlq.Job {
	f.t.Helper()
	b, err := f.StopJob(f.t.Context(), nil, id, state, reason)
	require.NoError(f.t, err)
	return b
}

// retrying is how many orders are RETRYING.
func (f fixture) retrying() int64 {
	f.t.Helper()
	return f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusRetrying}}, PageSize: 1}).Total
}

func (f fixture) finalizePage(lane dlq.Lane, outcomes []dlq.PageOutcome) dlq.JobCounts {
	f.t.Helper()
	result, err := f.FinalizePage(f.t.Context(), lane, outcomes)
	require.NoError(f.t, err)
	return result.Counts
}

// requireFenced checks that the store refuses the outcomes, since a newer attempt has the lane.
func (f fixture) requireFenced(lane dlq.Lane, outcomes []dlq.PageOutcome) {
	f.t.Helper()
	result, err := f.FinalizePage(f.t.Context(), lane, outcomes)
	require.ErrorIs(f.t, err, dlq.ErrFenced)
	require.Zero(f.t, result)
}

// drain claims and delivers until the lane has nothing left, and returns the messages in
// order.
func (f fixture) drain(lane dlq.Lane) (delivered []dlq.ID) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		claim := f.send(lane)
		delivered = append(delivered, envelopeIDs(claim.Page)...)
		return len(claim.Page) == 0 && claim.Wait == 0 && claim.Next == nil
	}, 10*time.Second, time.Millisecond)
	return delivered
}

// acknowledged is an outcome whose target has the message at the offset.
func acknowledged(o dlq.Outcome, partition int32, offset int64) dlq.Outcome {
	o.Acknowledgement = &dlq.Acknowledgement{Partition: partition, Offset: offset}
	return o
}

// outcome ends the claim of one message.
func outcome(e dlq.PageEnvelope, result dlq.Result) dlq.PageOutcome {
	return dlqtest.Outcomes([]dlq.PageEnvelope{e}, result)[0]
}

func ids(messages []dlq.Message) []dlq.ID {
	list := make([]dlq.ID, len(messages))
	for i, m := range messages {
		list[i] = m.ID
	}
	return list
}

func envelopeIDs(page []dlq.PageEnvelope) []dlq.ID {
	list := make([]dlq.ID, len(page))
	for i, e := range page {
		list[i] = e.ID
	}
	return list
}

func arrivalIDs(arrivals []dlq.Arrival) []dlq.ID {
	list := make([]dlq.ID, len(arrivals))
	for i, a := range arrivals {
		list[i] = a.ID
	}
	return list
}
