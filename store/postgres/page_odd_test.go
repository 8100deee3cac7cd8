package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
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

// afterBatch is a tracer that counts the round trips of a pool, and calls do when the first batch has ended.
type afterBatch struct {
	do    func()
	done  atomic.Bool
	trips atomic.Int32
}

func (*afterBatch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (a *afterBatch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { a.trips.Add(1) }
func (*afterBatch) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (*afterBatch) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (a *afterBatch) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {
	a.trips.Add(1)
	if a.do != nil && a.done.CompareAndSwap(false, true) {
		a.do()
	}
}

// traced is a store whose batches a tracer sees.
func traced(t *testing.T, pool *pgxpool.Pool, tracer *afterBatch) *postgres.Store {
	t.Helper()
	options := pool.Config()
	options.ConnConfig.Tracer = tracer
	traced, err := postgres.NewPool(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(traced.Close)
	return postgres.New(traced, dlqtest.Topics(t))
}

func TestAPageCostsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	_, lane, page := startPages(t, pool, 3*dlq.PageSize)
	tracer := &afterBatch{}
	p := traced(t, pool, tracer)
	_, err := p.Now(t.Context()) // opens the connection
	require.NoError(t, err)
	for range 2 {
		tracer.trips.Store(0)
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		for i := range outcomes {
			outcomes[i].Target = dlq.Target{Topic: "orders", Partition: 1}
		}
		claim, _, err := p.NextPage(t.Context(), lane, outcomes, true)
		require.NoError(t, err)
		require.Len(t, claim.Page, dlq.PageSize)
		page = claim.Page
		require.EqualValues(t, 2, tracer.trips.Load(), "the end and the list, the claim and the commit")
	}
}

func TestASingleRetryThatBeginsDuringAStepComesFirst(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	arrivals := dlqtest.Arrivals(2, dlqtest.Key("k"))
	p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), arrivals)
	_, err := p.MarkDead(t.Context(), nil, arrivals[0].ID)
	require.NoError(t, err)
	_, err = p.Revive(t.Context(), nil, arrivals[0].ID) // so this message is not in the scope of the job
	require.NoError(t, err)
	during := traced(t, pool, &afterBatch{do: func() {
		_, err := p.Claim(context.Background(), arrivals[0].ID, dlqtest.Owner(), dlq.ID{})
		require.NoError(t, err)
	}})
	claim, _, err := during.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Empty(t, claim.Page)
}

func TestAMessageThatChangesAfterItWasListedIsNotClaimed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*postgres.Store, *pgxpool.Pool, dlq.ID) error{
		"marked dead": func(p *postgres.Store, _ *pgxpool.Pool, id dlq.ID) error {
			_, err := p.MarkDead(context.Background(), nil, id)
			return err
		},
		"retried singly": func(p *postgres.Store, _ *pgxpool.Pool, id dlq.ID) error {
			_, err := p.Claim(context.Background(), id, dlqtest.Owner(), dlq.ID{})
			return err
		},
		"retried singly, and failed": func(p *postgres.Store, _ *pgxpool.Pool, id dlq.ID) error {
			owner := dlqtest.Owner()
			_, err := p.Claim(context.Background(), id, owner, dlq.ID{})
			if err == nil {
				_, _, err = p.Finalize(context.Background(), owner, dlqtest.Failed(id))
			}
			return err
		},
		"deleted by hand": func(_ *postgres.Store, pool *pgxpool.Pool, id dlq.ID) error {
			_, err := pool.Exec(context.Background(), `DELETE FROM dlq.dlq_messages WHERE id = $1`, [16]byte(id))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			arrivals := dlqtest.Arrivals(4)
			for i := range arrivals {
				arrivals[i].Record.Key = []byte{byte(i % 2)}
			}
			p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), arrivals)
			during := traced(t, pool, &afterBatch{do: func() { require.NoError(t, change(p, pool, arrivals[0].ID)) }})
			claim, _, err := during.NextPage(t.Context(), lane, nil, true)
			require.NoError(t, err)
			got := ids(claim.Page)
			require.NotContains(t, got, arrivals[0].ID)
			require.Subset(t, got, []dlq.ID{arrivals[1].ID, arrivals[3].ID}, "messages of another key")
			if name == "retried singly" {
				require.NotContains(t, got, arrivals[2].ID, "a later message of the key")
			}
			for i := range claim.Page {
				require.Equal(t, 1, claim.Page[i].RetryCount)
			}
		})
	}
}

