package postgres

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

const planRows = 40_000

// filledFrom is when the first message of fill was stored. Each is a second later than the
// one before.
var filledFrom = time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)

// fill inserts planRows messages of two topics with their bodies. A tenth of them are DEAD.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, status, key_hash, payload, created_at)
		SELECT t, t || '.dlq', 'boom', CASE WHEN n % 10 = 0 THEN 'DEAD' ELSE 'PENDING' END, n, jsonb_build_object('pad', repeat('x', 400)),
			$2::timestamptz + n * interval '1 s'
		FROM generate_series(1, $1::int) AS n, LATERAL (SELECT CASE WHEN n % 2 = 0 THEN 'orders' ELSE 'users' END AS t) AS topic
		ORDER BY n`, planRows, filledFrom)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		INSERT INTO dlq.dlq_message_bodies (message_id, topic_id, partition, record_offset, key, key_hash, value, headers)
		SELECT id, '00000000-0000-0000-0000-000000000001', 0, seq, convert_to(seq::text, 'UTF8'), key_hash, convert_to(repeat('x', 400), 'UTF8'), '\x00'
		FROM dlq.dlq_messages`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `VACUUM ANALYZE dlq.dlq_messages, dlq.dlq_message_bodies`)
	require.NoError(t, err)
}

// explain runs a statement after the given ones, in one transaction, and returns its plan.
func explain(t *testing.T, pool *pgxpool.Pool, mode, sql string, args pgx.NamedArgs, before ...string) string {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	for _, first := range append(before, "SET LOCAL plan_cache_mode = "+mode) {
		_, err = tx.Exec(t.Context(), first)
		require.NoError(t, err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+execute(t, tx.Conn(), "explained", sql, args))
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}

// cost returns the plan of a statement and how many pages it read.
func cost(t *testing.T, pool *pgxpool.Pool, mode, sql string, args pgx.NamedArgs, before ...string) (plan string, pages int) {
	t.Helper()
	plan = explain(t, pool, mode, sql, args, before...)
	return plan, buffers(t, plan)
}

// buffers is how many pages the statement read, from the top node of its plan.
func buffers(t *testing.T, plan string) (pages int) {
	t.Helper()
	for line := range strings.Lines(plan) {
		if _, fields, found := strings.Cut(line, "Buffers: shared "); found {
			for field := range strings.FieldsSeq(fields) {
				var n int
				for _, kind := range []string{"hit=%d", "read=%d"} {
					if _, err := fmt.Sscanf(field, kind, &n); err == nil {
						pages += n
					}
				}
			}
			break
		}
	}
	require.Positive(t, pages)
	return pages
}

// execute prepares a statement and returns its EXECUTE. EXPLAIN of the statement itself
// would always use a custom plan.
func execute(t *testing.T, conn *pgx.Conn, name, sql string, args pgx.NamedArgs) string {
	t.Helper()
	sql, values, err := args.RewriteQuery(t.Context(), conn, sql, nil)
	require.NoError(t, err)
	require.NoError(t, conn.Deallocate(t.Context(), name))
	prepared, err := conn.Prepare(t.Context(), name, sql)
	require.NoError(t, err)
	if len(values) == 0 {
		return "EXECUTE " + name
	}
	literals := make([]string, len(values))
	for i, value := range values {
		encoded, err := conn.TypeMap().Encode(prepared.ParamOIDs[i], pgx.TextFormatCode, value, []byte{})
		require.NoError(t, err)
		if literals[i] = "NULL"; encoded == nil {
			continue
		}
		literals[i] = "'" + strings.ReplaceAll(string(encoded), "'", "''") + "'"
	}
	return "EXECUTE " + name + " (" + strings.Join(literals, ", ") + ")"
}

// planModes are both kinds of plans. The server may use either of them.
var planModes = []string{"force_custom_plan", "force_generic_plan"}

func TestListCostsTheSameAtAnyDepth(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	for _, mode := range planModes {
		for _, statuses := range [][]dlq.Status{nil, {dlq.StatusPending}, {dlq.StatusDead}, {dlq.StatusDead, dlq.StatusPending}} {
			for _, topic := range []string{"orders.dlq", "orders"} {
				for _, seq := range []int64{planRows + 1, planRows / 2, 500} {
					after := dlq.Keyset{CreatedAt: filledFrom.Add(time.Duration(seq) * time.Second), Seq: seq}
					q := dlq.ListQuery{Filter: dlq.Filter{Topic: topic, Statuses: statuses}, PageSize: 20, After: &after}
					plan, pages := cost(t, pool, mode, listed(listSQL, &q), listArgs(&q), inOrderSQL)
					require.NotContains(t, plan, "Seq Scan on dlq_messages")
					require.NotContains(t, plan, "Bitmap")
					require.Less(t, pages, 400, plan)
				}
			}
		}
	}
}

func TestListOfATimeRangeCostsTheSameAnywhere(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	at := func(n int) time.Time { return filledFrom.Add(time.Duration(n) * time.Second) }
	for _, mode := range planModes {
		for _, span := range [][2]time.Time{{{}, at(planRows / 2)}, {{}, at(1000)}, {at(planRows / 2), {}}, {at(500), at(600)}, {at(2), at(planRows)}} {
			for _, oldestFirst := range []bool{false, true} {
				q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", CreatedFrom: span[0], CreatedTo: span[1]}, PageSize: 20, OldestFirst: oldestFirst}
				for _, sql := range []string{listSQL, countSQL} {
					plan, pages := cost(t, pool, mode, listed(sql, &q), listArgs(&q), inOrderSQL)
					require.Less(t, pages, 400, plan)
				}
			}
		}
	}
}

func TestCountOfAFrequentKeyStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET key_hash = 7`, `UPDATE dlq.dlq_message_bodies SET key_hash = 7, key = 'k'`, `VACUUM ANALYZE`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte("k")}}
	args := listArgs(&q)
	args["key_hash"] = 7
	for _, mode := range planModes {
		plan, _ := cost(t, pool, mode, listed(countAnyOrderSQL, &q), args)
		require.NotContains(t, plan, "Sort")
	}
}

// A bulk retry makes thousands of messages RESOLVED before the next ANALYZE.
func TestAListIsNotMisledByOldStatistics(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	for _, sql := range []string{
		`ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = false)`,
		`UPDATE dlq.dlq_messages SET status = 'RESOLVED' WHERE original_topic = 'users' AND seq % 2 = 1`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	resolved := []dlq.Status{dlq.StatusResolved}
	for _, mode := range planModes {
		for _, test := range []struct {
			filter dlq.Filter
			count  string
		}{
			{dlq.Filter{Statuses: resolved}, countSQL},
			{dlq.Filter{Statuses: resolved, ErrorContains: "oom"}, countSQL},
			{dlq.Filter{ErrorContains: "oom"}, countAnyOrderSQL},
		} {
			q := dlq.ListQuery{Filter: test.filter, PageSize: 20}
			q.Topic = "orders.dlq"
			for _, sql := range []string{listSQL, test.count} {
				plan, pages := cost(t, pool, mode, listed(sql, &q), listArgs(&q), inOrderSQL)
				require.NotContains(t, plan, "idx_dlq_messages_status")
				if len(q.Statuses) > 0 {
					require.Less(t, pages, 100, plan)
				}
			}
		}
	}
}

// startJob starts a bulk retry and opens one of its four lanes.
func startJob(t *testing.T, s *Store, f dlq.Filter) dlq.Lane {
	t.Helper()
	b, err := s.CreateBulk(t.Context(), dlqtest.Bulk("orders", 4, dlqtest.Filter(f)))
	require.NoError(t, err)
	_, err = s.CountBulk(t.Context(), b.ID)
	require.NoError(t, err)
	lane, err := s.OpenLane(t.Context(), b.ID, 2, dlq.LaneAttempt{})
	require.NoError(t, err)
	return lane
}

func claimArgs(s *Store, lane *dlq.Lane) pgx.NamedArgs {
	args := s.claimArgs(lane)
	args["locked"], args["scan"], args["scan_first"] = false, true, false
	return args
}

func TestClaimPageCostsTheSameAtAnyDepth(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	b, err := s.Bulk(t.Context(), lane.Bulk)
	require.NoError(t, err)
	require.EqualValues(t, planRows/2*8/10, b.Matched)
	for _, mode := range planModes {
		for _, cursor := range []int64{0, planRows / 2, planRows - 4000} {
			_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_bulk_retry_lanes SET cursor = $1`, cursor)
			require.NoError(t, err)
			plan, pages := cost(t, pool, mode, claimPageSQL, claimArgs(s, &lane), lanePlanSQL)
			require.NotContains(t, plan, "Seq Scan on dlq_messages")
			require.NotContains(t, plan, "Bitmap")
			require.NotContains(t, plan, "idx_dlq_messages_status", "it contains the claimed messages of all lanes")
			require.Less(t, pages, 6000, plan) // nearly all is the writing of 100 rows and their index entries
		}
	}
}

