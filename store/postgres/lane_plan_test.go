package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

// startJob starts a bulk retry and opens one of its four lanes.
func startJob(t *testing.T, s *Store, f dlq.Filter) dlq.Lane {
	t.Helper()
	b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 4, dlqtest.Filter(f)))
	require.NoError(t, err)
	_, err = s.CountJob(t.Context(), b.ID)
	require.NoError(t, err)
	lane, err := s.OpenLane(t.Context(), b.ID, 2, dlq.LaneAttempt{})
	require.NoError(t, err)
	return lane
}

// claimArgs are the parameters of the statements that list messages.
func claimArgs(s *Store, lane *dlq.Lane) pgx.NamedArgs {
	args := s.laneArgs(lane)
	args["cursor"], args["queue"], args["from_queue"], args["is_shared"], args["now"] = 0, int64(0), true, true, time.Now()
	return args
}

// candidatesOf are the parameters of the statements on candidates.
func candidatesOf(lane *dlq.Lane, page []dlq.PageEnvelope) pgx.NamedArgs {
	candidates := make([]dlq.Candidate, len(page))
	for i := range page {
		candidates[i] = dlq.Candidate{ID: page[i].ID, Seq: page[i].Seq, Target: "orders", KeyHash: 17, Key: dlq.TargetKey(17, "orders")}
	}
	args := candidateArgs(candidates)
	maps.Copy(args, pgx.NamedArgs{"job": uuid(lane.Job), "lane": lane.Number, "token": lane.Owner.Token, "workflow_id": lane.Owner.WorkflowID, "dead_letter_topics": "",
		"from_queue": false, "queues": []int64{}})
	return args
}

func TestAClaimCostsTheSameAtAnyDepth(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	b, err := s.Job(t.Context(), lane.Job)
	require.NoError(t, err)
	require.EqualValues(t, planRows/2*8/10, b.Matched)
	for _, mode := range planModes {
		for _, cursor := range []int64{0, planRows / 2, planRows - 4000} {
			_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_job_lanes SET cursor = $1`, cursor)
			require.NoError(t, err)
			plan, pages := cost(t, pool, mode, listNextOfOriginalSQL, claimArgs(s, &lane), lanePlanSQL)
			require.NotContains(t, plan, "Seq Scan on dlq_messages")
			require.NotContains(t, plan, "Bitmap")
			require.NotContains(t, plan, "idx_dlq_messages_status", "it contains the claimed messages of all lanes")
			require.Less(t, pages, 400, plan)
		}
	}
}

func TestALaneCostsTheSameDuringALongTransaction(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	lane, err := s.OpenLane(t.Context(), b.ID, 0, dlq.LaneAttempt{Number: 1})
	require.NoError(t, err)
	dump, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, dump.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = dump.Exec(t.Context(), `SELECT FROM dlq.dlq_messages LIMIT 1`)
	require.NoError(t, err)
	for range 100 {
		claim, _, err := s.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err)
		require.Len(t, claim.Page, dlq.PageSize)
		_, err = s.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, err)
	}
	args := claimArgs(s, &lane)
	maps.Copy(args, pgx.NamedArgs{"scheduled_at": time.Now(), "attempt": 2, "limit": 1, "id": uuid(b.ID), "state": "CANCELLED", "reason": ""})
	for _, sql := range []string{lockLaneSQL, ownedSQL, claimedLanesSQL, jobsSQL, openLaneSQL, clearPageSQL, endJobSQL} {
		plan, pages := cost(t, pool, "force_generic_plan", sql, args, lanePlanSQL)
		require.Less(t, pages, 45, plan)
		require.NotRegexp(t, `Heap Fetches: \d\d`, plan, "every version of the lane's row is read")
	}
}

func TestJobsOfOtherTargetsCostAClaimNothing(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	claim, _, err := s.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	_, before := cost(t, pool, "force_generic_plan", retriedByJobsSQL, candidatesOf(&lane, claim.Page), lanePlanSQL)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, target, lanes, upper_bound, snapshot_at)
			SELECT gen_random_uuid(), 'w', 'topic-' || n, 'topic-' || n, 8, 0, now() FROM generate_series(1, 20) AS n`,
		`INSERT INTO dlq.dlq_job_lanes (job_id, lane, page)
			SELECT b.id, n, ARRAY(SELECT id FROM dlq.dlq_messages WHERE original_topic = 'users' AND seq > n * 200 LIMIT 100)
			FROM dlq.dlq_jobs b, generate_series(0, 7) AS n WHERE b.target LIKE 'topic-%'`,
		`ANALYZE dlq.dlq_jobs, dlq.dlq_job_lanes`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	plan, after := cost(t, pool, "force_generic_plan", retriedByJobsSQL, candidatesOf(&lane, claim.Page), lanePlanSQL)
	require.Less(t, after, before+200, plan)
}

func TestAFilterDoesNotMakeAPageExpensive(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	rows, err := pool.Query(t.Context(), `SELECT id FROM dlq.dlq_messages WHERE original_topic = 'orders' AND status = 'PENDING' ORDER BY seq LIMIT 1000`)
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id dlq.ID, err error) {
		err = row.Scan((*[16]byte)(&id))
		return id, err
	})
	require.NoError(t, err)
	for name, test := range map[string]struct {
		filter dlq.Filter
		limit  int
	}{
		"search": {dlq.Filter{ErrorContains: "BOOM"}, 6000},
		"ids":    {dlq.Filter{IDs: ids}, 15_000},
		"key":    {dlq.Filter{Key: []byte("k")}, 500},
	} {
		lane := startJob(t, s, test.filter)
		for _, mode := range planModes {
			plan, pages := cost(t, pool, mode, filtered(listNextOfOriginalSQL, &lane.Spec.Filter), claimArgs(s, &lane), lanePlanSQL)
			require.NotContains(t, plan, "Seq Scan on dlq_messages", name)
			require.Less(t, pages, test.limit, name+"\n"+plan)
		}
		_, err = s.EndJob(t.Context(), nil, lane.Job, dlq.JobCancelled, "")
		require.NoError(t, err)
	}
}