func TestAMessageThatIsLockedAfterItWasListedWaits(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	arrivals := dlqtest.Arrivals(2)
	_, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), arrivals)
	var locker pgx.Tx
	during := traced(t, pool, &afterBatch{do: func() {
		var err error
		locker, err = pool.Begin(context.Background())
		require.NoError(t, err)
		_, err = locker.Exec(context.Background(), `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(arrivals[0].ID))
		require.NoError(t, err)
	}})
	claim, _, err := during.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Equal(t, []dlq.ID{arrivals[1].ID}, ids(claim.Page))
	require.NoError(t, locker.Rollback(t.Context()))
}

func TestAMessageThatIsDeletedWhileItsPageIsReadIsNotInThePage(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane, page := startPages(t, pool, 3)
	during := traced(t, pool, &afterBatch{do: func() {
		_, err := p.MarkDead(context.Background(), nil, page[1].ID)
		require.NoError(t, err)
		require.NoError(t, p.Delete(context.Background(), nil, page[1].ID))
	}})
	claim, err := during.ClaimedPage(t.Context(), lane, dlq.PageBytes)
	require.NoError(t, err)
	require.Equal(t, []dlq.ID{page[0].ID, page[2].ID}, ids(claim.Page))
}

func ids(page []dlq.PageEnvelope) (list []dlq.ID) {
	for i := range page {
		list = append(list, page[i].ID)
	}
	return list
}

func TestAJobThatNamesAnInternalTopicClaimsNothing(t *testing.T) {
	t.Parallel()
	p, lane := openLane(t, dbtest.New(t), dlqtest.Bulk("_schemas", 1), dlqtest.Arrivals(10, dlqtest.FromTopic("connect.dlq", "_schemas")))
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Empty(t, claim.Page)
	b, err := p.Job(t.Context(), lane.Job)
	require.NoError(t, err)
	require.Zero(t, b.Waiting)
}

func TestAMessageWithDamagedHeadersIsReadWithItsPage(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), dlqtest.Arrivals(3))
	_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_message_bodies SET headers = '\x0404' WHERE message_id = (SELECT id FROM dlq.dlq_messages ORDER BY seq OFFSET 1 LIMIT 1)`)
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	again, err := p.ClaimedPage(t.Context(), lane, dlq.PageBytes)
	require.NoError(t, err)
	for _, page := range [][]dlq.PageEnvelope{claim.Page, again.Page} {
		require.Len(t, page, 3)
		require.NoError(t, page[0].Unreadable)
		require.EqualError(t, page[1].Unreadable, fmt.Sprintf("message %s: stored headers are damaged: 2 headers in 1 bytes; "+
			"correct them in dlq.dlq_message_bodies and revive the message, or delete the message", page[1].ID))
		require.NoError(t, page[2].Unreadable)
		require.NotEmpty(t, page[2].Record.Value)
	}
}

// openLane creates a job for arrivals and opens its first lane.
func openLane(t *testing.T, pool *pgxpool.Pool, job dlq.Job, arrivals []dlq.Arrival) (*postgres.Store, dlq.Lane) {
	t.Helper()
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	job, err = p.CreateJob(t.Context(), nil, job)
	require.NoError(t, err)
	lane, err := p.OpenLane(t.Context(), job.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	return p, lane
}

func TestAQueueOfDeletedMessagesIsEmptiedWithoutAWait(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), dlqtest.Arrivals(300, dlqtest.Key("k")))
	release := holdLock(t, pool, `SELECT FROM dlq.dlq_messages ORDER BY seq LIMIT 1 FOR UPDATE`)
	for range 3 { // each scan reads 100 messages
		claim, _, err := p.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err)
		require.Empty(t, claim.Page)
	}
	require.EqualValues(t, 300, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_waiting`))
	release()
	_, err := pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_job_queues SET due_at = now()`)
	require.NoError(t, err)
	for range 3 { // each page has 100 messages
		claim, _, err := p.NextPage(t.Context(), lane, nil, false)
		require.NoError(t, err)
		require.Empty(t, claim.Page)
	}
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_queues`))
}

// A COPY gives each row the seq that it names.
func TestMessagesThatShareASeqAreAllSent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		messages int
		options  []func(*dlq.Arrival)
		step     *int64
		first    dlq.Result
		isLocked bool
	}{
		"in pages":                   {messages: 250, first: dlq.ResultDelivered},
		"one at a time":              {messages: 20, first: dlq.ResultDelivered, step: new(int64(1))},
		"after their target refused": {messages: 250, first: dlq.ResultWaiting},
		"after they were locked":     {messages: 250, first: dlq.ResultDelivered, isLocked: true, options: []func(*dlq.Arrival){dlqtest.Key("k")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			p := postgres.New(pool, dlqtest.Topics(t))
			_, err := p.Ingest(t.Context(), dlqtest.Arrivals(test.messages, test.options...), nil)
			require.NoError(t, err)
			exec := func(sql string) {
				_, err := pool.Exec(t.Context(), sql)
				require.NoError(t, err, sql)
			}
			exec(`ALTER TABLE dlq.dlq_messages ALTER COLUMN seq SET GENERATED BY DEFAULT`)
			exec(`UPDATE dlq.dlq_messages SET seq = seq / 2 + 1`) // the last message of a page and the next message share a seq
			job, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
			require.NoError(t, err)
			lane, err := p.OpenLane(t.Context(), job.ID, 0, dlq.LaneAttempt{})
			require.NoError(t, err)
			release := func() {}
			if test.isLocked {
				release = holdLock(t, pool, `SELECT FROM dlq.dlq_messages FOR UPDATE`)
			}
			var outcomes []dlq.PageOutcome
			result := test.first
			for range 2*test.messages + 10 {
				require.NoError(t, p.SetStepLimit(t.Context(), job.ID, test.step))
				claim, _, err := p.NextPage(t.Context(), lane, outcomes, true)
				require.NoError(t, err)
				outcomes = dlqtest.Outcomes(claim.Page, result)
				for i := range outcomes {
					outcomes[i].Target = dlq.Target{Topic: "orders", Partition: 0}
					if result == dlq.ResultWaiting {
						outcomes[i].Wait = dlq.Wait{Target: outcomes[i].Target}
					}
				}
				result = dlq.ResultDelivered
				release()
				exec(`UPDATE dlq.dlq_job_queues SET due_at = now()`)
			}
			ended, err := p.EndJob(t.Context(), nil, job.ID, dlq.JobCompleted, "")
			require.NoError(t, err)
			require.Equal(t, dlq.JobCounts{Retried: int64(test.messages)}, ended.Counts)
		})
	}
}

func TestAClaimThatMayClaimNothingWritesNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1, dlqtest.Rate(1)), dlqtest.Arrivals(10))
	require.NoError(t, p.SetStepLimit(t.Context(), lane.Job, new(int64)))
	written := func() (versions string) {
		require.NoError(t, pool.QueryRow(t.Context(),
			`SELECT concat((SELECT xmin FROM dlq.dlq_jobs), ' ', (SELECT xmin FROM dlq.dlq_job_lanes))`).Scan(&versions))
		return versions
	}
	before := written()
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.True(t, claim.StepLimitReached)
	require.Equal(t, before, written())
}

func TestALaneGoesOnAfterItsRowsWereChangedByHand(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"clock that was set back":   `UPDATE dlq.dlq_jobs SET next_at = 'infinity', rate_limit = 1000000`,
		"sample in the future":      `INSERT INTO dlq.dlq_job_samples SELECT id, 1000000, 'infinity', -1000000, 0, 0, 0, 0 FROM dlq.dlq_jobs`,
		"queue with negative tries": `UPDATE dlq.dlq_job_queues SET tries = -1`,
		"page with NULL":            `UPDATE dlq.dlq_job_lanes SET page = ARRAY[NULL]::uuid[]`,
		"page of unknown messages":  `UPDATE dlq.dlq_job_lanes SET page = ARRAY[gen_random_uuid()]`,
		"sample before all time":    `INSERT INTO dlq.dlq_job_samples SELECT id, 1000000, '-infinity', -1000000, 0, 0, 0, 0 FROM dlq.dlq_jobs`,
		"negative waiting":          `UPDATE dlq.dlq_job_lanes SET waiting = -5`,
		"smallest key hash":         `UPDATE dlq.dlq_messages SET key_hash = -2147483648`,
		"negative size":             `UPDATE dlq.dlq_messages SET size = -2147483648`,
		"no bodies":                 `DELETE FROM dlq.dlq_message_bodies`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), dlqtest.Arrivals(3))
			claim, _, err := p.NextPage(t.Context(), lane, nil, true)
			require.NoError(t, err)
			outcomes := dlqtest.Outcomes(claim.Page, dlq.ResultWaiting)
			target := dlq.Target{Topic: "orders"}
			for i := range outcomes {
				outcomes[i].Wait = dlq.Wait{Target: target, Tries: 1}
			}
			_, err = p.FinalizePage(t.Context(), lane, outcomes)
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), sql)
			require.NoError(t, err)
			outcomes = nil
			var ended dlq.PageResult
			for range 10 { // some steps only open the target or empty a queue
				claim, ended, err = p.NextPage(t.Context(), lane, outcomes, true)
				require.NoError(t, err)
				outcomes = dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)
				for i := range outcomes {
					outcomes[i].Target = target
				}
			}
			require.Equal(t, dlq.JobCounts{Retried: 3}, ended.Counts)
			job, err := p.Job(t.Context(), lane.Job)
			require.NoError(t, err)
			require.LessOrEqual(t, job.RecentPerSecond, 3.0)
		})
	}
}

func TestAStepThatIsRefusedWhileItLooksAtOtherJobsIsBlocked(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	// With the first pages, the pool's only connection prepares its statements.
	p, lane, page := startPages(t, dbtest.Pool(t, pool.Config().ConnString()+"&pool_max_conns=1"), 300)
	_, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("payments", 1))
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultDelivered), true)
	require.NoError(t, err)
	holdLock(t, pool, `ALTER VIEW dlq.dlq_job_lanes_now SET (security_barrier = false)`)
	for range 2 { // the driver describes the statement again after an error
		_, _, err = p.NextPage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered), true)
		require.ErrorIs(t, err, dlq.ErrBlocked)
	}
}

func TestAStepReturnsAlthoughItsRollbackIsNotAnswered(t *testing.T) {
	t.Parallel()
	behind, proxy := through(t)
	p, lane, page := startPages(t, behind, 10)
	pool := dbtest.Pool(t, strings.Replace(behind.Config().ConnString(), proxy.listener.Addr().String(), proxy.target, 1))
	holdLock(t, pool, `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(page[5].ID))
	proxy.mu.Lock()
	proxy.before = []byte("ROLLBACK")
	proxy.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	require.Error(t, requireWithin(t, 6*time.Second, func() error {
		_, err := p.FinalizePage(ctx, lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		return err
	}))
}