func TestHandWrittenRowsDoNotMakeTheSummaryOfTopicsExpensive(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) SELECT 'quiet-' || n, 'e', now() - interval '1 year' FROM generate_series(1, 50) AS n`,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'loud', 'e' FROM generate_series(1, 20000) AS n`,
		`VACUUM ANALYZE dlq.dlq_messages`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for _, mode := range planModes {
		plan, pages := cost(t, pool, mode, topicsSQL, pgx.NamedArgs{}, inOrderSQL)
		require.Less(t, pages, 1000, plan)
	}
}

// A long pg_dump prevents the vacuum of row versions that were claimed meanwhile.
func TestASweepDoesNotReadTheClaimsOfBulkRetries(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	dump, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = dump.Exec(t.Context(), `SELECT FROM dlq.dlq_messages LIMIT 1`)
	require.NoError(t, err)
	for _, sql := range []string{
		`UPDATE dlq.dlq_messages SET status = 'RETRYING', workflow_id = 'retry-all-x', owner_token = 'x' WHERE original_topic = 'users'`,
		`UPDATE dlq.dlq_messages SET status = 'RESOLVED' WHERE original_topic = 'users'`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for _, mode := range planModes {
		for _, sql := range []string{ownersSQL, strayOwnersSQL} {
			plan, pages := cost(t, pool, mode, sql, pgx.NamedArgs{"claimed_before": time.Now()}, byIndexSQL)
			require.Less(t, pages, 50, plan)
		}
	}
	require.NoError(t, dump.Rollback(t.Context()))
}

func TestALaneCostsTheSameDuringALongTransaction(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	s := New(pool, dlqtest.Topics(t))
	b, err := s.CreateBulk(t.Context(), dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	lane, err := s.OpenLane(t.Context(), b.ID, 0, dlq.LaneAttempt{Number: 1})
	require.NoError(t, err)
	dump, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = dump.Exec(t.Context(), `SELECT FROM dlq.dlq_messages LIMIT 1`)
	require.NoError(t, err)
	for range 100 {
		claim, err := s.ClaimPage(t.Context(), lane, true)
		require.NoError(t, err)
		require.Len(t, claim.Page, dlq.PageSize)
		_, err = s.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, err)
	}
	args := claimArgs(s, &lane)
	maps.Copy(args, pgx.NamedArgs{"scheduled_at": time.Now(), "attempt": 2, "limit": 1, "id": uuid(b.ID), "state": "CANCELLED", "reason": ""})
	for _, sql := range []string{lockLaneSQL, claimedPageSQL, claimedLanesSQL, bulksSQL, openLaneSQL, clearPageSQL, endBulkSQL} {
		plan, pages := cost(t, pool, "force_generic_plan", sql, args, lanePlanSQL)
		require.Less(t, pages, 45, plan)
	}
	require.NoError(t, dump.Rollback(t.Context()))
}

func TestJobsOfOtherTargetsCostAClaimNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	_, before := cost(t, pool, "force_generic_plan", claimPageSQL, claimArgs(s, &lane), lanePlanSQL)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, target, lanes, upper_bound, snapshot_at)
			SELECT gen_random_uuid(), 'w', 'topic-' || n, 'topic-' || n, 8, 0, now() FROM generate_series(1, 20) AS n`,
		`INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane, page)
			SELECT b.id, n, ARRAY(SELECT id FROM dlq.dlq_messages WHERE original_topic = 'users' AND seq > n * 200 LIMIT 100)
			FROM dlq.dlq_bulk_retries b, generate_series(0, 7) AS n WHERE b.target LIKE 'topic-%'`,
		`ANALYZE dlq.dlq_bulk_retries, dlq.dlq_bulk_retry_lanes`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	plan, after := cost(t, pool, "force_generic_plan", claimPageSQL, claimArgs(s, &lane), lanePlanSQL)
	require.Less(t, after, before+200, plan)
}

// Most PENDING messages belong to other topics.
func TestACountReadsItsOwnTopicOnly(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET original_topic = 'rare', dlq_topic = 'rare.dlq' WHERE seq % 500 = 1`, `VACUUM ANALYZE`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	s := New(pool, dlqtest.Topics(t))
	for _, topic := range []string{"rare", "rare.dlq"} {
		for _, filter := range []dlq.Filter{{}, {ErrorContains: "oom"}, {CreatedFrom: filledFrom}, {CreatedTo: filledFrom.Add(time.Hour)}} {
			b, err := s.CreateBulk(t.Context(), dlqtest.Bulk(topic, 1, dlqtest.Filter(filter)))
			require.NoError(t, err)
			args := s.bulkArgs(&b.Spec)
			args["id"] = uuid(b.ID)
			for _, mode := range planModes {
				plan, pages := cost(t, pool, mode, filtered(countBulkSQL, &b.Spec.Filter), args)
				require.Less(t, pages, 400, plan)
			}
			_, err = s.EndBulk(t.Context(), b.ID, dlq.BulkCancelled, "")
			require.NoError(t, err)
		}
	}
}

