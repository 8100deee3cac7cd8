package dlq_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestACancelledJobNamesWhoeverCancelledIt(t *testing.T) {
	t.Parallel()
	command := func(subject, name string) dlq.Operation {
		return dlq.Operation{ID: dlq.NewID(), Subject: subject, Action: dlq.PermJobControl, Outcome: dlq.OperationAccepted,
			Detail: json.RawMessage(`{"command": "` + name + `"}`)}
	}
	paused, cancelled := command("ann", dlq.CommandPause), command("bob", dlq.CommandCancel)
	refused := cancelled
	refused.Subject, refused.Outcome = "eve", dlq.OperationRefused
	outside := *dlq.Outside(dlq.PermJobControl, "")
	outside.Outcome = dlq.OperationDone
	require.Equal(t, "bob", dlq.CancelledBy([]dlq.Operation{outside, refused, paused, cancelled}).Subject)
	require.Equal(t, "outside the API", dlq.CancelledBy([]dlq.Operation{outside, refused, paused}).Subject)

	stopped := command("ann", dlq.CommandCancel)
	stopped.Outcome = dlq.OperationDone // the API has cancelled the job in the store
	require.Equal(t, "ann", dlq.CancelledBy([]dlq.Operation{stopped}).Subject)
	require.Equal(t, "outside the API", dlq.CancelledBy(nil).Subject)

	require.True(t, dlq.AskedFor([]dlq.Operation{cancelled, paused}, paused.ID, dlq.CommandPause))
	require.False(t, dlq.AskedFor([]dlq.Operation{cancelled, paused}, paused.ID, dlq.CommandResume))
	require.False(t, dlq.AskedFor([]dlq.Operation{refused}, refused.ID, dlq.CommandCancel))
}
