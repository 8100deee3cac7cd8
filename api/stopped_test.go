package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRetryMessageReportsAStoppedWorkflow(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	w.retries.stopped = true
	got := w.call(http.MethodPost, retryPath(id))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, w.status(id), got.field(t, "status"))
	require.Equal(t, "its workflow was cancelled or terminated", got.field(t, "error"))
	require.Equal(t, false, got.field(t, "published"))
	require.NotEqual(t, "message retry initiated", got.field(t, "message"))
}

func TestRetryAllReturnsTheJobWhenItsWorkflowWasStopped(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(3)
	w.retries.stopped = true
	got := w.call(http.MethodPost, retryAllPath)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "COMPLETED", got.field(t, "state"))
}
