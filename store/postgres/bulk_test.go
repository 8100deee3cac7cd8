package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

func TestLanesOfSeveralWorkersShareOneRate(t *testing.T) {
	t.Parallel()
	const rate, messages, lanes = 500, 1000, 4
	pool := dbtest.New(t)
	other := dbtest.Pool(t, pool.Config().ConnString())
	workers := []*postgres.Store{postgres.New(pool, dlqtest.Topics(t)), postgres.New(other, dlqtest.Topics(t))}
	_, err := workers[0].Ingest(t.Context(), dlqtest.Arrivals(messages), nil)
	require.NoError(t, err)
	b, err := workers[0].CreateJob(t.Context(), nil, dlqtest.Bulk("orders", lanes, dlqtest.Rate(rate)))
	require.NoError(t, err)
	// claimed is a claim with messages, which the database made between the two times.
	type claimed struct {
		began, ended time.Time
		messages     int
	}
	claims := make([][]claimed, lanes)
	failures := make([]error, lanes)
	var group sync.WaitGroup
	for number := range lanes {
		group.Go(func() {
			var outcomes []dlq.PageOutcome
			for {
				began := time.Now()
				claim, _, err := workers[number%2].NextPage(t.Context(), dlqtest.Lane(b, number), outcomes, true)
				outcomes = dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)
				if failures[number] = err; err != nil || len(claim.Page) == 0 && claim.Wait == 0 {
					return
				}
				claims[number] = append(claims[number], claimed{began, time.Now(), len(claim.Page)})
				<-time.After(claim.Wait)
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failures...))

	all := slices.Concat(claims...)
	const burst = rate / 5 // messages of a tenth of a second that was unused, and of a tenth of a second in advance
	for _, from := range all {
		for _, to := range all {
			sum := 0
			for _, c := range all {
				if !c.began.Before(from.began) && !c.ended.After(to.ended) {
					sum += c.messages
				}
			}
			allowed := burst + rate*max(0, to.ended.Sub(from.began).Seconds())
			require.LessOrEqual(t, float64(sum), allowed, "from %s to %s", from.began, to.ended)
		}
	}
	total := 0
	for _, c := range all {
		total += c.messages
	}
	require.Equal(t, messages, total)
}

// waitForLocks returns once n connections to the pool's database wait for a lock.
func waitForLocks(t *testing.T, pool *pgxpool.Pool, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	}, 10*time.Second, time.Millisecond)
}

func TestAClaimThatWaitedWhileTheJobWasPausedIsEmpty(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(2*dlq.PageSize), nil)
	require.NoError(t, err)
	for _, rate := range []int{0, 1_000_000} {
		b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1, dlqtest.Rate(rate)))
		require.NoError(t, err)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_job_lanes WHERE job_id = $1 FOR UPDATE`, [16]byte(b.ID))
		require.NoError(t, err)
		var group sync.WaitGroup
		var claimed error
		var claim dlq.LaneClaim
		group.Go(func() { claim, _, claimed = p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true) })
		waitForLocks(t, pool, 1)
		if rate == 0 { // with a rate limit, the claim has the job's row already
			_, err = p.StopJob(t.Context(), nil, b.ID, dlq.JobPausing, "operator")
			require.NoError(t, err)
		}
		require.NoError(t, tx.Rollback(t.Context()))
		group.Wait()
		require.NoError(t, claimed)
		require.Equal(t, rate == 0, claim.Stopped)
		require.Equal(t, rate == 0, len(claim.Page) == 0)
		_, err = p.PauseJob(t.Context(), nil, b.ID, "operator")
		require.NoError(t, err)
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING' OR retry_count <> 0`))
		_, err = p.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "")
		require.NoError(t, err)
	}
}

// A cancelled retry releases its message, even while its claim is still being committed.
func TestAClaimThatIsBeingCommittedIsReleased(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	a, owner := dlqtest.Arrival(), dlqtest.Owner()
	_, err := p.Ingest(t.Context(), []dlq.Arrival{a}, nil)
	require.NoError(t, err)
	claim, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = claim.Exec(t.Context(), `UPDATE dlq.dlq_messages SET status = 'RETRYING', retry_count = 1, workflow_id = $1, owner_token = $2`,
		owner.WorkflowID, owner.Token)
	require.NoError(t, err)
	var group sync.WaitGroup
	var ended bool
	var failure error
	group.Go(func() {
		_, ended, failure = p.Finalize(t.Context(), owner, dlq.Outcome{ID: a.ID, Result: dlq.ResultReleased})
	})
	waitForLocks(t, pool, 1)
	require.NoError(t, claim.Commit(t.Context()))
	group.Wait()
	require.NoError(t, failure)
	require.True(t, ended)
	message, err := p.Message(t.Context(), a.ID)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusPending, message.Status)
	require.Zero(t, message.RetryCount)
}

