package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// auditMark is the place in a statement for recordChanged.
const auditMark = " /* audit */"

// recordChanged is a CTE that records an operation on the row that the CTE changed returns. So a
// change and its row of the audit are one statement, and nothing is recorded without a change.
const recordChanged = `, recorded AS (
	INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
	SELECT o.id, o.subject, o.method, o.address, o.action, COALESCE(NULLIF(o.topic, ''), changed.topic), o.target,
		COALESCE(o.target_id, changed.id), o.reason, o.request_id, o.workflow_id, o.outcome, o.detail
	FROM changed
	CROSS JOIN jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb) AS o
)`

// recordOf is the operation as the store records it: with an id, the outcome, and the kind of its
// target. It is nil for a change that nobody asked for.
func recordOf(asked *dlq.Operation, target dlq.OperationTarget, outcome dlq.OperationOutcome) *dlq.Operation {
	if asked == nil {
		return nil
	}
	o := *asked
	o.ID, o.Target, o.Outcome = dlq.NewID(), target, outcome
	return new(o.Storable())
}

// audited lets a statement with an auditMark record the operation. The caller calls
// changed after a change. Without an operation, audited returns the statement as it is.
func (s *Store) audited(asked *dlq.Operation, target dlq.OperationTarget, sql string, args pgx.NamedArgs) (_ string, changed func(dlq.ID, string)) {
	o := recordOf(asked, target, dlq.OperationDone)
	if o == nil {
		return sql, func(dlq.ID, string) {}
	}
	args["operation"] = *o
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

const recordSQL = `
INSERT INTO dlq.dlq_audit (id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail)
SELECT id, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome, detail
FROM jsonb_populate_record(NULL::dlq.dlq_audit, @operation::jsonb)`

// recordJoin records an operation, if any, that joins a running job.
func (s *Store) recordJoin(ctx context.Context, asked *dlq.Operation, job *dlq.Job) error {
	o := recordOf(asked, dlq.TargetJob, dlq.OperationAccepted)
	if o == nil {
		return nil
	}
	return s.RecordOperation(ctx, o.Joined(job))
}

// recordCreation records an operation, if any, in the transaction that creates the job.
func recordCreation(ctx context.Context, tx pgx.Tx, o *dlq.Operation) error {
	if o == nil {
		return nil
	}
	_, err := tx.Exec(ctx, recordSQL, pgx.NamedArgs{"operation": *o})
	return err
}

// RecordOperation records an operation that changed nothing in the store: the operation was refused,
// failed, or a workflow makes the change. RecordOperation sets the time, and the id if it is zero.
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
