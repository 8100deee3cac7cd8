package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// auditMark is the place in a statement for recordChanged.
const auditMark = " /* audit */"

// recordChanged is a CTE that records an operation on the row that the CTE changed returns.
// So a change and its row are a single statement, and nothing is recorded without a change.
const recordChanged = `, recorded AS (
	INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
	SELECT o.id, o.subject, o.method, o.address, o.action, COALESCE(NULLIF(o.topic, ''), changed.topic), o.target,
		COALESCE(o.target_id, changed.id), o.reason, o.request_id, o.workflow_id, o.outcome, o.detail
	FROM changed
	CROSS JOIN jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb) AS o
)`

// audited lets a statement with an auditMark record the operation of ctx. The caller calls
// changed after a change. Without an operation the statement does not change.
func (s *Store) audited(ctx context.Context, target dlq.OperationTarget, sql string, args pgx.NamedArgs) (_ string, changed func(dlq.ID, string)) {
	o, found := dlq.StoredOperation(ctx, target, dlq.OperationDone)
	if !found {
		return sql, func(dlq.ID, string) {}
	}
	args["operation"] = o
	return strings.Replace(sql, auditMark, recordChanged, 1), func(id dlq.ID, topic string) {
		completed := o.On(id, topic)
		s.recorded(&completed)
	}
}

// recorded reports an operation, if any, to s.Audit.
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

// changeJob runs a statement that returns the job after a change.
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
	_, err := tx.Exec(ctx, recordSQL, pgx.NamedArgs{"operation": *o})
	return err
}

// recordEnd is the end of a statement whose CTE ended returns the job that has ended. recordEnd records
// the end, with the counts, on behalf of whoever ends the job, or else of whoever created the job.
const recordEnd = `, asked AS (
	SELECT o.subject, o.method, o.address, o.action, o.topic, o.reason, o.request_id
	FROM jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb) AS o
	WHERE @operation::jsonb IS NOT NULL
	UNION ALL
	(SELECT a.subject, a.method, a.address, a.action, a.topic, a.reason, a.request_id
	FROM dlq.dlq_audit a
	WHERE @operation::jsonb IS NULL AND a.target_id = @id AND a.outcome = 'accepted' AND a.action = 'dlq:' || @target::text || ':create'
	ORDER BY a.at, a.id
	LIMIT 1)
)
INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
SELECT @operation_id::uuid, asked.subject, asked.method, asked.address, asked.action, COALESCE(NULLIF(asked.topic, ''), ended.topic),
	@target::text, ended.id, asked.reason, asked.request_id, ended.workflow_id, @outcome, ended.counts
FROM ended
CROSS JOIN asked
RETURNING id, at, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail`

// endJob runs a statement that ends with recordEnd, after the statements that lock what it counts.
func (s *Store) endJob(ctx context.Context, target dlq.OperationTarget, sql string, id dlq.ID, state dlq.BulkState, reason string, locks ...string) error {
	args := pgx.NamedArgs{"id": uuid(id), "bulk": uuid(id), "state": state, "reason": dlq.StorableText(reason), "target": target,
		"operation": nil, "operation_id": uuid(dlq.NewID()), "outcome": dlq.OutcomeOf(state)}
	if o, found := dlq.OperationOf(ctx); found {
		args["operation"] = o.Storable()
	}
	var recorded []dlq.Operation
	err := s.batch(ctx, "end job", func(batch *pgx.Batch) {
		for _, lock := range locks {
			batch.Queue(lock, args)
		}
		queueQuery(batch, &recorded, scanOperation, sql, args)
	})
	if err == nil && len(recorded) > 0 {
		s.recorded(&recorded[0])
	}
	return err
}

// RecordOperation records an operation that changed nothing in the store: the operation was refused,
// failed, or a workflow makes the change. RecordOperation sets the time, and a zero id.
func (s *Store) RecordOperation(ctx context.Context, o dlq.Operation) error {
	o = o.Identified().Storable()
	err := s.batch(ctx, "record operation", func(batch *pgx.Batch) {
		batch.Queue(recordSQL, pgx.NamedArgs{"operation": o})
	})
	if err == nil {
		s.recorded(&o)
	}
	return err
}
