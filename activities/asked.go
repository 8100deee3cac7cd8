package activities

import (
	"context"
	"encoding/json"

	"dlqmanager/dlq"
)

// AuditReader lists operations, the newest first.
type AuditReader interface {
	Operations(ctx context.Context, query dlq.OperationQuery) (dlq.PageOf[dlq.Operation], error)
}

// maxCommands is how many commands to a job are read, the newest first.
const maxCommands = 100

func commandsTo(ctx context.Context, store AuditReader, job dlq.ID) ([]dlq.Operation, error) {
	page, err := store.Operations(ctx, dlq.OperationQuery{TargetID: job, Action: dlq.PermJobControl, PageSize: maxCommands})
	return page.Entries, err
}

// endedBy returns the operation that cancelled a job: a command, or dlq.Outside if somebody has
// cancelled the workflow in Temporal. The operation is nil if the job has ended otherwise. Such an end is recorded for the
// creator of the job.
func endedBy(ctx context.Context, store AuditReader, in StateInput) (*dlq.Operation, error) {
	if in.State != dlq.JobCancelled {
		return nil, nil //nolint:nilnil // nobody else asked for the end
	}
	commands, err := commandsTo(ctx, store, in.ID)
	return dlq.CancelledBy(commands), err
}

// askedBy is the operation of a Temporal update from outside the API. It is nil if update is empty, because the job acts by
// itself. It is also nil if the API has recorded the command before the update.
func (a *Jobs) askedBy(ctx context.Context, job dlq.ID, update, command, reason string) (*dlq.Operation, error) {
	if update == "" {
		return nil, nil //nolint:nilnil // nobody asked
	}
	commands, err := commandsTo(ctx, a.Store, job)
	id, unknown := dlq.ParseID(update)
	if err != nil || unknown == nil && dlq.AskedFor(commands, id, command) {
		return nil, err
	}
	o := dlq.Outside(dlq.PermJobControl, reason)
	o.Detail, err = json.Marshal(map[string]string{"command": command})
	return o, err
}