func TestAFilterDoesNotMakeAPageExpensive(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
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
			plan, pages := cost(t, pool, mode, filtered(claimPageSQL, &lane.Spec.Filter), claimArgs(s, &lane), lanePlanSQL)
			require.NotContains(t, plan, "Seq Scan on dlq_messages", name)
			require.Less(t, pages, test.limit, name+"\n"+plan)
		}
		_, err = s.EndBulk(t.Context(), lane.Bulk, dlq.BulkCancelled, "")
		require.NoError(t, err)
	}
}

func TestAClaimReadsNoMessagesOfOtherLanes(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	s := New(pool, dlqtest.Topics(t))
	for _, lanes := range []int{4, 64} {
		b, err := s.CreateBulk(t.Context(), dlqtest.Bulk("orders.dlq", lanes))
		require.NoError(t, err)
		lane, err := s.OpenLane(t.Context(), b.ID, lanes-1, dlq.LaneAttempt{Number: 1})
		require.NoError(t, err)
		for _, mode := range planModes {
			plan := explain(t, pool, mode, filtered(claimPageSQL, &lane.Spec.Filter), claimArgs(s, &lane), lanePlanSQL)
			read := false
			for node := range strings.SplitSeq(plan, "->") {
				if strings.Contains(node, "using idx_dlq_messages_dlq_topic_pending") && !strings.Contains(node, "never executed") {
					read = true
					require.Contains(t, node, "(actual rows=100 loops=1)", plan)
					require.NotContains(t, node, "Rows Removed by Filter", plan)
				}
			}
			require.True(t, read, plan)
		}
		_, err = s.EndBulk(t.Context(), b.ID, dlq.BulkCancelled, "")
		require.NoError(t, err)
	}
}

