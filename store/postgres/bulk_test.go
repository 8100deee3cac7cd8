package postgres_test

import (
	"context"
	"errors"
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
	_, err := workers[0].StoreArrivals(t.Context(), dlqtest.Arrivals(messages))
	require.NoError(t, err)
	b, err := workers[0].CreateBulk(t.Context(), dlqtest.Bulk("orders", lanes, dlqtest.Rate(rate)))
	require.NoError(t, err)
	// A grant is a claim that took messages. It was made between asked and
	// answered, however busy the machine is.
	type grant struct {
		asked, answered time.Time
		messages        int
	}
	grants := make([][]grant, lanes)
	failures := make([]error, lanes)
	var group sync.WaitGroup
	for number := range lanes {
		group.Go(func() {
			for {
				asked := time.Now()
				claim, err := workers[number%2].ClaimPage(t.Context(), dlqtest.Lane(b, number), true)
				if failures[number] = err; err != nil || len(claim.Page) == 0 && claim.Wait == 0 {
					return
				}
				grants[number] = append(grants[number], grant{asked, time.Now(), len(claim.Page)})
				<-time.After(claim.Wait)
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failures...))

	all := slices.Concat(grants...)
	const burst = rate / 5 // a claim takes what is due, and a tenth of a second more
	for _, from := range all {
		for _, to := range all {
			sum := 0
			for _, g := range all {
				if !g.asked.Before(from.asked) && !g.answered.After(to.answered) {
					sum += g.messages
				}
			}
			allowed := burst + rate*max(0, to.answered.Sub(from.asked).Seconds())
			require.LessOrEqual(t, float64(sum), allowed, "from %s to %s", from.asked, to.answered)
		}
	}
	total := 0
	for _, g := range all {
		total += g.messages
	}
	require.Equal(t, messages, total)
}

// waiting returns once n connections to the pool's database wait for a lock.
func waiting(t *testing.T, pool *pgxpool.Pool, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == n
	}, 10*time.Second, time.Millisecond)
}

func TestAClaimThatWaitedForAPauseTakesNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.StoreArrivals(t.Context(), dlqtest.Arrivals(2*dlq.PageSize))
	require.NoError(t, err)
	for _, rate := range []int{0, 1_000_000} {
		b, err := p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1, dlqtest.Rate(rate)))
		require.NoError(t, err)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = $1 FOR UPDATE`, [16]byte(b.ID))
		require.NoError(t, err)
		var group sync.WaitGroup
		var claimed error
		var claim dlq.LaneClaim
		group.Go(func() { claim, claimed = p.ClaimPage(t.Context(), dlqtest.Lane(b, 0), true) })
		waiting(t, pool, 1)
		if rate == 0 { // else the claim has the job's row
			_, err = p.StopBulk(t.Context(), b.ID, dlq.BulkPausing, "operator")
			require.NoError(t, err)
		}
		require.NoError(t, tx.Rollback(t.Context()))
		group.Wait()
		require.NoError(t, claimed)
		require.Equal(t, rate == 0, claim.Stopped)
		require.Equal(t, rate == 0, len(claim.Page) == 0)
		_, err = p.PauseBulk(t.Context(), b.ID, "operator")
		require.NoError(t, err)
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING' OR retry_count <> 0`))
		_, err = p.EndBulk(t.Context(), b.ID, dlq.BulkCancelled, "")
		require.NoError(t, err)
	}
}

// A cancelled retry gives back what it has claimed, also when the claim was slow.
func TestAClaimThatIsBeingCommittedIsGivenBack(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	a, owner := dlqtest.Arrival(), dlqtest.Owner()
	_, err := p.StoreArrivals(t.Context(), []dlq.Arrival{a})
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
	waiting(t, pool, 1)
	require.NoError(t, claim.Commit(t.Context()))
	group.Wait()
	require.NoError(t, failure)
	require.True(t, ended)
	message, err := p.Message(t.Context(), a.ID)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusPending, message.Status)
	require.Zero(t, message.RetryCount)
}

