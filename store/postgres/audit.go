package postgres

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// auditMark is the place in a statement for recordChanged.
const auditMark = " /* audit */"

// recordChanged is a CTE that records an operation on the row that the CTE changed returns.
// So a change and its row are one statement, and nothing is recorded without a change.
const recordChanged = `, recorded AS (
	INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
	SELECT o.id, o.subject, o.method, o.address, o.action, COALESCE(NULLIF(o.topic, ''), changed.topic), o.target,
		COALESCE(o.target_id, changed.id), o.reason, o.request_id, o.workflow_id, o.outcome, o.detail
	FROM changed
	CROSS JOIN jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb) AS o
)`

// auditRow is a row of dlq_audit as jsonb_populate_record reads it.
type auditRow struct {
	ID         dlq.ID               `json:"id"`
	Subject    string               `json:"subject"`
	Method     string               `json:"method"`
	Address    string               `json:"address"`
	Action     dlq.Permission       `json:"action"`
	Topic      string               `json:"topic"`
	Target     dlq.OperationTarget  `json:"target"`
	TargetID   *dlq.ID              `json:"target_id"`
	Reason     string               `json:"reason"`
	RequestID  string               `json:"request_id"`
	WorkflowID string               `json:"workflow_id"`
	Outcome    dlq.OperationOutcome `json:"outcome"`
	Detail     json.RawMessage      `json:"detail,omitempty"`
}

func auditRowOf(o *dlq.Operation) *auditRow {
	return &auditRow{ID: o.ID, Subject: o.Subject, Method: o.Method, Address: o.Address, Action: o.Action, Topic: o.Topic,
		Target: o.Target, TargetID: nilIf(o.TargetID, o.TargetID.IsZero()), Reason: o.Reason, RequestID: o.RequestID,
		WorkflowID: o.WorkflowID, Outcome: o.Outcome, Detail: o.Detail}
}

// audited lets a statement with an auditMark record the operation of ctx. The caller calls
// changed after a change. Without an operation the statement stays as it is.
func (s *Store) audited(ctx context.Context, target dlq.OperationTarget, sql string, args pgx.NamedArgs) (_ string, changed func(dlq.ID, string)) {
	o, found := dlq.StoredOperation(ctx, target, dlq.OperationDone)
	if !found {
		return sql, func(dlq.ID, string) {}
	}
	args["operation"] = auditRowOf(&o)
	return strings.Replace(sql, auditMark, recordChanged, 1), func(id dlq.ID, topic string) {
		completed := o.On(id, topic)
		s.recorded(&completed)
	}
}

// recorded reports an operation, if there is one, to s.Audit.
func (s *Store) recorded(o *dlq.Operation) {
	if s.Audit != nil && o != nil {
		s.Audit(*o)
	}
}

// changedJob is a row of a statement that changes a job.
type changedJob struct {
	ID    [16]byte
	Topic string
}

// changeJob runs a statement that returns the job if it has changed it.
func (s *Store) changeJob(ctx context.Context, operation string, target dlq.OperationTarget, sql string, args pgx.NamedArgs) error {
	sql, changed := s.audited(ctx, target, sql, args)
	job, found, err := queryOne(ctx, s, operation, pgx.RowToStructByPos[changedJob], sql, args)
	if found {
		changed(job.ID, job.Topic)
	}
	return err
}

const recordSQL = `
INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
SELECT id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail
FROM jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb)`

// creation is the operation of ctx, which creates a job; nil if there is none.
func creation(ctx context.Context, target dlq.OperationTarget, job dlq.Owner, id dlq.ID, topic string) *dlq.Operation {
	o, found := dlq.StoredOperation(ctx, target, dlq.OperationAccepted)
	if !found {
		return nil
	}
	o = o.Created(job, id, topic)
	return &o
}

// recordJoin records the operation of ctx, which joins a running job.
func (s *Store) recordJoin(ctx context.Context, target dlq.OperationTarget, job dlq.Owner, id dlq.ID, topic string) error {
	o, found := dlq.StoredOperation(ctx, target, dlq.OperationAccepted)
	if !found {
		return nil
	}
	return s.RecordOperation(ctx, o.Joined(job, id, topic))
}

// recordCreation records an operation in the transaction that creates the job.
func recordCreation(ctx context.Context, tx pgx.Tx, o *dlq.Operation) error {
	if o == nil {
		return nil
	}
	_, err := tx.Exec(ctx, recordSQL, pgx.NamedArgs{"operation": auditRowOf(o)})
	return err
}

// endJob runs a statement that ends a job. args needs the parameters of endArgs.
func (s *Store) endJob(ctx context.Context, operation, sql string, args pgx.NamedArgs) error {
	o, found, err := queryOne(ctx, s, operation, scanOperation, sql, args)
	if found {
		s.recorded(&o)
	}
	return err
}

// endArgs are the parameters of a statement that ends a job.
func endArgs(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) pgx.NamedArgs {
	args := pgx.NamedArgs{"id": uuid(id), "state": state, "reason": dlq.StorableText(reason),
		"operation": nil, "operation_id": uuid(dlq.NewID()), "outcome": dlq.OutcomeOf(state)}
	if o, found := dlq.OperationOf(ctx); found {
		o = o.Storable()
		args["operation"] = auditRowOf(&o)
	}
	return args
}

// RecordOperation records an operation that changed nothing in the store: it was refused, it
// failed, or a workflow makes the change. It sets the time, and the id if that is zero.
func (s *Store) RecordOperation(ctx context.Context, o dlq.Operation) error {
	o = o.Identified().Storable()
	err := s.batch(ctx, "record operation", func(batch *pgx.Batch) {
		batch.Queue(recordSQL, pgx.NamedArgs{"operation": auditRowOf(&o)})
	})
	if err == nil {
		s.recorded(&o)
	}
	return err
}
