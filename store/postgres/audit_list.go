package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// operationsOfSQL finds the operation of a single retry by its run, and the operations of a bulk retry by its id.
// The oldest operation of a bulk retry comes last: it created the job, and the newer operations joined the job.
const operationsOfSQL = `
SELECT COALESCE(r.run_id, o.target_id::text), o.id
FROM dlq.dlq_audit o
LEFT JOIN dlq.dlq_audit_runs r ON r.operation_id = o.id
WHERE o.target_id = ANY (@targets::uuid[]) AND o.outcome = 'accepted'
	AND (r.run_id = ANY (@tokens::text[]) OR r.run_id IS NULL AND o.action = 'dlq:job:create')
ORDER BY o.at DESC, o.id DESC`

// OperationsOf returns the operations that asked for retries of messages, by the tokens of
// their owners, and leaves out tokens whose operation is unknown.
func (s *Store) OperationsOf(ctx context.Context, messages []dlq.ID, tokens []string) (map[string]dlq.ID, error) {
	type row struct {
		Token string
		ID    [16]byte
	}
	targets := slices.Clone(messages)
	for _, token := range tokens {
		if bulk, err := dlq.ParseID(token); err == nil {
			targets = append(targets, bulk)
		}
	}
	rows, err := queryAll(ctx, s, "find operations of retries", pgx.RowToStructByPos[row], operationsOfSQL,
		pgx.NamedArgs{"targets": uuids(targets), "tokens": tokens})
	operations := make(map[string]dlq.ID, len(rows))
	for _, r := range rows {
		operations[r.Token] = r.ID
	}
	return operations, err
}

const operationsSQL = `
SELECT a.id, a.at, a.subject, a.method, a.address, a.action, a.topic, a.target, a.target_id, a.reason, a.request_id, a.workflow_id,
	a.outcome, a.detail
FROM dlq.dlq_audit a
WHERE true /* filter */
ORDER BY a.at DESC, a.id DESC
LIMIT @limit`

// operationsByTopicSQL reads the newest operations of each topic. A list by time would also read the
// operations of all other topics.
const operationsByTopicSQL = `
SELECT a.id, a.at, a.subject, a.method, a.address, a.action, a.topic, a.target, a.target_id, a.reason, a.request_id, a.workflow_id,
	a.outcome, a.detail
FROM unnest(@topics::text[]) AS granted (topic)
CROSS JOIN LATERAL (
	SELECT *
	FROM dlq.dlq_audit a
	WHERE a.topic = granted.topic AND true /* filter */
	ORDER BY a.at DESC, a.id DESC
	LIMIT @limit
) AS a
ORDER BY a.at DESC, a.id DESC
LIMIT @limit`

// auditedTopicsSQL finds the topics of the audit by index: it steps from one topic to the next.
const auditedTopicsSQL = `
WITH RECURSIVE known (topic, n) AS (
	(SELECT topic, 1 FROM dlq.dlq_audit ORDER BY topic LIMIT 1)
	UNION ALL
	SELECT (SELECT a.topic FROM dlq.dlq_audit a WHERE a.topic > known.topic ORDER BY a.topic LIMIT 1), n + 1
	FROM known
	WHERE known.topic IS NOT NULL AND n < @most
)
SELECT COALESCE(array_agg(topic) FILTER (WHERE topic ~ @within), '{}'), count(topic) FROM known`

// Limits of operationsByTopicSQL. With more topics, a list by time soon fills its page.
const (
	maxAuditedTopics = 5000 // looked up in about 50 ms
	maxListedTopics  = 100
)

// auditedTopics returns the topics of the audit that match within. few reports that no topic is
// missing, and that the topics are few enough to be read topic by topic.
func (s *Store) auditedTopics(ctx context.Context, within string) (topics []string, few bool, err error) {
	type audited struct {
		Topics []string
		Known  int
	}
	found, _, err := queryOne(ctx, s, "find topics of operations", pgx.RowToStructByPos[audited], auditedTopicsSQL,
		pgx.NamedArgs{"within": within, "most": maxAuditedTopics}, byIndexSQL)
	return found.Topics, found.Known < maxAuditedTopics && len(found.Topics) <= maxListedTopics, err
}