// A claim that waits for its lane sees the messages as they were before, and
// must not take one that somebody else has failed to send meanwhile.
func TestAClaimThatWaitedDoesNotTakeWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(3)
	_, err := p.StoreArrivals(t.Context(), arrivals)
	require.NoError(t, err)
	b, err := p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_bulk_retry_lanes FOR UPDATE`)
	require.NoError(t, err)
	var group sync.WaitGroup
	var claim dlq.LaneClaim
	var failure error
	group.Go(func() { claim, failure = p.ClaimPage(t.Context(), dlqtest.Lane(b, 0), true) })
	waiting(t, pool, 1)
	owner := dlqtest.Owner()
	_, err = p.Claim(t.Context(), arrivals[1].ID, owner)
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

// startOfThree is a bulk retry of three messages that has just been started.
func startOfThree(t *testing.T) (*pgxpool.Pool, *postgres.Store, dlq.BulkRetry) {
	t.Helper()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.StoreArrivals(t.Context(), dlqtest.Arrivals(3))
	require.NoError(t, err)
	b, err := p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	return pool, p, b
}

// lockJob holds the row of the only job until unlock, which may be called again.
func lockJob(t *testing.T, pool *pgxpool.Pool) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_bulk_retries FOR UPDATE`)
	require.NoError(t, err)
	return sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.Background())) })
}

// The job's row is written by every throttled page; without a limit it is only
// read, so that no lane waits for another.
func TestAnUnlimitedLaneDoesNotNeedTheJobsRow(t *testing.T) {
	t.Parallel()
	pool, p, b := startOfThree(t)
	unlock := lockJob(t, pool)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	claim, err := p.ClaimPage(ctx, dlqtest.Lane(b, 0), true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 3)
	_, err = p.FinalizePage(ctx, dlqtest.Lane(b, 0), dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
	require.NoError(t, err)
}

func TestTheRecentRateFadesAway(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	b, err := p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_bulk_retries SET started_at = now() - interval '1 hour'`)
	require.NoError(t, err)
	for _, test := range []struct {
		age             string
		count, previous int
		want            float64
	}{
		{"5 seconds", 100, 200, 20}, {"0 seconds", 0, 200, 20}, {"15 seconds", 200, 500, 10}, {"20 seconds", 200, 500, 0}, {"1 day", 200, 500, 0},
	} {
		_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_bulk_retry_lanes
			SET window_started_at = now() - $1::text::interval, window_count = $2, previous_count = $3`, test.age, test.count, test.previous)
		require.NoError(t, err)
		found, err := p.Bulk(t.Context(), b.ID)
		require.NoError(t, err)
		require.InDelta(t, test.want, found.RecentPerSecond, 2, test.age)
	}
	_, err = p.EndBulk(t.Context(), b.ID, dlq.BulkCompleted, "")
	require.NoError(t, err)
	for _, test := range []struct {
		age             string
		count, previous int64
	}{{"5 seconds", 101, 50}, {"15 seconds", 1, 100}, {"1 hour", 1, 0}} {
		_, err = p.StoreArrivals(t.Context(), dlqtest.Arrivals(1))
		require.NoError(t, err)
		one, err := p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_bulk_retry_lanes
			SET window_started_at = now() - $2::text::interval, window_count = 100, previous_count = 50 WHERE bulk_id = $1`, [16]byte(one.ID), test.age)
		require.NoError(t, err)
		lane := dlqtest.Lane(one, 0)
		claim, err := p.ClaimPage(t.Context(), lane, true)
		require.NoError(t, err)
		require.Len(t, claim.Page, 1)
		_, err = p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, err)
		require.Equal(t, test.count, count(t, pool, `SELECT window_count FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = $1`, [16]byte(one.ID)))
		require.Equal(t, test.previous, count(t, pool, `SELECT previous_count FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = $1`, [16]byte(one.ID)))
		_, err = p.EndBulk(t.Context(), one.ID, dlq.BulkCompleted, "")
		require.NoError(t, err)
	}
}

// late stores an arrival that has its place in the order of arrival and is not
// committed before release is called.
func late(t *testing.T, pool *pgxpool.Pool, p *postgres.Store) (a dlq.Arrival, release func()) {
	t.Helper()
	a = dlqtest.Arrival()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (id, original_topic, error_message) VALUES ($1, 'elsewhere', 'boom')`, [16]byte(a.ID))
	require.NoError(t, err)
	var stored error
	var group sync.WaitGroup
	group.Go(func() { _, stored = p.StoreArrivals(t.Context(), []dlq.Arrival{a}) })
	waiting(t, pool, 1)
	return a, func() {
		t.Helper()
		require.NoError(t, tx.Rollback(t.Context()))
		group.Wait()
		require.NoError(t, stored)
	}
}