func TestAClaimReadsNoMessagesOfOtherLanes(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	for _, lanes := range []int{4, 64} {
		b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", lanes))
		require.NoError(t, err)
		lane, err := s.OpenLane(t.Context(), b.ID, lanes-1, dlq.LaneAttempt{Number: 1})
		require.NoError(t, err)
		for _, mode := range planModes {
			plan := explain(t, pool, mode, filtered(listNextSQL, &lane.Spec.Filter), claimArgs(s, &lane), lanePlanSQL)
			read := false
			for node := range strings.SplitSeq(plan, "->") {
				if strings.Contains(node, "using idx_dlq_messages_dlq_topic_pending") && !strings.Contains(node, "never executed") {
					read = true
					require.Contains(t, node, "(actual rows=101 loops=1)", plan)
					require.NotContains(t, node, "Rows Removed by Filter", plan)
				}
			}
			require.True(t, read, plan)
		}
		_, err = s.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "")
		require.NoError(t, err)
	}
}

// insertQueues inserts n messages of lane 2 that wait for a closed target, n queues of keys that
// are due, and n blocked keys.
func insertQueues(t *testing.T, tx pgx.Tx, n int) {
	t.Helper()
	for _, sql := range []string{`
		WITH q AS (
			INSERT INTO dlq.dlq_job_queues (job_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
			SELECT id, -1, 'orders', 0, -1, true, 1, now() - interval '1 hour', 'unavailable', '' FROM dlq.dlq_jobs
			RETURNING id, job_id
		), m AS (
			SELECT id, @n - row_number() OVER () + 1 AS n FROM (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY seq DESC LIMIT 100) AS last
		)
		INSERT INTO dlq.dlq_job_waiting
		SELECT q.job_id, q.id, 2, -n, COALESCE(m.id, gen_random_uuid()), 1000000 + n * 4 + 2 FROM q, generate_series(1, @n::int) AS n LEFT JOIN m USING (n)`, `
		INSERT INTO dlq.dlq_job_queues (job_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
		SELECT id, 2, 'orders', -1, n, false, 0, now() - interval '1 hour', 'held', '' FROM dlq.dlq_jobs, generate_series(1, @n::int) AS n`,
		`INSERT INTO dlq.dlq_job_blocked_keys SELECT id, n, 'orders', 'k' FROM dlq.dlq_jobs, generate_series(1, @n::int) AS n`,
		`UPDATE dlq.dlq_job_lanes SET waiting = @n, failed = @n`,
	} {
		_, err := tx.Exec(t.Context(), sql, pgx.NamedArgs{"n": n})
		require.NoError(t, err, sql)
	}
}

