package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// holdLock runs a statement in a transaction that stays open until release. A second call of
// release does nothing.
func holdLock(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	release = sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.Background())) })
	t.Cleanup(release)
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return release
}

// requireWithin checks that a call ends in time.
func requireWithin(t *testing.T, limit time.Duration, call func() error) error {
	t.Helper()
	began := time.Now()
	err := call()
	require.Less(t, time.Since(began), limit)
	return err
}

// startPages creates a bulk retry with one lane and claims its first page.
func startPages(t *testing.T, pool *pgxpool.Pool, messages int) (*postgres.Store, dlq.Lane, []dlq.PageEnvelope) {
	t.Helper()
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(messages), nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	lane, err := p.OpenLane(t.Context(), b.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, min(messages, dlq.PageSize))
	return p, lane, claim.Page
}

func TestALockOfAnotherTransactionBlocksAPageButNotTheJob(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"row":   `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`,
		"index": `CREATE INDEX ON dlq.dlq_messages (error_class)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			// The pool's only connection prepares its statements before the lock is taken.
			p, lane, page := startPages(t, dbtest.Pool(t, pool.Config().ConnString()+"&pool_max_conns=1"), 2*dlq.PageSize)
			unknown := dlq.PageOutcome{Outcome: dlqtest.Delivered(dlq.NewID()), RetryCount: 1}
			_, err := p.FinalizePage(t.Context(), lane, []dlq.PageOutcome{unknown})
			require.NoError(t, err)
			operator := postgres.New(pool, dlqtest.Topics(t))
			jobs := []dlq.ID{lane.Job, lane.Job}
			var next dlq.Lane
			var args []any
			if name == "row" {
				args = append(args, [16]byte(page[50].ID))
			} else {
				_, next = openLane(t, pool, dlqtest.Bulk("payments", 1), dlqtest.Arrivals(1, dlqtest.Topic("payments")))
				jobs[1] = next.Job
			}
			release := holdLock(t, pool, sql, args...)
			calls := []func(context.Context) error{
				func(ctx context.Context) error {
					_, err := p.FinalizePage(ctx, lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
					return err
				},
				func(ctx context.Context) error {
					_, err := p.FinalizePage(ctx, lane, dlqtest.Outcomes(page, dlq.ResultWaiting))
					return err
				},
			}
			if name == "index" { // after an error the driver prepares the statement again, without a timeout
				calls = calls[:1]
				calls = append(calls, func(ctx context.Context) error {
					claim, _, err := p.NextPage(ctx, next, nil, true)
					if err == nil && claim.Stopped { // a claim begins again after a short wait, and sees that the job was stopped
						err = dlq.ErrBlocked
					}
					return err
				})
			}
			for i, call := range calls {
				var group sync.WaitGroup
				var failure error
				group.Go(func() {
					failure = requireWithin(t, 2500*time.Millisecond, func() error { return call(t.Context()) })
				})
				waitForLocks(t, pool, 1)
				if i == 0 {
					_, err := pool.Exec(t.Context(), `SELECT FROM dlq.dlq_job_lanes FOR UPDATE NOWAIT`)
					require.NoError(t, err, "no lane is locked while a message is waited for")
				}
				require.NoError(t, requireWithin(t, time.Second, func() error {
					_, err := operator.StopJob(t.Context(), nil, jobs[i], dlq.JobPausing, fmt.Sprint(i))
					return err
				}))
				group.Wait()
				require.ErrorIs(t, failure, dlq.ErrBlocked)
				require.ErrorIs(t, failure, dlq.ErrUnavailable)
				require.EqualValues(t, dlq.PageSize, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`))
				_, err = operator.ResumeJob(t.Context(), nil, jobs[i])
				require.NoError(t, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = p.PauseJob(ctx, nil, lane.Job, "")
			require.ErrorIs(t, err, dlq.ErrUnavailable, "a pause has the same timeout")
			release()
			lane, err = p.OpenLane(t.Context(), lane.Job, 0, dlq.LaneAttempt{})
			require.NoError(t, err)
			require.Equal(t, dlq.JobPausing, lane.State)
			ended, err := p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
			require.NoError(t, err)
			require.Equal(t, dlq.PageResult{Counts: dlq.JobCounts{Retried: dlq.PageSize}, Ended: dlq.PageSize}, ended)
		})
	}
}

