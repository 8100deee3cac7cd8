package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
	"dlqmanager/workflows"
)

func TestWhoeverStartsTheArchiveDoesNotChooseItsAges(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := postgres.New(dbtest.New(t), dlqtest.Topics(t))
	_, err := store.Ingest(t.Context(), dlqtest.Arrivals(5, dlqtest.Retries(3, 3)), nil)
	require.NoError(t, err)
	_, err = store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 2)
	require.NoError(t, err)
	configured := archiveOf(store)
	configured.Retention, configured.PurgeAfter = 30*24*time.Hour, 365*24*time.Hour
	w := s.archiverOf(t, configured)
	defer w.Stop()
	for _, ages := range []string{"retention_ns", "older_than_ns"} {
		run, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: s.queue + ages, TaskQueue: s.queue},
			workflows.ArchiveMessagesType, map[string]int{ages: 0, "purge_after_ns": 0, "batch_size": 100_000})
		require.NoError(t, err)
		var result workflows.ArchiveResult
		require.NoError(t, run.Get(t.Context(), &result))
		require.Equal(t, workflows.ArchiveResult{}, result)
	}
	page, err := store.Operations(t.Context(), dlq.OperationQuery{PageSize: 10})
	require.NoError(t, err)
	require.Empty(t, page.Entries, "a run that does nothing is not recorded")
}

func TestARunOfTheArchiveIsRecordedOnceWithItsCounts(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	store := postgres.New(dbtest.New(t), dlqtest.Topics(t))
	_, err := store.Ingest(t.Context(), dlqtest.Arrivals(25, dlqtest.Retries(3, 3)), nil)
	require.NoError(t, err)
	configured := archiveOf(store)
	configured.Retention, configured.PurgeAfter = time.Microsecond, 2*time.Microsecond
	w := s.archiverOf(t, configured)
	defer w.Stop()
	e := s.archive(t)
	var result workflows.ArchiveResult
	require.NoError(t, s.temporal.GetWorkflow(t.Context(), e.WorkflowID, e.RunID).Get(t.Context(), &result))
	require.Equal(t, workflows.ArchiveResult{Archived: 25, Purged: 25}, result)
	page, err := store.Operations(t.Context(), dlq.OperationQuery{PageSize: 10})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	row := page.Entries[0]
	require.Equal(t, []any{dlq.PermArchiveRun, dlq.OperationDone, e.WorkflowID, e.RunID, "system"},
		[]any{row.Action, row.Outcome, row.WorkflowID, row.RequestID, row.Subject})
	require.JSONEq(t, `{"archived": 25, "retention_seconds": 0, "purged": 25, "purge_after_seconds": 0, "interrupted": false}`, string(row.Detail))
}
