package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"time"

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
func creation(ctx context.Context, target dlq.OperationTarget, job dlq.ID, topic, workflowID string) *dlq.Operation {
	o, found := dlq.StoredOperation(ctx, target, dlq.OperationAccepted)
	if !found {
		return nil
	}
	o = o.On(job, topic)
	o.WorkflowID = workflowID
	return &o
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
// failed, or a workflow makes the change. It sets the id and the time.
func (s *Store) RecordOperation(ctx context.Context, o dlq.Operation) error {
	o.ID = dlq.NewID()
	o = o.Storable()
	err := s.batch(ctx, "record operation", func(batch *pgx.Batch) {
		batch.Queue(recordSQL, pgx.NamedArgs{"operation": auditRowOf(&o)})
	})
	if err == nil {
		s.recorded(&o)
	}
	return err
}

const operationsSQL = `
SELECT a.id, a.at, a.subject, a.method, a.address, a.action, a.topic, a.target, a.target_id, a.reason, a.request_id, a.workflow_id,
	a.outcome, a.detail
FROM dlq.dlq_audit a
WHERE true /* filter */
ORDER BY a.at DESC, a.id DESC
LIMIT @limit`

// Operations returns one page of the operations, the newest first.
func (s *Store) Operations(ctx context.Context, q dlq.OperationQuery) (page dlq.OperationPage, err error) {
	size := max(q.PageSize, 1)
	args := pgx.NamedArgs{"subject": q.Subject, "action": q.Action, "topic": q.Topic, "target_id": uuid(q.TargetID), "outcome": q.Outcome,
		"from": q.From, "to": q.To, "within": q.Within, "limit": size + 1}
	if q.After != nil {
		args["after_at"], args["after_id"] = timestamptz(q.After.At), uuid(q.After.ID)
	}
	sql := strings.Replace(operationsSQL, filterMark, "true"+operationConditions(&q), 1)
	page.Operations, err = queryAll(ctx, s, "list operations", scanOperation, sql, args)
	if page.HasNext = len(page.Operations) > size; page.HasNext {
		page.Operations = page.Operations[:size]
	}
	return page, err
}

func operationConditions(q *dlq.OperationQuery) string {
	var b strings.Builder
	add := func(wanted bool, condition string) {
		if wanted {
			b.WriteString(" AND " + condition)
		}
	}
	add(q.Subject != "", "a.subject = @subject")
	add(q.Action != "", "a.action = @action")
	add(q.Topic != "", "a.topic = @topic")
	add(!q.TargetID.IsZero(), "a.target_id = @target_id")
	add(q.Outcome != "", "a.outcome = @outcome")
	add(!q.From.IsZero(), "a.at >= @from")
	add(!q.To.IsZero(), "a.at < @to")
	add(q.Within != "", "a.topic ~ @within")
	add(q.After != nil, "(a.at, a.id) < (@after_at::timestamptz, @after_id::uuid)")
	return b.String()
}

func scanOperation(row pgx.CollectableRow) (dlq.Operation, error) {
	var o dlq.Operation
	var target *[16]byte
	err := row.Scan((*[16]byte)(&o.ID), instant{&o.At}, &o.Subject, &o.Method, &o.Address, (*string)(&o.Action), &o.Topic,
		(*string)(&o.Target), &target, &o.Reason, &o.RequestID, &o.WorkflowID, (*string)(&o.Outcome), (*[]byte)(&o.Detail))
	if target != nil {
		o.TargetID = *target
	}
	return o, err
}

const purgeAuditSQL = `SELECT dlq.purge_audit(now() - @microseconds::bigint * interval '1 microsecond', @limit::int)`

// PurgeOperations deletes at most limit operations that are older than olderThan, and older
// than dlq.AuditFloor, and returns how many.
func (s *Store) PurgeOperations(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return s.moveBatch(ctx, "purge the audit", purgeAuditSQL, olderThan, limit)
}
