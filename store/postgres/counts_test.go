package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// wrongCountsSQL lists the differences between the counts and the messages.
const wrongCountsSQL = `
SELECT COALESCE(string_agg(format('%s %s %s: %s, counted %s', dlq_topic, original_topic, status, c.messages, m.messages), '; '), '')
FROM (SELECT dlq_topic, original_topic, status, count(*) AS messages FROM dlq.dlq_messages GROUP BY 1, 2, 3) AS m
FULL JOIN dlq.dlq_topic_counts c USING (dlq_topic, original_topic, status)
WHERE c.messages IS DISTINCT FROM m.messages`

// wrongGroupsSQL lists the differences between the counts of groups and the messages.
const wrongGroupsSQL = `
SELECT COALESCE(string_agg(format('%s %s %s %s: %s, counted %s', group_id, dlq_topic, original_topic, status, c.messages, m.messages), '; '), '')
FROM (SELECT group_id, dlq_topic, original_topic, status, count(*) AS messages
	FROM dlq.dlq_messages WHERE group_id IS NOT NULL GROUP BY 1, 2, 3, 4) AS m
FULL JOIN (SELECT group_id, dlq_topic, original_topic, status, sum(messages) AS messages
	FROM (SELECT group_id, dlq_topic, original_topic, status, messages FROM dlq.dlq_group_count_sums
		UNION ALL
		SELECT group_id, dlq_topic, original_topic, status, messages FROM dlq.dlq_uncounted WHERE group_id IS NOT NULL) AS part
	GROUP BY 1, 2, 3, 4 HAVING sum(messages) <> 0) AS c USING (group_id, dlq_topic, original_topic, status)
WHERE c.messages IS DISTINCT FROM m.messages`

func requireExactCounts(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{wrongCountsSQL, wrongGroupsSQL} {
		var wrong string
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&wrong))
		require.Empty(t, wrong)
	}
}

func TestCountsFollowEveryStatement(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for _, cause := range []string{"a", "b"} {
		_, err := p.Ingest(t.Context(), dlqtest.Arrivals(10, dlqtest.Cause(cause)), nil)
		require.NoError(t, err)
	}
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'by hand', 'e' FROM generate_series(1, 5)`,
		`UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE seq % 3 = 0`,
		`UPDATE dlq.dlq_messages SET original_topic = 'elsewhere' WHERE seq % 4 = 0`,
		`UPDATE dlq.dlq_messages SET error_message = 'the same' WHERE seq % 5 = 0`,
		`UPDATE dlq.dlq_messages SET group_id = gen_random_uuid() WHERE seq % 6 = 0`,
		`DELETE FROM dlq.dlq_messages WHERE seq % 7 = 0`,
		`DELETE FROM dlq.dlq_messages WHERE false`,
		`MERGE INTO dlq.dlq_messages m USING (SELECT max(seq) AS seq FROM dlq.dlq_messages) AS last ON m.seq = last.seq
			WHEN MATCHED THEN UPDATE SET status = 'RESOLVED'`,
		`DO $$ BEGIN UPDATE dlq.dlq_messages SET status = 'RESOLVED'; RAISE EXCEPTION 'no'; EXCEPTION WHEN OTHERS THEN NULL; END $$`,
		`SELECT dlq.archive_dlq_messages_batch(now() + interval '1 hour', 3)`,
		`SELECT dlq.recount_messages()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
		requireExactCounts(t, pool)
		require.NoError(t, p.FoldCounts(t.Context()))
		requireExactCounts(t, pool)
	}
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_count_batches`))

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM dlq.dlq_messages`)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	requireExactCounts(t, pool)

	_, err = pool.Exec(t.Context(), `TRUNCATE dlq.dlq_messages`)
	require.NoError(t, err)
	requireExactCounts(t, pool)
	topics, err := p.Topics(t.Context())
	require.NoError(t, err)
	require.Empty(t, topics)
}

