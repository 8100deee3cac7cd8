package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// slowDelete makes the deletion of each message take this time.
func slowDelete(t *testing.T, pool *pgxpool.Pool, each time.Duration) {
	t.Helper()
	for _, sql := range []string{
		fmt.Sprintf(`CREATE OR REPLACE FUNCTION dlq.slow() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(%f); RETURN OLD; END $$`, each.Seconds()),
		`CREATE OR REPLACE TRIGGER slow BEFORE DELETE ON dlq.dlq_messages FOR EACH ROW EXECUTE FUNCTION dlq.slow()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

// startDelete stores ten messages and starts their deletion.
func startDelete(t *testing.T) (*pgxpool.Pool, *postgres.Store, []dlq.Arrival, dlq.Job) {
	t.Helper()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(10)
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	return pool, p, arrivals, startAction(t, p, dlq.KindDelete, dlq.Filter{Topic: "orders"})
}

func TestABatchThatTakesTooLongIsUndone(t *testing.T) {
	t.Parallel()
	pool, p, _, job := startDelete(t)
	slowDelete(t, pool, 200*time.Millisecond)
	_, err := p.Act(t.Context(), job, 10)
	require.ErrorIs(t, err, dlq.ErrSlow)
	require.EqualValues(t, 10, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages`))
	step, err := p.Act(t.Context(), job, 3)
	require.NoError(t, err)
	require.EqualValues(t, 3, step.Total)
	slowDelete(t, pool, 2*time.Second)
	step, err = p.Act(t.Context(), job, 1)
	require.NoError(t, err, "a single message cannot be divided")
	require.EqualValues(t, 4, step.Total)
}

func TestACancellationDoesNotWaitForASlowBatch(t *testing.T) {
	t.Parallel()
	pool, p, _, job := startDelete(t)
	slowDelete(t, pool, time.Second)
	var group sync.WaitGroup
	var failure error
	group.Go(func() { _, failure = p.Act(t.Context(), job, 10) })
	require.Eventually(t, func() bool {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`) == 1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, requireWithin(t, 4*time.Second, func() error {
		stopped, err := p.StopJob(t.Context(), nil, job.ID, dlq.JobCancelling, "operator")
		require.Equal(t, dlq.JobCancelling, stopped.State)
		return err
	}))
	group.Wait()
	require.ErrorIs(t, failure, dlq.ErrSlow)
	step, err := p.Act(t.Context(), job, 10)
	require.NoError(t, err)
	require.Equal(t, dlq.ChangeStep{Stopped: true}, step)
}

// A batch that waited for another batch of its job must not skip messages that are locked for a
// moment.
func TestALockOfTheJobMakesABatchSkipNoMessage(t *testing.T) {
	t.Parallel()
	pool, p, arrivals, job := startDelete(t)
	releaseJob := holdLock(t, pool, `SELECT FROM dlq.dlq_jobs WHERE id = $1 FOR UPDATE`, [16]byte(job.ID))
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(arrivals[3].ID))
	require.ErrorIs(t, requireWithin(t, 2*time.Second, func() error {
		_, err := p.Act(t.Context(), job, 10)
		return err
	}), dlq.ErrBlocked, "a second try would come with SKIP LOCKED")
	releaseJob()
	var group sync.WaitGroup
	var step dlq.ChangeStep
	var failure error
	group.Go(func() { step, failure = p.Act(t.Context(), job, 20) })
	waitForLocks(t, pool, 1)
	release()
	group.Wait()
	require.NoError(t, failure)
	require.EqualValues(t, 10, step.Changed)
}

func TestTheReasonOfABulkChangeNamesNoHost(t *testing.T) {
	t.Parallel()
	_, p, _, job := startDelete(t)
	_, refused := pgconn.Connect(t.Context(), "postgres://somebody@127.0.0.1:1/db")
	require.Error(t, refused)
	for want, cause := range map[string]error{
		"unavailable":      fmt.Errorf("connect: %w", refused),
		"ERROR: a trigger": fmt.Errorf("change messages: %w", &pgconn.PgError{Severity: "ERROR", Message: "a trigger"}),
	} {
		require.NoError(t, p.ExplainJob(t.Context(), job.ID, cause))
		now, err := p.Job(t.Context(), job.ID)
		require.NoError(t, err)
		require.Contains(t, now.Reason, want)
		require.NotContains(t, now.Reason, "somebody")
	}
}