// A claim that waits for its lane may have an old snapshot. It must not claim a message
// whose single retry failed meanwhile.
func TestAClaimThatWaitedDoesNotClaimChangedMessages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(3)
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_job_lanes FOR UPDATE`)
	require.NoError(t, err)
	var group sync.WaitGroup
	var claim dlq.LaneClaim
	var failure error
	group.Go(func() { claim, _, failure = p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true) })
	waitForLocks(t, pool, 1)
	owner := dlqtest.Owner()
	_, err = p.Claim(t.Context(), arrivals[1].ID, owner, dlq.ID{})
	require.NoError(t, err)
	_, _, err = p.Finalize(t.Context(), owner, dlqtest.Failed(arrivals[1].ID))
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	group.Wait()
	require.NoError(t, failure)
	require.Len(t, claim.Page, 2)
	require.Equal(t, arrivals[0].ID, claim.Page[0].ID)
	require.Equal(t, arrivals[2].ID, claim.Page[1].ID)
}

// startOfThree creates a bulk retry of three messages.
func startOfThree(t *testing.T) (*pgxpool.Pool, *postgres.Store, dlq.Job) {
	t.Helper()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(3), nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	return pool, p, b
}

// lockJob locks the row of the only job until unlock. A second call of unlock does nothing.
func lockJob(t *testing.T, pool *pgxpool.Pool) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_jobs FOR UPDATE`)
	require.NoError(t, err)
	return sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.Background())) })
}

// Every claim of a job with a limit writes the job's row. A claim of a job without a limit only reads
// the row, so that no lane waits for another lane.
func TestAnUnlimitedLaneDoesNotNeedTheJobsRow(t *testing.T) {
	t.Parallel()
	pool, p, b := startOfThree(t)
	unlock := lockJob(t, pool)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	claim, _, err := p.NextPage(ctx, dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 3)
	_, err = p.FinalizePage(ctx, dlqtest.Lane(b, 0), dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
	require.NoError(t, err)
}

// uncommitted stores an arrival in a transaction that is committed when release is called. The
// message has its seq before that.
func uncommitted(t *testing.T, pool *pgxpool.Pool, p *postgres.Store) (a dlq.Arrival, release func()) {
	t.Helper()
	a = dlqtest.Arrival()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (id, original_topic, error_message) VALUES ($1, 'elsewhere', 'boom')`, [16]byte(a.ID))
	require.NoError(t, err)
	var stored error
	var group sync.WaitGroup
	group.Go(func() { _, stored = p.Ingest(t.Context(), []dlq.Arrival{a}, nil) })
	waitForLocks(t, pool, 1)
	return a, func() {
		t.Helper()
		require.NoError(t, tx.Rollback(t.Context()))
		group.Wait()
		require.NoError(t, stored)
	}
}

func TestACreationWaitsForARunningIngest(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	first, release := uncommitted(t, pool, p)
	second := dlqtest.Arrival() // it has a later seq, and is committed first
	_, err := p.Ingest(t.Context(), []dlq.Arrival{second}, nil)
	require.NoError(t, err)

	var group sync.WaitGroup
	var started dlq.Job
	var failure error
	group.Go(func() { started, failure = p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1)) })
	waitForLocks(t, pool, 2)
	release()
	group.Wait()
	require.NoError(t, failure)
	started, err = p.CountJob(t.Context(), started.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, started.Matched)
	claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(started, 0), nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 2)
	require.Equal(t, first.ID, claim.Page[0].ID)
}

func TestACreationBlocksIngestForASecondsAtMost(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, release := uncommitted(t, pool, p)
	var group sync.WaitGroup
	var started, stored error
	group.Go(func() { _, started = p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1)) })
	waitForLocks(t, pool, 2)
	group.Go(func() { _, stored = p.Ingest(t.Context(), dlqtest.Arrivals(1), nil) })
	waitForLocks(t, pool, 3)
	group.Wait() // though the first ingest is still under way
	require.ErrorIs(t, started, dlq.ErrUnavailable)
	require.ErrorContains(t, started, "ingest did not release its lock within 2s")
	require.NoError(t, stored)
	release()
	_, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	require.Zero(t, count(t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
}

// suspender suspends a program that holds an advisory lock, until resume is closed.
type suspender struct{ resume chan struct{} }

type locks struct{}

func (suspender) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, locks{}, strings.Contains(q.SQL, "pg_advisory_xact_lock"))
}

func (s suspender) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if isLock, _ := ctx.Value(locks{}).(bool); isLock {
		<-s.resume
	}
}

func TestASuspendedProgramDoesNotBlockCreations(t *testing.T) {
	t.Parallel()
	healthy := dbtest.New(t)
	config := healthy.Config()
	resume := make(chan struct{})
	config.ConnConfig.Tracer = suspender{resume: resume}
	suspended, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(suspended.Close)

	var group sync.WaitGroup
	var failure error
	group.Go(func() {
		_, failure = postgres.New(suspended, dlqtest.Topics(t)).CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	})
	require.Eventually(t, func() bool {
		return count(t, healthy, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`) == 1
	}, 10*time.Second, 10*time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = postgres.New(healthy, dlqtest.Topics(t)).CreateJob(ctx, nil, dlqtest.Bulk("payments", 1))
	close(resume)
	group.Wait()
	require.NoError(t, err)
	require.ErrorIs(t, failure, dlq.ErrUnavailable)
	running, err := postgres.New(healthy, dlqtest.Topics(t)).RunningRetries(t.Context())
	require.NoError(t, err)
	require.Len(t, running, 1)
}

