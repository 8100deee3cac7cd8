package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

func startAction(t *testing.T, p *postgres.Store, what dlq.JobKind, f dlq.Filter) dlq.Job {
	t.Helper()
	job, err := p.CreateJob(t.Context(), nil, dlqtest.Change(what, f))
	require.NoError(t, err)
	job, err = p.CountJob(t.Context(), job.ID)
	require.NoError(t, err)
	return job
}

func finishAction(t *testing.T, p *postgres.Store, job dlq.Job) dlq.Job {
	t.Helper()
	for {
		step, err := p.Act(t.Context(), job, dlq.ChangeBatch)
		require.NoError(t, err)
		if step.Done {
			break
		}
	}
	job, err := p.EndJob(t.Context(), nil, job.ID, dlq.JobCompleted, "")
	require.NoError(t, err)
	return job
}

func TestBulkChangesChangeRowsThatWereWrittenByHand(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for name, sql := range oddRows {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, name)
	}
	const inScope = `SELECT count(*) FROM dlq.dlq_messages WHERE original_topic = 'orders' AND updated_at < 'infinity'`
	rows := count(t, pool, inScope)
	for _, step := range []struct {
		action dlq.JobKind
		change int64
	}{
		{dlq.KindDead, rows - 2}, // one message is DEAD, and one is RESOLVED
		{dlq.KindRevive, rows - 1},
		{dlq.KindDelete, rows},
	} {
		job := finishAction(t, p, startAction(t, p, step.action, dlq.Filter{Topic: "orders"}))
		require.Equal(t, []int64{step.change, step.change, 0}, []int64{job.Matched, job.Counts.Changed, job.Counts.Skipped}, step.action)
		requireExactCounts(t, pool)
	}
	require.Zero(t, count(t, pool, inScope))
	require.EqualValues(t, 3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages`), "of other topics, or changed in the future")
}

func TestABulkDeleteLeavesNeitherBytesNorAttempts(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(50)
	_, err := p.Ingest(t.Context(), append(arrivals, dlqtest.Arrival(dlqtest.Topic("elsewhere"))), nil)
	require.NoError(t, err)
	for _, a := range arrivals[:10] {
		owner := dlqtest.Owner()
		_, err := p.Claim(t.Context(), a.ID, owner, dlq.ID{})
		require.NoError(t, err)
		_, _, err = p.Finalize(t.Context(), owner, dlqtest.Failed(a.ID))
		require.NoError(t, err)
	}
	job := finishAction(t, p, startAction(t, p, dlq.KindDelete, dlq.Filter{Topic: "orders.dlq"}))
	require.EqualValues(t, 50, job.Counts.Changed)
	for table, left := range map[string]int64{"dlq_messages": 1, "dlq_message_bodies": 1, "dlq_retry_attempts": 0} {
		require.Equal(t, left, count(t, pool, `SELECT count(*) FROM dlq.`+table), table)
	}
	requireExactCounts(t, pool)
}

// A claim locks more messages than it changes, so a bulk change waits for short locks.
func TestABulkChangeWaitsForALockForASecondAndThenSkipsTheMessage(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(20)
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	job := startAction(t, p, dlq.KindDead, dlq.Filter{Topic: "orders", IDs: []dlq.ID{arrivals[3].ID}})
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(arrivals[3].ID))
	var group sync.WaitGroup
	var step dlq.ChangeStep
	var failure error
	group.Go(func() { step, failure = p.Act(t.Context(), job, dlq.ChangeBatch) })
	waitForLocks(t, pool, 1)
	release()
	group.Wait()
	require.NoError(t, failure)
	require.EqualValues(t, 1, step.Changed)
	finishAction(t, p, job)

	job = startAction(t, p, dlq.KindDelete, dlq.Filter{Topic: "orders"})
	release = holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(arrivals[5].ID))
	require.NoError(t, requireWithin(t, 5*time.Second, func() error {
		step, err := p.Act(t.Context(), job, dlq.ChangeBatch)
		require.EqualValues(t, 18, step.Changed, "the others that are PENDING")
		return err
	}))
	release()
	job = finishAction(t, p, job)
	require.Equal(t, []int64{20, 19, 1}, []int64{job.Matched, job.Counts.Changed, job.Counts.Skipped})
	_, err = p.Message(t.Context(), arrivals[5].ID)
	require.NoError(t, err)
}

// The stop of a job waits for its running batch, and the next batch sees the stop.
func TestABatchThatWaitedWhileTheJobWasStoppedChangesNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(5), nil)
	require.NoError(t, err)
	job := startAction(t, p, dlq.KindDelete, dlq.Filter{Topic: "orders"})
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET state = 'CANCELLING' WHERE id = $1`, [16]byte(job.ID))
	require.NoError(t, err)
	var group sync.WaitGroup
	var step dlq.ChangeStep
	var failure error
	group.Go(func() { step, failure = p.Act(t.Context(), job, dlq.ChangeBatch) })
	waitForLocks(t, pool, 1)
	require.NoError(t, tx.Commit(t.Context()))
	group.Wait()
	require.NoError(t, failure)
	require.Equal(t, dlq.ChangeStep{Stopped: true}, step)
	require.EqualValues(t, 5, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages`))
}

func TestABatchWhoseSessionDiedIsNotCounted(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(dlq.ChangeBatch+5, func(a *dlq.Arrival) { a.Payload = nil })
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	job := startAction(t, p, dlq.KindDead, dlq.Filter{Topic: "orders"})
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(arrivals[700].ID))
	var group sync.WaitGroup
	var failure error
	group.Go(func() { _, failure = p.Act(t.Context(), job, dlq.ChangeBatch) })
	waitForLocks(t, pool, 1) // the batch has locked 700 messages
	require.EqualValues(t, 1, count(t, pool, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`))
	group.Wait()
	require.ErrorIs(t, failure, dlq.ErrUnavailable)
	release()
	left, err := p.Job(t.Context(), job.ID)
	require.NoError(t, err)
	require.Zero(t, left.Counts.Changed)
	ended := finishAction(t, p, job)
	require.EqualValues(t, len(arrivals), ended.Counts.Changed)
	require.Zero(t, ended.Counts.Skipped)
	requireExactCounts(t, pool)
}

