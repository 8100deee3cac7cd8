package postgres

import (
	"errors"
	"fmt"
	"os"
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

// filledFrom is when the first message of fill was stored. Each message is a second later than the
// message before.
var filledFrom = time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)

// filled is a database of the test's own with planRows messages. All tests copy the same database.
func filled(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return filledBy(t, "plans", fill)
}

// filledBy copies a database that fill has filled once.
func filledBy(t *testing.T, name string, fill func(testing.TB, *pgxpool.Pool)) *pgxpool.Pool {
	t.Helper()
	if testing.Short() {
		require.NotEqual(t, "true", os.Getenv("CI"), "CI skips no tests: run them without -short")
		t.Skip("SKIPPED: plans need a filled database")
	}
	return dbtest.Filled(t, name, fill)
}

// fill inserts planRows messages of two topics with their bodies. A tenth of them are DEAD.
func fill(t testing.TB, pool *pgxpool.Pool) {
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
	// An index-only scan reads the table too, unless VACUUM has marked its pages as visible to all. VACUUM marks
	// none while another session has an older snapshot, such as an autovacuum that analyses the table.
	require.Eventually(t, func() bool {
		_, err = pool.Exec(t.Context(), `VACUUM ANALYZE dlq.dlq_messages, dlq.dlq_message_bodies`)
		var isVisible bool
		err = errors.Join(err, pool.QueryRow(t.Context(), `SELECT relallvisible >= relpages FROM pg_class WHERE oid = 'dlq.dlq_messages'::regclass`).Scan(&isVisible))
		return err != nil || isVisible
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, err)
}

// explain runs the statements in before and then sql, in one transaction, and returns the plan of sql.
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

// cost returns the plan of a statement and the number of pages that the statement read.
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
	pool := filled(t)
	for _, mode := range planModes {
		for _, statuses := range [][]dlq.Status{nil, {dlq.StatusPending}, {dlq.StatusDead}, {dlq.StatusDead, dlq.StatusPending}} {
			for _, topic := range []string{"orders.dlq", "orders"} {
				for _, seq := range []int64{planRows + 1, planRows / 2, 500} {
					after := dlq.Keyset{CreatedAt: filledFrom.Add(time.Duration(seq) * time.Second), Seq: seq}
					q := dlq.ListQuery{Filter: dlq.Filter{Topic: topic, Statuses: statuses}, PageSize: 20, After: &after}
					plan, pages := cost(t, pool, mode, listed(listSQL, &q), listArgs(&q), inOrderSQL)
					require.NotContains(t, plan, "Seq Scan on dlq_messages")
					require.NotContains(t, plan, "Bitmap Index Scan on idx_dlq_messages")
					require.Less(t, pages, 400, plan)
				}
			}
		}
	}
}

