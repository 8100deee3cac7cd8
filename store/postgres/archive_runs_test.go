package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// archived is a store with messages that have ended. Its user is a member of the application's role.
func archived(t *testing.T, messages int) (*postgres.Store, *pgxpool.Pool) {
	t.Helper()
	p := dbtest.NewProtected(t)
	pool := dbtest.Pool(t, p.User(t, p.Application))
	s := postgres.New(pool, dlqtest.Topics(t))
	_, err := s.Ingest(t.Context(), dlqtest.Arrivals(messages, dlqtest.Retries(3, 3)), nil)
	require.NoError(t, err)
	return s, pool
}

// move archives a batch and purges a batch for a run.
func move(t *testing.T, s *postgres.Store, runID string, archive, purge int) {
	t.Helper()
	run := dlq.ArchiveRun{WorkflowID: "dlq-archive-1", RunID: runID}
	moved, err := s.ArchiveBatch(t.Context(), run, 0, archive)
	require.NoError(t, err)
	require.EqualValues(t, archive, moved)
	purged, err := s.PurgeBatch(t.Context(), run, 0, purge)
	require.NoError(t, err)
	require.EqualValues(t, purge, purged)
}

func rowsOf(t *testing.T, s *postgres.Store) []dlq.Operation {
	t.Helper()
	page, err := s.Operations(t.Context(), dlq.OperationQuery{PageSize: 100, Outcome: dlq.OperationDone})
	require.NoError(t, err)
	return page.Entries
}

func counts(archived, purged int, interrupted bool) string {
	return fmt.Sprintf(`{"archived": %d, "retention_seconds": 0, "purged": %d, "purge_after_seconds": 0, "interrupted": %t}`, archived, purged, interrupted)
}

func TestARunOfTheArchiveIsOneRowOfTheAudit(t *testing.T) {
	t.Parallel()
	s, _ := archived(t, 10)
	var logged []dlq.Operation
	s.Audit = func(o dlq.Operation) { logged = append(logged, o) }
	move(t, s, "run", 3, 2)
	move(t, s, "run", 3, 3)
	require.Empty(t, rowsOf(t, s))
	for range 2 {
		require.NoError(t, s.RecordArchiveRuns(t.Context(), "run"))
		rows := rowsOf(t, s)
		require.Len(t, rows, 1)
		require.Equal(t, []any{"system", "worker", dlq.PermArchiveRun, dlq.TargetArchive, "run", "dlq-archive-1"},
			[]any{rows[0].Subject, rows[0].Method, rows[0].Action, rows[0].Target, rows[0].RequestID, rows[0].WorkflowID})
		require.JSONEq(t, counts(6, 5, false), string(rows[0].Detail))
		require.Equal(t, rows, logged)
	}
	require.NoError(t, s.RecordArchiveRuns(t.Context(), "a run that found nothing"))
	require.Len(t, rowsOf(t, s), 1)
}

func TestWhatAnInterruptedRunHasPurgedIsInTheAuditToo(t *testing.T) {
	t.Parallel()
	s, pool := archived(t, 10)
	move(t, s, "killed", 3, 2)
	require.NoError(t, s.RecordArchiveRuns(t.Context(), ""))
	require.Empty(t, rowsOf(t, s), "it may still run")
	_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_archive_runs SET updated_at = now() - interval '121 seconds'`)
	require.NoError(t, err)
	require.NoError(t, s.RecordArchiveRuns(t.Context(), ""))
	require.JSONEq(t, counts(3, 2, true), string(rowsOf(t, s)[0].Detail))

	move(t, s, "killed", 1, 1)
	require.NoError(t, s.RecordArchiveRuns(t.Context(), "killed"))
	require.Len(t, rowsOf(t, s), 2)
	require.JSONEq(t, counts(1, 1, false), string(rowsOf(t, s)[0].Detail), "the rest, when it continued")
}

func TestARunThatSomebodyAskedForNamesThem(t *testing.T) {
	t.Parallel()
	s, pool := archived(t, 10)
	request := dlq.Operation{Subject: "ann", Method: "token", Address: "192.0.2.1", Action: dlq.PermArchiveRun, Target: dlq.TargetArchive,
		Reason: "the disk is full", RequestID: "r-1", Outcome: dlq.OperationAccepted}
	require.NoError(t, s.RecordOperation(t.Context(), request))
	move(t, s, "asked for", 3, 2)
	require.NoError(t, s.RecordArchiveRuns(t.Context(), "asked for"))
	row := rowsOf(t, s)[0]
	require.Equal(t, []string{"ann", "token", "192.0.2.1", "the disk is full", "r-1"}, []string{row.Subject, row.Method, row.Address, row.Reason, row.RequestID})

	move(t, s, "later", 3, 2)
	_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_archive_runs SET started_at = started_at + interval '61 seconds'`)
	require.NoError(t, err)
	require.NoError(t, s.RecordArchiveRuns(t.Context(), "later"))
	require.Equal(t, "system", rowsOf(t, s)[0].Subject)
}