// In the worst case both topics are large and have no message in common.
func TestAJobStartsWithoutReadingMessages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	s := New(pool, dlqtest.Topics(t))
	for _, topic := range []string{"users.dlq", "elsewhere", "nowhere"} {
		_, err := s.CreateBulk(t.Context(), dlqtest.Bulk(topic, 1))
		require.NoError(t, err)
	}
	for _, mode := range planModes {
		for _, topic := range []string{"orders", "orders.dlq", "users", "users.dlq", "nothing"} {
			for _, sql := range []string{conflictSQL, snapshotSQL} {
				plan, pages := cost(t, pool, mode, sql, pgx.NamedArgs{"topic": topic})
				require.NotContains(t, plan, "dlq_messages ")
				require.Less(t, pages, 50, plan)
			}
		}
	}
}

// insertQueues inserts n messages of lane 2 that wait for a closed target, n queues of keys
// and n blocked keys.
func insertQueues(t *testing.T, tx pgx.Tx, n int) {
	t.Helper()
	for _, sql := range []string{`
		WITH q AS (
			INSERT INTO dlq.dlq_bulk_retry_queues (bulk_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
			SELECT id, -1, 'orders', 0, -1, true, 1, now() - interval '1 hour', 'unavailable', '' FROM dlq.dlq_bulk_retries
			RETURNING id, bulk_id
		), m AS (
			SELECT id, @n - row_number() OVER () + 1 AS n FROM (SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY seq DESC LIMIT 100) AS last
		)
		INSERT INTO dlq.dlq_bulk_retry_waiting
		SELECT q.bulk_id, q.id, 2, -n, COALESCE(m.id, gen_random_uuid()), 1000000 + n * 4 + 2 FROM q, generate_series(1, @n::int) AS n LEFT JOIN m USING (n)`, `
		INSERT INTO dlq.dlq_bulk_retry_queues (bulk_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
		SELECT id, 2, 'orders', -1, n, false, 1, now() + interval '1 hour', 'refused', '' FROM dlq.dlq_bulk_retries, generate_series(1, @n::int) AS n`,
		`INSERT INTO dlq.dlq_bulk_retry_blocked_keys SELECT id, n, 'orders', 'k' FROM dlq.dlq_bulk_retries, generate_series(1, @n::int) AS n`,
		`UPDATE dlq.dlq_bulk_retry_lanes SET waiting = @n, failed = @n`,
	} {
		_, err := tx.Exec(t.Context(), sql, pgx.NamedArgs{"n": n})
		require.NoError(t, err, sql)
	}
}

