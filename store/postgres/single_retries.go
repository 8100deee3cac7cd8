package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// singleRetriesSQL reads a row for each of these operations, with facts about the retry that the operation asked for. The
// facts are the run, which the claim or a joining request has noted; the other audit rows of the same request; the message;
// and the last attempt of the run. The other rows of a request follow within an hour, since a request has a timeout.
// OFFSET 0 makes the server read only rows of the same message.
const singleRetriesSQL = `
SELECT COALESCE(r.run_id, f.joined_run, ''), r.run_id IS NULL AND f.joined_run IS NOT NULL,
	r.run_id IS NOT NULL OR EXISTS (
		SELECT
		FROM dlq.dlq_audit other
		WHERE other.target_id = o.target_id AND f.joined_run IS NOT NULL
			AND EXISTS (SELECT FROM dlq.dlq_audit_runs n WHERE n.operation_id = other.id AND n.run_id = f.joined_run OFFSET 0)),
	COALESCE(left(f.error, 2000), ''), COALESCE(f.refused, false),
	COALESCE(m.status, ''), COALESCE(m.resolution, ''), COALESCE(m.retry_count, 0), COALESCE(m.max_retries, 0),
	COALESCE(m.owner_token, ''), m.updated_at,
	COALESCE(a.result, ''), COALESCE(left(a.error, 2000), ''), a.ended_at
FROM unnest(@operations::uuid[]) WITH ORDINALITY AS wanted (id, place)
LEFT JOIN dlq.dlq_audit o ON o.id = wanted.id
LEFT JOIN LATERAL (
	SELECT run_id FROM dlq.dlq_audit_runs WHERE operation_id = o.id LIMIT 1
) AS r ON true
CROSS JOIN LATERAL (
	SELECT max(f.detail->>'joined_run') AS joined_run, bool_or(f.outcome = 'refused') AS refused,
		max(f.detail->>'message') FILTER (WHERE f.outcome <> 'accepted') AS error
	FROM (
		SELECT *
		FROM dlq.dlq_audit
		WHERE r.run_id IS NULL AND target_id = o.target_id AND at >= o.at AND at < o.at + interval '1 hour'
		OFFSET 0
	) AS f
	WHERE f.action = o.action AND f.request_id = o.request_id AND f.subject = o.subject AND f.id <> o.id
) AS f
LEFT JOIN LATERAL (SELECT * FROM ` + everyMessage + ` AS m WHERE m.id = o.target_id LIMIT 1) AS m ON true
LEFT JOIN LATERAL (
	SELECT result, error, ended_at
	FROM dlq.dlq_retry_attempts
	WHERE message_id = o.target_id AND owner_token = COALESCE(r.run_id, f.joined_run)
	ORDER BY id DESC
	LIMIT 1
) AS a ON true
ORDER BY wanted.place`

// SingleRetries returns a page of the single retries that the operations of a query asked for, the newest first.
func (s *Store) SingleRetries(ctx context.Context, q dlq.OperationQuery) (dlq.PageOf[dlq.SingleRetry], error) {
	q.SingleRetries = true
	operations, err := s.Operations(ctx, q)
	if err != nil || len(operations.Entries) == 0 {
		return dlq.PageOf[dlq.SingleRetry]{}, err
	}
	ids := column(operations.Entries, func(o *dlq.Operation) dlq.ID { return o.ID })
	retries, err := queryAll(ctx, s, "read single retries", scanSingleRetry, singleRetriesSQL, pgx.NamedArgs{"operations": uuids(ids)}, byIndexSQL)
	for i := range retries {
		retries[i].Operation = operations.Entries[i]
	}
	return dlq.PageOf[dlq.SingleRetry]{Entries: retries, Next: operations.Next}, err
}

func scanSingleRetry(row pgx.CollectableRow) (r dlq.SingleRetry, err error) {
	m, a := &r.Message, &r.Attempt
	err = row.Scan(&r.Run, &r.Joined, &r.Claimed, &r.Refusal, &r.IsRefused,
		(*string)(&m.Status), (*string)(&m.Resolution), &m.RetryCount, &m.MaxRetries, &m.Owner.Token, instant{&m.UpdatedAt},
		(*string)(&a.Result), &a.Error, instant{&a.EndedAt})
	return r, err
}