func TestListOfATimeRangeCostsTheSameAnywhere(t *testing.T) {
	t.Parallel()
	pool := filled(t)
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
	pool := filled(t)
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET key_hash = 7`, `UPDATE dlq.dlq_message_bodies SET key_hash = 7, key = 'k'`, `VACUUM ANALYZE`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte("k")}}
	args := listArgs(&q)
	args["key_hash"] = 7
	for _, mode := range planModes {
		plan, _ := cost(t, pool, mode, listed(countAnyOrderSQL, &q), args)
		require.NotContains(t, plan, "Sort Key: m.")
	}
}

// A bulk retry makes thousands of messages RESOLVED before the next ANALYZE.
func TestAListIsNotMisledByOldStatistics(t *testing.T) {
	t.Parallel()
	pool := filled(t)
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

// Most messages of the original topic are in dead-letter topics that the principal may not see.
func TestAListWithinFewTopicsOfAnOriginalTopicReadsTheseOnly(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	for _, sql := range []string{
		`UPDATE dlq.dlq_messages SET original_topic = 'shared', dlq_topic = CASE WHEN seq % 1000 = 1 THEN 'mine.dlq' ELSE dlq_topic END`,
		`INSERT INTO dlq.dlq_messages_archive SELECT * FROM dlq.dlq_messages WHERE status = 'PENDING'`,
		`UPDATE dlq.dlq_messages_archive SET status = 'DEAD'`,
		`VACUUM ANALYZE`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	s := New(pool, dlqtest.Topics(t))
	for _, isArchived := range []bool{false, true} {
		for _, after := range []*dlq.Keyset{nil, {CreatedAt: filledFrom.Add(planRows / 2 * time.Second), Seq: planRows / 2}} {
			for _, oldestFirst := range []bool{false, true} {
				q := dlq.ListQuery{Filter: dlq.Filter{Topic: "shared", Within: "^(mine.*)$", Archived: isArchived}, PageSize: 10, After: after, OldestFirst: oldestFirst}
				topics, isCheaper, err := s.granted(t.Context(), &q)
				require.NoError(t, err)
				require.Contains(t, topics, "mine.dlq")
				require.LessOrEqual(t, len(topics), 2)
				require.True(t, isCheaper)
				args := listArgs(&q)
				args["granted"] = topics
				for _, mode := range planModes {
					for _, sql := range []string{listGrantedSQL, countGrantedSQL} {
						plan, pages := cost(t, pool, mode, listed(sql, &q), args, inOrderSQL)
						require.Less(t, pages, 400, plan)
					}
				}
				page, err := s.List(t.Context(), q)
				require.NoError(t, err)
				require.EqualValues(t, 40, page.Total)
				require.Len(t, page.Messages, 10)
				for i := range page.Messages {
					require.Equal(t, "mine.dlq", page.Messages[i].DLQTopic)
					if i > 0 {
						require.Equal(t, oldestFirst, page.Messages[i-1].Seq < page.Messages[i].Seq)
					}
				}
			}
		}
	}
}

// The dead-letter topic has more messages than the original topic.
func TestAListWithinABusyDeadLetterTopicReadsTheOriginalTopic(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET original_topic = 'rare' WHERE seq % 1000 = 1 AND dlq_topic = 'orders.dlq' OR seq % 1000 = 2`, `VACUUM ANALYZE`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	q := dlq.ListQuery{Filter: dlq.Filter{Topic: "rare", Within: "^(users.*|orders.*)$"}}
	_, isCheaper, err := New(pool, dlqtest.Topics(t)).granted(t.Context(), &q)
	require.NoError(t, err)
	require.False(t, isCheaper)
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

// During a long pg_dump, a vacuum keeps the row versions of all messages that are claimed meanwhile.
func TestASweepDoesNotReadTheClaimsOfBulkRetries(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	dump, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = dump.Exec(t.Context(), `SELECT FROM dlq.dlq_messages LIMIT 1`)
	require.NoError(t, err)
	for _, sql := range []string{
		`UPDATE dlq.dlq_messages SET status = 'RETRYING', workflow_id = 'retry-all-x', owner_token = 'x', in_page = true WHERE original_topic = 'users'`,
		`UPDATE dlq.dlq_messages SET status = 'RESOLVED' WHERE original_topic = 'users'`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for _, mode := range planModes {
		plan, pages := cost(t, pool, mode, ownersSQL, pgx.NamedArgs{"claimed_before": time.Now()})
		require.Less(t, pages, 50, plan)
	}
	require.NoError(t, dump.Rollback(t.Context()))
}

// Most PENDING messages belong to other topics.
func TestACountReadsItsOwnTopicOnly(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET original_topic = 'rare', dlq_topic = 'rare.dlq' WHERE seq % 500 = 1`, `VACUUM ANALYZE`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	s := New(pool, dlqtest.Topics(t))
	for _, topic := range []string{"rare", "rare.dlq"} {
		for _, filter := range []dlq.Filter{{}, {ErrorContains: "oom"}, {CreatedFrom: filledFrom}, {CreatedTo: filledFrom.Add(time.Hour)}} {
			b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk(topic, 1, dlqtest.Filter(filter)))
			require.NoError(t, err)
			args := s.bulkArgs(&b.Spec)
			args["upper_bound"], args["snapshot_at"] = b.UpperBound, time.Now()
			for _, mode := range planModes {
				plan, pages := cost(t, pool, mode, filtered(sendableSQL, &b.Spec.Filter), args)
				require.Less(t, pages, 400, plan)
			}
			_, err = s.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "")
			require.NoError(t, err)
		}
	}
}

// In the worst case both topics are large and have no message in common.
func TestAJobStartsWithoutReadingMessages(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	for _, topic := range []string{"users.dlq", "elsewhere", "nowhere"} {
		_, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk(topic, 1))
		require.NoError(t, err)
	}
	for _, mode := range planModes {
		for _, topic := range []string{"orders", "orders.dlq", "users", "users.dlq", "nothing"} {
			for _, sql := range []string{conflictSQL, snapshotSQL} {
				plan, pages := cost(t, pool, mode, sql, pgx.NamedArgs{"topic": topic, "within": "", "id": uuid(dlq.NewID()),
					"beside": dlq.KindRetry.Beside()})
				require.NotContains(t, plan, "dlq_messages ")
				require.Less(t, pages, 50, plan)
			}
		}
	}
}