func TestACountBlocksNoOtherCall(t *testing.T) {
	t.Parallel()
	pool, p, b := startOfThree(t)
	unlock := lockJob(t, pool) // so the count waits
	defer unlock()
	var group sync.WaitGroup
	var counted dlq.Job
	var failure error
	group.Go(func() { counted, failure = p.CountJob(t.Context(), b.ID) })
	waitForLocks(t, pool, 1)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found, err := p.Job(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, b, found)
	_, err = p.Ingest(ctx, dlqtest.Arrivals(1), nil)
	require.NoError(t, err)
	other, err := p.CreateJob(ctx, nil, dlqtest.Bulk("elsewhere", 1))
	require.NoError(t, err)
	_, err = p.CountJob(ctx, other.ID)
	require.NoError(t, err)
	var busy *dlq.JobBusyError
	_, err = p.CreateJob(ctx, nil, dlqtest.Bulk("orders.dlq", 1))
	require.ErrorAs(t, err, &busy)
	unlock()
	group.Wait()
	require.NoError(t, failure)
	require.EqualValues(t, 3, counted.Matched)
}

// Before the count, all keys of this test are in the buckets of the first of four lanes.
func TestTheCountGivesTheLanesAboutAsManyMessagesEach(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(200)
	for i, n := 0, 0; i < len(arrivals); n++ {
		key := fmt.Appendf(nil, "key %d", n)
		if dlq.KeyHash(key, dlq.ID{})&(dlq.Buckets-1) < dlq.Buckets/4 {
			arrivals[i].Record.Key = key
			i++
		}
	}
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	job, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 4))
	require.NoError(t, err)
	job, err = p.CountJob(t.Context(), job.ID)
	require.NoError(t, err)
	require.EqualValues(t, len(arrivals), job.Matched)
	var stored, claimed []dlq.ID
	for i := range arrivals {
		stored = append(stored, arrivals[i].ID)
	}
	for number := range 4 {
		lane, err := p.OpenLane(t.Context(), job.ID, number, dlq.LaneAttempt{})
		require.NoError(t, err)
		claim, _, err := p.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err)
		require.InDelta(t, len(arrivals)/4, len(claim.Page), 5, "lane %d has the buckets %v", number, lane.Buckets)
		claimed = append(claimed, ids(claim.Page)...)
	}
	require.ElementsMatch(t, stored, claimed)
}

// After a restore, the database may have a job from before its count. The lanes of the job go on until another run of
// the workflow counts the messages.
func TestALateCountLeavesTheLanesTheirBuckets(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(400)
	for i := range arrivals {
		arrivals[i].Record.Key = fmt.Appendf(nil, "key %d", i*i/4000)
	}
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	job, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 4))
	require.NoError(t, err)
	var stored, claimed []dlq.ID
	for i := range arrivals {
		stored = append(stored, arrivals[i].ID)
	}
	run := func(number int) {
		lane, err := p.OpenLane(t.Context(), job.ID, number, dlq.LaneAttempt{})
		require.NoError(t, err)
		claim, _, err := p.NextPage(t.Context(), lane, nil, true)
		for err == nil && len(claim.Page) > 0 {
			claimed = append(claimed, ids(claim.Page)...)
			claim, _, err = p.NextPage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered), true)
		}
		require.NoError(t, err)
	}
	run(0)
	_, err = p.CountJob(t.Context(), job.ID)
	require.NoError(t, err)
	for number := range 4 {
		run(number)
	}
	require.ElementsMatch(t, stored, claimed)
}