func TestAFinalizeIsUndoneWhenANewerAttemptTookTheLaneMeanwhile(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane, page := startPages(t, pool, dlq.PageSize)
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(page[50].ID))
	var failure error
	var group sync.WaitGroup
	group.Go(func() {
		_, failure = p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultFailed))
	})
	waitForLocks(t, pool, 1)
	newer, err := p.OpenLane(t.Context(), lane.Job, 0, dlq.LaneAttempt{Number: 2})
	require.NoError(t, err)
	release()
	group.Wait()
	require.ErrorIs(t, failure, dlq.ErrFenced)
	require.EqualValues(t, dlq.PageSize, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`))
	ended, err := p.FinalizePage(t.Context(), newer, dlqtest.Outcomes(page, dlq.ResultDelivered))
	require.NoError(t, err)
	require.Equal(t, dlq.PageResult{Counts: dlq.JobCounts{Retried: dlq.PageSize}, Ended: dlq.PageSize}, ended)
}

// A new connection prepares its statements first. The preparation waits for the lock of a table
// as long as the caller waits.
func TestALockBlocksANewConnectionForAsLongAsItsCallerWaits(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	_, lane, page := startPages(t, pool, 10)
	release := holdLock(t, pool, `CREATE INDEX ON dlq.dlq_messages (error_class)`)
	fresh := postgres.New(dbtest.Pool(t, pool.Config().ConnString()), dlqtest.Topics(t))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := fresh.FinalizePage(ctx, lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
	require.ErrorIs(t, err, dlq.ErrUnavailable)
	release()
	_, err = fresh.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
	require.NoError(t, err)
}

func TestALockedMessageIsNotSkipped(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	var arrivals []dlq.Arrival
	for _, key := range []string{"a", "b", "a", "b", "a", "c"} {
		arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Key(key)))
	}
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	lane := dlqtest.Lane(b, 0)
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(arrivals[2].ID))
	send := func() (sent []dlq.ID) {
		claim, _, err := p.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err)
		for _, e := range claim.Page {
			sent = append(sent, e.ID)
		}
		_, err = p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, err)
		return sent
	}
	require.Equal(t, []dlq.ID{arrivals[0].ID, arrivals[1].ID, arrivals[3].ID, arrivals[5].ID}, send())
	found, err := p.Job(t.Context(), b.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, found.Waiting)
	require.Contains(t, found.Reason, "another client")
	require.Empty(t, send())
	release()
	var sent []dlq.ID
	require.Eventually(t, func() bool { sent = send(); return len(sent) > 0 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, []dlq.ID{arrivals[2].ID, arrivals[4].ID}, sent)
	ended, err := p.EndJob(t.Context(), nil, b.ID, dlq.JobCompleted, "")
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 6}, ended.Counts)
}

func TestMessagesThatWereLockedForAMomentAreSentInFullPages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), dlqtest.Arrivals(3*dlq.PageSize))
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages FOR UPDATE`)
	due := func() {
		_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_job_queues SET due_at = now()`)
		require.NoError(t, err)
	}
	next := func(outcomes []dlq.PageOutcome) []dlq.PageOutcome {
		claim, _, err := p.NextPage(t.Context(), lane, outcomes, true)
		require.NoError(t, err)
		return dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)
	}
	for range 5 {
		require.Empty(t, next(nil))
		due()
		lane.ScanFirst = !lane.ScanFirst
	}
	lane.ScanFirst = false
	require.EqualValues(t, 3*dlq.PageSize, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_waiting`))
	release()
	var outcomes []dlq.PageOutcome
	for range 3 {
		due()
		outcomes = next(outcomes)
		require.Len(t, outcomes, dlq.PageSize)
	}
	require.Empty(t, next(outcomes))
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_queues`))
	ended, err := p.EndJob(t.Context(), nil, lane.Job, dlq.JobCompleted, "")
	require.NoError(t, err)
	require.Equal(t, dlq.JobCounts{Retried: 3 * dlq.PageSize}, ended.Counts)
}

func TestOnlyOneLaneTriesAClosedTarget(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane, page := startPages(t, pool, 3)
	outcomes := dlqtest.Outcomes(page, dlq.ResultWaiting)
	for i := range outcomes {
		outcomes[i].Wait = dlq.Wait{Target: dlq.Target{Topic: "orders"}, Tries: 1}
	}
	_, err := p.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_job_queues FOR NO KEY UPDATE`) // like another lane that tries the target
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Empty(t, claim.Page)
	require.Positive(t, claim.Wait)
	release()
	claim, _, err = p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 1)
}

func TestABulkRetryThatHasEndedLeavesNoQueues(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane, page := startPages(t, pool, 3)
	outcomes := dlqtest.Outcomes(page, dlq.ResultWaiting)
	outcomes[0] = dlqtest.Outcomes(page[:1], dlq.ResultFailed)[0]
	outcomes[1].Wait = dlq.Wait{Target: dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}, OfKey: true, Tries: 1, For: time.Hour}
	_, err := p.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)
	tables := map[string]int64{"queues": 2, "waiting": 2, "blocked_keys": 1}
	for table, rows := range tables {
		require.Equal(t, rows, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_`+table), table)
	}
	_, err = p.EndJob(t.Context(), nil, lane.Job, dlq.JobCancelled, "")
	require.NoError(t, err)
	for table := range tables {
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_`+table), table)
	}
}