// The statistics of a table are missing until the first ANALYZE.
func TestMessagesLeaveTheirQueueByTheIndexWithoutStatistics(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	_, err := s.Ingest(t.Context(), dlqtest.Arrivals(dlq.PageSize, dlqtest.Topic("orders")), nil)
	require.NoError(t, err)
	lane := startJob(t, s, dlq.Filter{})
	claim, _, err := s.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	insertQueues(t, tx, 20_000)
	require.NoError(t, tx.Commit(t.Context()))
	page := candidatesOf(&lane, claim.Page)
	page["left_queues"] = make([]int64, len(claim.Page))
	plan, pages := cost(t, pool, "force_generic_plan", leaveQueueSQL, page, lanePlanSQL)
	require.Less(t, pages, 10*len(claim.Page), plan)
}

// A connection plans its statements once, while the queues are still empty.
func TestQueuesDoNotMakeAPageExpensive(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	_, err := pool.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	claim, _, err := s.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	page := candidatesOf(&lane, claim.Page)
	maps.Copy(page, pgx.NamedArgs{"left_queues": make([]int64, len(claim.Page)), "queues": []int64{0}, "wait": 1.0,
		"topics": slices.Repeat([]string{"orders"}, len(claim.Page)), "partitions": make([]int32, len(claim.Page)), "queue_keys": make([]int32, len(claim.Page))})
	cases := map[string]struct {
		sql  string
		args pgx.NamedArgs
		due  string
	}{
		"list":       {listNextOfOriginalSQL, claimArgs(s, &lane), "1 hour"},
		"next_queue": {nextQueueSQL, claimArgs(s, &lane), "-1 hour"},
		"list_queue": {listQueueSQL, claimArgs(s, &lane), "-1 hour"},
		"earlier":    {earlierWaitingSQL, page, "-1 hour"},
		"leave":      {leaveQueueSQL, page, "1 hour"},
		"wait":       {waitSQL, page, "1 hour"},
		"open":       {openTargetsSQL, page, "1 hour"},
		"empty":      {deleteEmptyQueuesSQL, page, "1 hour"},
		"postpone":   {postponeQueuesSQL, page, "1 hour"},
		"failed":     {failedKeysSQL, candidatesOf(&lane, claim.Page), "1 hour"},
		"owned":      {ownedSQL, claimArgs(s, &lane), "1 hour"},
		"ended":      {endPageSQL, endArgs(lane.Owner, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)), "1 hour"},
	}
	pagesWith := func(n int) (plans map[string]string) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
		exec := func(sql string, args ...any) {
			_, err := tx.Exec(t.Context(), sql, args...)
			require.NoError(t, err, sql)
		}
		exec(lanePlanSQL)
		prepared := map[string]string{}
		for name, c := range cases {
			prepared[name] = execute(t, tx.Conn(), name, c.sql, c.args)
			exec("EXPLAIN " + prepared[name])
		}
		insertQueues(t, tx, n)
		plans = map[string]string{}
		for name, c := range cases {
			exec(`SAVEPOINT filled`)
			exec(`UPDATE dlq.dlq_job_queues SET due_at = now() + $1::text::interval WHERE closed`, c.due)
			rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+prepared[name])
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err, name)
			plans[name] = strings.Join(lines, "\n")
			exec(`ROLLBACK TO SAVEPOINT filled`)
		}
		return plans
	}
	many, few := pagesWith(100_000), pagesWith(100) // the first plans are for empty tables; a rollback leaves the tables large
	for name, plan := range many {
		pages := buffers(t, few[name])
		require.NotContains(t, plan, "Seq Scan", name)
		require.Less(t, buffers(t, plan), pages+pages/2+500, name+"\n"+plan)
	}
}

// A page ends by the ids of its messages, however many other messages are RETRYING.
func TestTheEndOfAPageReadsItsPageOnly(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	claim, _, err := s.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, dlq.PageSize)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET status = 'RETRYING', workflow_id = 'w', owner_token = 't' WHERE status = 'PENDING'`)
	require.NoError(t, err)
	for _, result := range []dlq.Result{dlq.ResultDelivered, dlq.ResultFailed, dlq.ResultWaiting} {
		plan, pages := cost(t, pool, "force_generic_plan", endPageSQL, endArgs(lane.Owner, dlqtest.Outcomes(claim.Page, result)), lanePlanSQL)
		require.NotContains(t, plan, "Seq Scan on dlq_messages")
		require.Less(t, pages, 6000, plan)
		for line := range strings.Lines(plan) {
			if strings.Contains(line, " on dlq_messages") {
				require.NotRegexp(t, `rows=\d{4}`, line, "more rows than a page has\n"+plan)
			}
		}
	}
}