// Operations returns a page of the operations, the newest first.
func (s *Store) Operations(ctx context.Context, q dlq.OperationQuery) (dlq.PageOf[dlq.Operation], error) {
	size := max(q.PageSize, 1)
	args := pgx.NamedArgs{"subject": q.Subject, "action": q.Action, "topic": q.Topic, "target_id": uuid(q.TargetID), "outcome": q.Outcome,
		"from": q.From, "to": q.To, "within": q.Within, "limits": q.Limits, "dead_letter_topics": s.topics.Expression(), "limit": size + 1}
	if q.After != nil {
		args["after_at"], args["after_id"] = timestamptz(q.After.At()), uuid(q.After.ID)
	}
	sql := operationsSQL
	if q.Within != "" && q.Topic == "" && q.Subject == "" && q.TargetID.IsZero() {
		topics, few, err := s.auditedTopics(ctx, q.Within)
		if err != nil {
			return dlq.PageOf[dlq.Operation]{}, err
		}
		if args["topics"] = topics; few {
			sql = operationsByTopicSQL
		}
	}
	sql = strings.Replace(sql, filterMark, "true"+operationConditions(&q), 1)
	var found []dlq.Operation
	err := s.batch(ctx, "list operations", func(batch *pgx.Batch) {
		queueQuery(batch, &found, fitting(scanOperation, func(o *dlq.Operation) int { return o.ListSize() }), sql, args)
	})
	return placed(found, size, (*dlq.Operation).Place), err
}

// visibleJob is a condition on operations: their job, if any, must be on a dead-letter topic or have one of the
// caller's access limits. A job on an original topic without a limit has the messages of all dead-letter topics.
const visibleJob = `(a.target <> 'job' OR a.topic ~ @dead_letter_topics
	OR EXISTS (SELECT FROM dlq.dlq_jobs j WHERE j.id = a.target_id AND COALESCE(j.spec->>'within', '') = ANY (@limits::text[]) OFFSET 0))`

// singleRetry is the condition that an operation is a request for a single retry. A row that names a joined run is the second
// row of a request, and is excluded.
const singleRetry = `a.action = 'dlq:message:retry' AND a.outcome = 'accepted' AND NOT COALESCE(a.detail ? 'joined_run', false)`

func operationConditions(q *dlq.OperationQuery) string {
	var w where
	w.add(q.Subject != "", "a.subject = @subject")
	w.add(q.Action != "", "a.action = @action")
	w.add(q.Topic != "", "a.topic = @topic")
	w.add(!q.TargetID.IsZero(), "a.target_id = @target_id")
	w.add(q.Outcome != "", "a.outcome = @outcome")
	w.add(!q.From.IsZero(), "a.at >= @from")
	w.add(!q.To.IsZero(), "a.at < @to")
	w.add(q.Within != "", "a.topic ~ @within")
	w.add(q.Within != "", visibleJob)
	w.add(q.SingleRetries, singleRetry)
	w.add(q.After != nil, "(a.at, a.id) < (@after_at::timestamptz, @after_id::uuid)")
	return string(w)
}

func scanOperation(row pgx.CollectableRow) (o dlq.Operation, err error) {
	err = row.Scan((*[16]byte)(&o.ID), instant{&o.At}, &o.Subject, &o.Method, &o.Address, (*string)(&o.Action), &o.Topic,
		(*string)(&o.Target), (*zeronull.UUID)(&o.TargetID), &o.Reason, &o.RequestID, &o.WorkflowID, (*string)(&o.Outcome), (*[]byte)(&o.Detail))
	return o, err
}

const purgeAuditSQL = `SELECT dlq.purge_audit(now() - @microseconds::bigint * interval '1 microsecond', @limit::int)`

// PurgeOperations deletes at most limit operations that are older than olderThan, and older
// than dlq.AuditFloor, and returns how many.
func (s *Store) PurgeOperations(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return s.moveBatch(ctx, dlq.ArchiveRun{}, "purge the audit", purgeAuditSQL, olderThan, limit)
}