// Lanes that requeue, pauses and the end of a job lock the same rows in different orders.
func TestPagesPausesAndEndsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const lanes, messages = 4, 1200
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(messages)
	for i := range arrivals {
		arrivals[i].Record.Key = []byte{byte(i % 53)}
	}
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", lanes))
	require.NoError(t, err)
	_, err = p.CountJob(t.Context(), b.ID)
	require.NoError(t, err)
	many := int64(messages)
	require.NoError(t, p.SetStepLimit(t.Context(), b.ID, &many)) // so that claims lock the job's row too
	failures := make([]error, lanes+2)
	stop := make(chan struct{})
	var group sync.WaitGroup
	run := func(i int, step func() error) {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := step(); err != nil && !errors.Is(err, dlq.ErrFenced) && !errors.Is(err, dlq.ErrBlocked) { // as the callers do
					failures[i] = err
					return
				}
			}
		})
	}
	for number := range lanes {
		lane := dlqtest.Lane(b, number)
		run(number, func() error {
			claim, _, err := p.NextPage(t.Context(), lane, nil, true)
			if err == nil && claim.Stopped {
				time.Sleep(time.Millisecond)
				if lane, err = p.OpenLane(t.Context(), b.ID, number, dlq.LaneAttempt{}); err == nil {
					err = p.ReleasePage(t.Context(), lane)
				}
				return err
			}
			if err != nil || len(claim.Page) == 0 {
				return err
			}
			var outcomes []dlq.PageOutcome
			for i, e := range claim.Page {
				o := dlqtest.Outcomes(claim.Page[i:i+1], dlq.ResultDelivered)[0]
				switch partition := int32(e.Record.Key[0]) % 3; rand.IntN(6) {
				case 0, 1:
					o.Target = dlq.Target{Topic: "orders", Partition: partition}
				default:
					o = dlqtest.Outcomes(claim.Page[i:i+1], dlq.ResultWaiting)[0]
					o.Wait = dlq.Wait{Target: dlq.Target{Topic: "orders", Partition: partition}, Tries: rand.IntN(2)}
				}
				outcomes = append(outcomes, o)
			}
			_, err = p.FinalizePage(t.Context(), lane, outcomes)
			return err
		})
	}
	run(lanes, func() error {
		_, err := p.PauseJob(t.Context(), nil, b.ID, "race")
		return err
	})
	run(lanes+1, func() error {
		time.Sleep(5 * time.Millisecond)
		_, err := p.ResumeJob(t.Context(), nil, b.ID)
		return err
	})
	time.Sleep(1500 * time.Millisecond) // the race is the test
	ended, err := p.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "")
	close(stop)
	group.Wait()
	require.NoError(t, errors.Join(errors.Join(failures...), err))
	found, err := p.Job(t.Context(), b.ID)
	require.NoError(t, err)
	require.Equal(t, ended.Counts, found.Counts)
	require.EqualValues(t, messages, ended.Counts.Done())
	// A delivery that was acknowledged after its claim was lost is an attempt. After the end of the job it is not counted.
	late := count(t, pool, `SELECT count(DISTINCT message_id) FROM dlq.dlq_retry_attempts WHERE result = 'delivered'`)
	resolved := count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED' AND retry_count = 1`)
	uncounted := resolved - ended.Counts.Retried
	require.True(t, 0 <= uncounted && uncounted <= late, "%d deliveries are not counted, and %d were late", uncounted, late)
	require.Equal(t, ended.Counts.Skipped, uncounted+count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'PENDING' AND retry_count = 0`))
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_waiting`))
}

// The restored database does not have the claim, but the target has the messages.
func TestADeliveryCountsAlthoughARestoreForgotItsClaim(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane, page := startPages(t, pool, 3)
	for _, sql := range []string{
		`UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0, workflow_id = '', owner_token = '', in_page = false`,
		`UPDATE dlq.dlq_job_lanes SET page = '{}', cursor = 0, epoch = 0`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, err := p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
	require.ErrorIs(t, err, dlq.ErrFenced)
	b, err := p.Job(t.Context(), lane.Job)
	require.NoError(t, err)
	require.EqualValues(t, 3, b.Counts.Retried)
	require.EqualValues(t, 3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED' AND retry_count = 1`))
}