// A program that changes messages needs no rights on the tables of counts.
func TestCountsNeedNoRights(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	role := pgx.Identifier{fmt.Sprintf("writer_%s", pool.Config().ConnConfig.Database)}.Sanitize()
	for _, sql := range []string{
		`CREATE ROLE ` + role,
		`GRANT USAGE ON SCHEMA dlq TO ` + role,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON dlq.dlq_messages TO ` + role,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	for _, sql := range []string{
		`SET LOCAL ROLE ` + role,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e'), ('orders', 'e')`,
		`UPDATE dlq.dlq_messages SET status = 'DEAD'`,
		`DELETE FROM dlq.dlq_messages WHERE seq = (SELECT max(seq) FROM dlq.dlq_messages)`,
	} {
		_, err := tx.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	require.NoError(t, tx.Commit(t.Context()))
	requireExactCounts(t, pool)
	_, err = pool.Exec(t.Context(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
	require.NoError(t, err)
}

// An open transaction of a writer blocks neither other writers nor FoldCounts.
func TestCountsBlockNoWriter(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	insert := func(ctx context.Context, on interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) error {
		var n int
		return on.QueryRow(ctx, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e') RETURNING 1`).Scan(&n)
	}
	open, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, insert(t.Context(), open))
	const writers = 8
	failures := make([]error, writers+1)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for range 20 {
				failures[i] = errors.Join(failures[i], insert(t.Context(), pool))
			}
		})
	}
	group.Go(func() {
		for range 20 {
			failures[writers] = errors.Join(failures[writers], p.FoldCounts(t.Context()))
		}
	})
	group.Wait()
	require.NoError(t, errors.Join(failures...))
	requireExactCounts(t, pool)
	require.NoError(t, open.Commit(t.Context()))
	require.NoError(t, p.FoldCounts(t.Context()))
	requireExactCounts(t, pool)
	require.EqualValues(t, writers*20+1, count(t, pool, `SELECT messages FROM dlq.dlq_topic_count_sums`))
}

// A cached plan that was made for few changes is used for many changes.
func TestManyChangesAreFoldedAfterFew(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for range 8 {
		_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e')`)
		require.NoError(t, err)
		require.NoError(t, p.FoldCounts(t.Context()))
	}
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages) SELECT 'x', 'x', 'PENDING', '{NULL}', '{1}' FROM generate_series(1, 150000)`)
	require.NoError(t, err)
	require.NoError(t, p.FoldCounts(t.Context()))
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_count_batches`))
	require.EqualValues(t, 150_008, count(t, pool, `SELECT sum(messages)::bigint FROM dlq.dlq_topic_count_sums`))
}

// A statement that changes messages of many groups leaves a row with an element for each group. A fold of a thousand
// such rows would take minutes.
func TestAFoldTakesFewRowsOfManyGroups(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	const rows, groups = 3, 60_000
	noteFolds(t, pool)
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages)
		SELECT 'x', 'x', 'PENDING', array_agg(md5(g::text)::uuid), array_agg(1)
		FROM generate_series(1, %d) AS r CROSS JOIN generate_series(1, %d) AS g
		GROUP BY r`, rows, groups))
	require.NoError(t, err)
	require.NoError(t, p.FoldCounts(t.Context()))
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_count_batches`))
	require.EqualValues(t, rows*groups, count(t, pool, `SELECT sum(messages)::bigint FROM dlq.dlq_topic_count_sums`))
	require.EqualValues(t, groups, count(t, pool, `SELECT count(*) FROM dlq.dlq_group_count_sums WHERE messages = 3`))
	require.EqualValues(t, 2*groups, count(t, pool, `SELECT max(changes) FROM dlq.folds`))
}

// The server compresses an array of ids if it has the same few ids again and again.
func TestAFoldTakesFewRowsOfManyMinutes(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	const rows, arrivals = 6, 60_000
	noteFolds(t, pool)
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages, arrived_at)
		SELECT 'x', 'x', 'PENDING', array_agg('00000000-0000-0000-0000-000000000001'::uuid), array_agg(1),
			array_agg(timestamptz '2026-02-20 10:30:00Z' + random() * interval '1 hour')
		FROM generate_series(1, %d) AS r CROSS JOIN generate_series(1, %d) AS g
		GROUP BY r`, rows, arrivals))
	require.NoError(t, err)
	require.NoError(t, p.FoldCounts(t.Context()))
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_count_batches`))
	require.EqualValues(t, rows*arrivals, count(t, pool, `SELECT arrived FROM dlq.dlq_group_arrivals`))
	require.Less(t, count(t, pool, `SELECT max(changes) FROM dlq.folds`), int64(rows*arrivals))
}

