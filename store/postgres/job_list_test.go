package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

// settings is a tracer that keeps the statements of batches that set a parameter.
type settings struct{ sql []string }

func (*settings) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (*settings) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (*settings) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}
func (s *settings) TraceBatchQuery(_ context.Context, _ *pgx.Conn, query pgx.TraceBatchQueryData) {
	if strings.Contains(query.SQL, "set_config") {
		s.sql = append(s.sql, query.SQL)
	}
}
func (*settings) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// The estimated cost of a list of jobs is high, so a server with its default settings would compile the statement for
// hundreds of milliseconds, and then run it for two.
func TestAListOfJobsIsNotCompiled(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, state, spec, lanes, upper_bound, snapshot_at, ended_at)
			SELECT gen_random_uuid(), 'w', 'topic-' || n, 'COMPLETED', '{"kind":"retry"}', 4, 0, now(), now() FROM generate_series(1, 200) AS n`,
		`INSERT INTO dlq.dlq_job_lanes (job_id, lane) SELECT id, n FROM dlq.dlq_jobs, generate_series(0, 3) AS n`,
		`VACUUM ANALYZE`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	tracer := &settings{}
	options := pool.Config()
	options.ConnConfig.Tracer = tracer
	traced, err := NewPool(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(traced.Close)
	found, err := New(traced, dlqtest.Topics(t)).Jobs(t.Context(), dlq.JobQuery{PageSize: 100})
	require.NoError(t, err)
	require.Len(t, found.Entries, 100)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.Background())) }()
	for _, sql := range tracer.sql {
		_, err = tx.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN "+strings.Replace(jobsWith("true"), "@limit", "100", 1)) // only costs show the JIT
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotContains(t, plan, "JIT:")
}