// Bulk retries, single calls and the archive change the messages at the same time. A call that
// is in a deadlock five times in a row fails.
func TestBulkChangesDoNotDeadlockWithOtherChanges(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(3000, func(a *dlq.Arrival) { a.Payload = nil })
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	before := count(t, pool, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	bulk, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 2))
	require.NoError(t, err)
	_, err = p.CountJob(t.Context(), bulk.ID)
	require.NoError(t, err)
	var group sync.WaitGroup
	failures := make([]error, 4)
	for number := range bulk.Lanes {
		group.Go(func() {
			for failures[number] == nil {
				claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(bulk, number), nil, true)
				if err == nil && len(claim.Page) == 0 && claim.Next == nil {
					return
				}
				if err == nil {
					_, err = p.FinalizePage(t.Context(), dlqtest.Lane(bulk, number), dlqtest.Outcomes(claim.Page, dlq.ResultFailed))
				}
				failures[number] = err
			}
		})
	}
	group.Go(func() {
		for i := len(arrivals) - 1; i >= 0 && failures[2] == nil; i -= 50 {
			_, err := p.MarkDead(t.Context(), nil, arrivals[i].ID)
			if !errors.Is(err, dlq.ErrNotFound) {
				failures[2] = err
			}
		}
	})
	var jobs []dlq.Job
	group.Go(func() {
		for _, action := range []dlq.JobKind{dlq.KindDead, dlq.KindRevive, dlq.KindDead, dlq.KindRevive} { // a retry runs
			job, err := p.CreateJob(t.Context(), nil, dlqtest.Change(action, dlq.Filter{Topic: "orders"}))
			if err == nil {
				job, err = p.CountJob(t.Context(), job.ID)
			}
			for step := (dlq.ChangeStep{}); err == nil && !step.Done; {
				step, err = p.Act(t.Context(), job, dlq.ChangeBatch)
			}
			if err == nil {
				job, err = p.EndJob(t.Context(), nil, job.ID, dlq.JobCompleted, "")
			}
			jobs, failures[3] = append(jobs, job), errors.Join(failures[3], err)
		}
	})
	group.Wait()
	require.NoError(t, errors.Join(failures...))
	for _, job := range jobs {
		require.Equal(t, job.Matched, job.Counts.Changed+job.Counts.Skipped)
	}
	require.Equal(t, before, count(t, pool, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`))
	requireExactCounts(t, pool)
}

func TestAnUnreadableBulkChangeDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(3), nil)
	require.NoError(t, err)
	broken := startAction(t, p, dlq.KindDelete, dlq.Filter{Topic: "orders"})
	other := startAction(t, p, dlq.KindDead, dlq.Filter{Topic: "elsewhere"})
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET spec = '{"topic": 7}', counted = false WHERE id = $1`, [16]byte(broken.ID))
	require.NoError(t, err)
	page, err := p.Jobs(t.Context(), dlq.JobQuery{PageSize: 10})
	require.NoError(t, err)
	list := page.Entries
	require.Len(t, list, 2)
	require.Equal(t, other, list[0])
	require.Contains(t, list[1].Reason, dlq.ErrSpecUnreadable.Error())
}

func TestAnUnreadableBulkChangeChangesNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(3), nil)
	require.NoError(t, err)
	job := startAction(t, p, dlq.KindDelete, dlq.Filter{Topic: "orders"})
	for _, spec := range []string{`{}`, `7`, `{"topic": 7}`, `{"topic": "orders"}`, `{"topic": "orders", "kind": "explode"}`, `{"kind": "delete"}`,
		`{"topic": "orders", "kind": "delete", "colour": "red"}`} {
		for _, counted := range []bool{false, true} {
			_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET spec = $1, counted = $2`, spec, counted)
			require.NoError(t, err)
			_, err = p.CountJob(t.Context(), job.ID)
			require.ErrorIs(t, err, dlq.ErrSpecUnreadable, spec)
			broken, err := p.Job(t.Context(), job.ID)
			require.NoError(t, err)
			_, err = p.Act(t.Context(), broken, dlq.ChangeBatch)
			require.ErrorIs(t, err, dlq.ErrSpecUnreadable, spec)
		}
	}
	require.EqualValues(t, 3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'PENDING'`))
	ended, err := p.EndJob(t.Context(), nil, job.ID, dlq.JobFailed, "it cannot be read")
	require.NoError(t, err)
	require.Equal(t, dlq.JobFailed, ended.State)
	require.Contains(t, ended.Reason, dlq.ErrSpecUnreadable.Error())
}
