package telemetry_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func TestAnOperationIsOneLineOfTheAuditLog(t *testing.T) {
	t.Parallel()
	o := dlq.Operation{ID: dlq.NewID(), Subject: "ann", Method: "token", Address: "192.0.2.1", Action: dlq.PermMessageDelete, Topic: "orders.dlq",
		Target: dlq.TargetMessage, TargetID: dlq.NewID(), Reason: "two\nlines", RequestID: "r", WorkflowID: "w", Outcome: dlq.OperationDone,
		Detail: json.RawMessage(`{"matched": 3}`)}
	lines := logged(t, telemetry.LogOptions{Level: level(t, "info")}, func(log *zap.Logger) {
		write := telemetry.NewAuditLog(log)
		write(o)
		write(dlq.Operation{})
	})
	require.Len(t, lines, 2)
	delete(lines[0], "time")
	require.Equal(t, map[string]any{
		"level": "info", "logger": "audit", "msg": "operation", "operation_id": o.ID.String(), "actor": "ann", "method": "token", "address": "192.0.2.1",
		"action": "dlq:message:delete", "topic": "orders.dlq", "target": "message", "target_id": o.TargetID.String(), "reason": "two\nlines",
		"request_id": "r", "workflow_id": "w", "outcome": "done", "detail": map[string]any{"matched": 3.0},
	}, lines[0])
	require.NotContains(t, lines[1], "target_id")
	require.NotContains(t, lines[1], "detail")
}