func TestRowsByHandDoNotStopTheFolds(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for _, arrays := range []string{
		`ARRAY[g, gen_random_uuid()], '{1}', NULL`, `ARRAY[g], '{1}', '{2026-02-20 10:30:00Z,2026-02-20 10:31:00Z}'`, `ARRAY[g], '{}', '{}'`,
		`ARRAY[g], '{NULL}', '{infinity}'`, `'{}', '{}', '{}'`, `'{}', '{1,2}', '{2026-02-20 10:30:00Z}'`, `ARRAY[[g], [NULL::uuid]], '{1,1}', NULL`,
	} {
		_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_count_batches (dlq_topic, original_topic, status, group_ids, messages, arrived_at)
			SELECT 'x', 'x', 'PENDING', `+arrays+` FROM (SELECT uuid '00000000-0000-0000-0000-000000000001' AS g) AS hand`)
		require.NoError(t, err, arrays)
	}
	require.NoError(t, postgres.New(pool, dlqtest.Topics(t)).FoldCounts(t.Context()))
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_count_batches`))
	require.EqualValues(t, 7, count(t, pool, `SELECT messages FROM dlq.dlq_topic_count_sums`))
	require.EqualValues(t, 3, count(t, pool, `SELECT messages FROM dlq.dlq_group_count_sums WHERE group_id = '00000000-0000-0000-0000-000000000001'`))
}

// noteFolds makes the database store in dlq.folds how many changes each fold adds up.
func noteFolds(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, sql := range []string{
		`CREATE TABLE dlq.folds (changes BIGINT)`,
		`CREATE FUNCTION dlq.note_fold() RETURNS TRIGGER LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO dlq.folds SELECT sum(cardinality(group_ids)) FROM folded;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER note_fold AFTER DELETE ON dlq.dlq_count_batches REFERENCING OLD TABLE AS folded
			FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_fold()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
}

func TestATransactionDoesNotMiscountInvisibleMessages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	begin := func() pgx.Tx {
		tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_messages`)
		require.NoError(t, err)
		return tx
	}
	truncate, recount := begin(), begin()
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e')`)
	require.NoError(t, err)
	_, err = recount.Exec(t.Context(), `SELECT dlq.recount_messages()`)
	require.ErrorContains(t, err, "READ COMMITTED")
	require.NoError(t, recount.Rollback(t.Context()))
	_, err = truncate.Exec(t.Context(), `TRUNCATE dlq.dlq_messages`)
	require.NoError(t, err)
	require.NoError(t, truncate.Commit(t.Context()))
	requireExactCounts(t, pool)
}

func TestOtherRolesCannotChangeTheCounts(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	role := pgx.Identifier{fmt.Sprintf("reader_%s", pool.Config().ConnConfig.Database)}.Sanitize()
	for _, sql := range []string{`CREATE ROLE ` + role, `GRANT USAGE ON SCHEMA dlq TO ` + role} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	for _, event := range []string{"TRUNCATE", "INSERT"} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET LOCAL ROLE `+role+`; CREATE TEMP TABLE mine (a int)`)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `CREATE TRIGGER x AFTER `+event+` ON mine FOR EACH STATEMENT EXECUTE FUNCTION dlq.`+
			map[string]string{"TRUNCATE": "count_no_messages()", "INSERT": "count_messages()"}[event])
		require.ErrorContains(t, err, "permission denied")
		require.NoError(t, tx.Rollback(t.Context()))
	}
	_, err := pool.Exec(t.Context(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
	require.NoError(t, err)
}

func TestAPageAndItsTotalAreOfOneSnapshot(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { // messages are inserted and deleted at the same time
		for ctx.Err() == nil {
			_, _ = pool.Exec(ctx, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom'), ('orders', 'boom')`)
			_, _ = pool.Exec(ctx, `DELETE FROM dlq.dlq_messages`)
		}
	})
	for i := range 500 {
		q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1 + i%2}
		if i%3 == 0 {
			q.ErrorContains = "boom"
		}
		page, err := p.List(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, page.Total > int64(len(page.Messages)), page.HasNext, "%d of %d", len(page.Messages), page.Total)
		require.Equal(t, page.Total > 0, len(page.Messages) > 0)
	}
}
