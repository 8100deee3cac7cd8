package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func TestABulkRetryIsFoundBeforeAWorkerTakesItUp(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	s.add(t, 3, 3)
	spec := dlq.BulkSpec{
		Topic: s.topic(), Order: dlq.OrderNone, RateLimit: 7, Reason: "because",
		Filter: dlq.BulkFilter{ErrorContains: dlq.UnknownError, Key: []byte("key-1")},
	}
	execution, err := s.client.StartRetryAll(t.Context(), workflows.RetryAllInput{Spec: spec, Lanes: 2})
	require.NoError(t, err)
	id, err := dlq.ParseID(execution.RunID)
	require.NoError(t, err)

	var found dlq.BulkRetry
	eventually(t, "it is listed", func() bool {
		found, err = s.client.FindRetryAll(t.Context(), id)
		return err == nil
	})
	require.WithinDuration(t, time.Now(), found.StartedAt, time.Minute)
	require.Equal(t, dlq.BulkRetry{
		ID: id, WorkflowID: execution.WorkflowID, Spec: spec, Lanes: 2, State: dlq.BulkRunning, Counting: true,
		StartedAt: found.StartedAt, UpdatedAt: found.StartedAt,
	}, found)
	_, err = workflows.NewClient(s.temporal, "another").FindRetryAll(t.Context(), id)
	require.ErrorIs(t, err, dlq.ErrNotFound, "of another installation")
	_, err = s.client.FindRetryAll(t.Context(), dlq.NewID())
	require.ErrorIs(t, err, dlq.ErrNotFound)

	require.NoError(t, s.client.CancelRetryAll(t.Context(), execution))
	s.start(t)
	_, err = s.client.AwaitRetryAll(t.Context(), execution)
	require.ErrorIs(t, err, workflows.ErrStopped)
	ended, err := s.store.Bulk(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, dlq.BulkCancelled, ended.State)
	require.Equal(t, dlq.BulkCounts{Skipped: 1}, ended.Counts)
	require.EqualValues(t, 1, ended.Matched)
	eventually(t, "it is listed as closed", func() bool {
		_, err := s.client.FindRetryAll(t.Context(), id)
		return err != nil
	})
	_, err = s.client.FindRetryAll(t.Context(), id)
	require.ErrorIs(t, err, dlq.ErrNotFound)
}

// standardVisibility is a server that lists by few attributes, and not by run id.
type standardVisibility struct{ client.Client }

func (standardVisibility) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return nil, serviceerror.NewInvalidArgument("operator is not supported for RunId")
}

func TestABulkRetryIsNotFoundByAServerThatCannotListItsRun(t *testing.T) {
	t.Parallel()
	_, err := workflows.NewClient(standardVisibility{}, "queue").FindRetryAll(t.Context(), dlq.NewID())
	require.ErrorIs(t, err, dlq.ErrNotFound)
}
