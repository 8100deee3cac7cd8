package telemetry

import (
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// NewAuditLog returns a function that writes an operation as a line of the log. The name of its logger is "audit".
func NewAuditLog(log *zap.Logger) func(dlq.Operation) {
	log = log.Named("audit").WithOptions(zap.WithCaller(false))
	return func(o dlq.Operation) {
		fields := []zap.Field{
			zap.Stringer("operation_id", o.ID), zap.String("actor", o.Subject), zap.String("method", o.Method), zap.String("address", o.Address),
			zap.String("action", string(o.Action)), zap.String("topic", o.Topic), zap.String("target", string(o.Target)),
			zap.String("reason", o.Reason), zap.String("request_id", o.RequestID), zap.String("workflow_id", o.WorkflowID),
			zap.String("outcome", string(o.Outcome)),
		}
		if !o.TargetID.IsZero() {
			fields = append(fields, zap.Stringer("target_id", o.TargetID))
		}
		if len(o.Detail) > 0 {
			fields = append(fields, zap.Reflect("detail", o.Detail))
		}
		log.Info("operation", fields...)
	}
}
