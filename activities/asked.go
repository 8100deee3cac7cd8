package activities

import (
	"context"
	"encoding/json"

	"dlqmanager/dlq"
)

// AuditReader lists operations, the newest first.
type AuditReader interface {
	Operations(ctx context.Context, query dlq.OperationQuery) (dlq.OperationPage, error)
}

// maxCommands is how many of the newest commands to a job are looked at.
const maxCommands = 100

func commandsTo(ctx context.Context, store AuditReader, job dlq.ID, action dlq.Permission) ([]dlq.Operation, error) {
	page, err := store.Operations(ctx, dlq.OperationQuery{TargetID: job, Action: action, PageSize: maxCommands})
	return page.Operations, err
}

// endedBy makes the end of a job that was cancelled record whoever cancelled the job, since its
// workflow can also be cancelled in Temporal. Other ends are recorded for the creator.
func endedBy(ctx context.Context, store AuditReader, in StateInput, action dlq.Permission) (context.Context, error) {
	if in.State != dlq.BulkCancelled {
		return ctx, nil
	}
	commands, err := commandsTo(ctx, store, in.ID, action)
	return dlq.WithOperation(ctx, dlq.CancelledBy(commands, action)), err
}

// askedBy makes the effect of an update record an origin outside the API, unless the API has
// recorded the command before the update. update is empty for the own acts of a job.
func (a *Bulk) askedBy(ctx context.Context, job dlq.ID, update, command, reason string) (context.Context, error) {
	if update == "" {
		return ctx, nil
	}
	commands, err := commandsTo(ctx, a.Store, job, dlq.PermBulkRetryControl)
	id, unknown := dlq.ParseID(update)
	if err != nil || unknown == nil && dlq.AskedFor(commands, id, command) {
		return ctx, err
	}
	o := dlq.Outside(dlq.PermBulkRetryControl, reason)
	o.Detail, err = json.Marshal(map[string]string{"command": command})
	return dlq.WithOperation(ctx, o), err
}