// A connection plans its statements once, while the queues are still empty.
func TestQueuesDoNotMakeAPageExpensive(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	_, err := pool.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	claim, err := s.ClaimPage(t.Context(), lane, true)
	require.NoError(t, err)
	cases := map[string]struct {
		sql  string
		args pgx.NamedArgs
		due  string
	}{
		"claim":      {claimPageSQL, claimArgs(s, &lane), "1 hour"},
		"from_queue": {claimQueueSQL, claimArgs(s, &lane), "-1 hour"},
		"claimed":    {claimedPageSQL, claimArgs(s, &lane), "1 hour"},
		"delivered":  {finalizePageSQL, finalizeArgs(&lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)), "1 hour"},
		"waiting":    {finalizePageSQL, finalizeArgs(&lane, dlqtest.Outcomes(claim.Page, dlq.ResultWaiting)), "1 hour"},
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
			exec(`UPDATE dlq.dlq_bulk_retry_queues SET due_at = now() + $1::text::interval WHERE closed`, c.due)
			rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) "+prepared[name])
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err, name)
			plans[name] = strings.Join(lines, "\n")
			exec(`ROLLBACK TO SAVEPOINT filled`)
		}
		return plans
	}
	few, many := pagesWith(100), pagesWith(100_000)
	for name, plan := range many {
		pages := buffers(t, few[name])
		require.NotContains(t, plan, "Seq Scan", name)
		require.Less(t, buffers(t, plan), pages+pages/2+500, name+"\n"+plan)
	}
}

// A page is finalized by the ids of its messages, however many others are RETRYING.
func TestFinalizePageReadsItsPageOnly(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	fill(t, pool)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	claim, err := s.ClaimPage(t.Context(), lane, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, dlq.PageSize)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET status = 'RETRYING', workflow_id = 'w', owner_token = 't' WHERE status = 'PENDING'`)
	require.NoError(t, err)
	for _, result := range []dlq.Result{dlq.ResultDelivered, dlq.ResultFailed, dlq.ResultWaiting} {
		plan, pages := cost(t, pool, "force_generic_plan", finalizePageSQL, finalizeArgs(&lane, dlqtest.Outcomes(claim.Page, result)), lanePlanSQL)
		require.NotContains(t, plan, "Seq Scan on dlq_messages")
		require.Less(t, pages, 6000, plan)
		for line := range strings.Lines(plan) {
			if strings.Contains(line, " on dlq_messages") {
				require.NotRegexp(t, `rows=\d{4}`, line, "more rows than a page has\n"+plan)
			}
		}
	}
}
