package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// wrongArrivalsSQL lists the differences between the arrivals of the last month and the messages, of which none was deleted.
const wrongArrivalsSQL = `
SELECT COALESCE(string_agg(format('%s %s %s %s: %s, counted %s', s, at, g, t, c.arrived, m.arrived), '; '), '')
FROM (SELECT s, g, date_trunc(s, created_at, 'UTC') AS at, dlq_topic AS t, original_topic AS o, count(*) AS arrived
	FROM dlq.dlq_messages, unnest('{minute,hour}'::text[]) AS s,
		unnest(ARRAY[NULLIF(group_id, '00000000-0000-0000-0000-000000000000'), '00000000-0000-0000-0000-000000000000']) AS g
	WHERE g IS NOT NULL AND isfinite(created_at) AND date_trunc(s, created_at, 'UTC') BETWEEN now() - CASE s WHEN 'minute' THEN interval '23 hours' ELSE '30 days' END AND now()
	GROUP BY 1, 2, 3, 4, 5) AS m
FULL JOIN (SELECT step AS s, group_id AS g, at, dlq_topic AS t, original_topic AS o, arrived FROM dlq.dlq_arrivals
	WHERE at BETWEEN now() - CASE step WHEN 'minute' THEN interval '23 hours' ELSE '30 days' END AND now()) AS c USING (s, g, at, t, o)
WHERE c.arrived IS DISTINCT FROM m.arrived`

func requireExactArrivals(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var wrong string
	require.NoError(t, pool.QueryRow(t.Context(), wrongArrivalsSQL).Scan(&wrong))
	require.Empty(t, wrong)
}

func TestArrivalsAgreeWithTheTimesOfTheMessages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for _, cause := range []string{"a", "b"} {
		_, err := p.Ingest(t.Context(), append(dlqtest.Arrivals(10, dlqtest.Cause(cause)), dlqtest.Arrival()), nil)
		require.NoError(t, err)
		require.NoError(t, p.FoldCounts(t.Context()))
	}
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) VALUES ('by hand', 'e', '00000000-0000-0000-0000-000000000000')`,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, group_id)
			SELECT 'by hand', 'e', date_trunc('hour', now()) - n * interval '7 minutes 13 seconds', CASE WHEN n % 2 = 0 THEN '00000000-0000-0000-0000-000000000001'::uuid END
			FROM generate_series(0, 400) AS n`,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('by hand', 'e', 'infinity'), ('by hand', 'e', '-infinity'), ('by hand', 'e', '4000-01-01 BC')`,
		`UPDATE dlq.dlq_messages SET status = 'DEAD' WHERE seq % 3 = 0`,
		`SELECT dlq.recount_messages()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
		require.NoError(t, p.FoldCounts(t.Context()))
		requireExactArrivals(t, pool)
	}
	require.Positive(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_arrivals WHERE step = 'minute'`))
}

// Both statements delete the changes that are not in the sums, and must add their arrivals first.
func TestArrivalsStayWhenAllMessagesAreCountedAnew(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for n, sql := range []string{`SELECT dlq.recount_messages()`, `TRUNCATE dlq.dlq_messages`} {
		_, err := p.Ingest(t.Context(), dlqtest.Arrivals(3, dlqtest.Cause("a")), nil)
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
		for _, step := range []string{"minute", "hour"} {
			require.EqualValues(t, 6*(n+1), count(t, pool, `SELECT sum(arrived)::bigint FROM dlq.dlq_arrivals WHERE step = $1`, step), sql)
		}
	}
}

func TestArrivalsOfATransactionThatCommitsLateAreCountedWhenItBegan(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	now, err := p.Now(t.Context())
	require.NoError(t, err)
	began := now.Add(-10 * time.Minute).Truncate(time.Minute)
	late, err := pool.Begin(t.Context())
	require.NoError(t, err)
	const insert = `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'e', $1)`
	_, err = late.Exec(t.Context(), insert, began)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), insert, began)
	require.NoError(t, err)
	arrivals := func() int64 {
		require.NoError(t, p.FoldCounts(t.Context()))
		series, err := p.Series(t.Context(), dlq.SeriesQuery{Step: dlq.StepMinute, From: began, To: began.Add(time.Minute)})
		require.NoError(t, err)
		require.Len(t, series, 1)
		return series[0].Arrived
	}
	require.EqualValues(t, 1, arrivals())
	require.NoError(t, late.Commit(t.Context()))
	require.EqualValues(t, 2, arrivals())
}

func TestOldArrivalsAreDeletedALimitedNumberAtOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for step, kept := range map[string]string{"minute": "1 day", "hour": "31 days"} {
		for _, sql := range []string{
			`INSERT INTO dlq.dlq_arrivals SELECT gen_random_uuid(), $1, now() - $2::interval - n * interval '1 second', 't', 'o', 1 FROM generate_series(1, 10001) AS n`,
			`INSERT INTO dlq.dlq_arrivals SELECT gen_random_uuid(), $1, now() - $2::interval + interval '1 minute', 't', 'o', 1`,
		} {
			_, err := pool.Exec(t.Context(), sql, step, kept)
			require.NoError(t, err)
		}
	}
	for _, left := range []int64{4, 2, 2} {
		require.NoError(t, p.FoldCounts(t.Context()))
		require.Equal(t, left, count(t, pool, `SELECT count(*) FROM dlq.dlq_arrivals`))
	}
}