func TestACreationWaitsForTheIngestThatIsUnderWay(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	first, release := late(t, pool, p)
	second := dlqtest.Arrival() // further back in the order, and there before
	_, err := p.StoreArrivals(t.Context(), []dlq.Arrival{second})
	require.NoError(t, err)

	var group sync.WaitGroup
	var started dlq.BulkRetry
	var failure error
	group.Go(func() { started, failure = p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1)) })
	waiting(t, pool, 2)
	release()
	group.Wait()
	require.NoError(t, failure)
	started, err = p.CountBulk(t.Context(), started.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, started.Matched)
	claim, err := p.ClaimPage(t.Context(), dlqtest.Lane(started, 0), true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 2)
	require.Equal(t, first.ID, claim.Page[0].ID)
}

func TestACreationDoesNotHoldIngestUpForLong(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, release := late(t, pool, p)
	var group sync.WaitGroup
	var started, stored error
	group.Go(func() { _, started = p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1)) })
	waiting(t, pool, 2)
	group.Go(func() { _, stored = p.StoreArrivals(t.Context(), dlqtest.Arrivals(1)) })
	waiting(t, pool, 3)
	group.Wait() // though the first ingest is still under way
	require.ErrorIs(t, started, dlq.ErrUnavailable)
	require.ErrorContains(t, started, "ingest did not release its lock within 2s")
	require.NoError(t, stored)
	release()
	_, err := p.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	require.Zero(t, count(t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
}

// freezer stops a program that has just been granted an advisory lock, until thaw is
// closed.
type freezer struct{ thaw chan struct{} }

type locks struct{}

func (freezer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, locks{}, strings.Contains(q.SQL, "pg_advisory_xact_lock"))
}

func (f freezer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if isLock, _ := ctx.Value(locks{}).(bool); isLock {
		<-f.thaw
	}
}

func TestAProgramThatFreezesDoesNotKeepOthersFromCreating(t *testing.T) {
	t.Parallel()
	healthy := dbtest.New(t)
	config := healthy.Config()
	thaw := make(chan struct{})
	config.ConnConfig.Tracer = freezer{thaw: thaw}
	frozen, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(frozen.Close)

	var group sync.WaitGroup
	var failure error
	group.Go(func() {
		_, failure = postgres.New(frozen, dlqtest.Topics(t)).CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
	})
	require.Eventually(t, func() bool {
		return count(t, healthy, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`) == 1
	}, 10*time.Second, 10*time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = postgres.New(healthy, dlqtest.Topics(t)).CreateBulk(ctx, dlqtest.Bulk("payments", 1))
	close(thaw)
	group.Wait()
	require.NoError(t, err)
	require.ErrorIs(t, failure, dlq.ErrUnavailable)
	running, err := postgres.New(healthy, dlqtest.Topics(t)).RunningBulks(t.Context())
	require.NoError(t, err)
	require.Len(t, running, 1)
}

func TestNobodyWaitsForACount(t *testing.T) {
	t.Parallel()
	pool, p, b := startOfThree(t)
	unlock := lockJob(t, pool) // the count cannot end
	defer unlock()
	var group sync.WaitGroup
	var counted dlq.BulkRetry
	var failure error
	group.Go(func() { counted, failure = p.CountBulk(t.Context(), b.ID) })
	waiting(t, pool, 1)

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	found, err := p.Bulk(ctx, b.ID)
	require.NoError(t, err)
	require.Equal(t, b, found)
	_, err = p.StoreArrivals(ctx, dlqtest.Arrivals(1))
	require.NoError(t, err)
	other, err := p.CreateBulk(ctx, dlqtest.Bulk("elsewhere", 1))
	require.NoError(t, err)
	_, err = p.CountBulk(ctx, other.ID)
	require.NoError(t, err)
	var busy *dlq.BulkBusyError
	_, err = p.CreateBulk(ctx, dlqtest.Bulk("orders.dlq", 1))
	require.ErrorAs(t, err, &busy)
	unlock()
	group.Wait()
	require.NoError(t, failure)
	require.EqualValues(t, 3, counted.Matched)
}
