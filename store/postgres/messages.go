package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// everyMessage are all messages, including archived messages. A statement that looks for a single message has LIMIT 1, so
// that it reads the archive only if the message is archived.
const everyMessage = `(SELECT * FROM dlq.dlq_messages UNION ALL SELECT * FROM dlq.dlq_messages_archive)`

const messageSQL = `
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries,
	CASE WHEN octet_length(m.payload::text) <= 65536 THEN m.payload END,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id,
	m.resolution, m.target_partition, m.target_offset, m.suspicious, m.group_id
FROM dlq.dlq_messages m
WHERE m.id = @id`

// messageTargets are the scan targets of a row of messageSQL.
func messageTargets(m *dlq.Message) []any {
	return []any{(*[16]byte)(&m.ID), &m.Seq, &m.OriginalTopic, &m.DLQTopic, &m.ErrorMessage, &m.ErrorClass,
		&m.RetryCount, &m.MaxRetries, (*[]byte)(&m.Payload), (*string)(&m.Status), instant{&m.CreatedAt}, instant{&m.UpdatedAt},
		optionalInstant{&m.LastRetryAt},
		&m.Owner.WorkflowID, &m.Owner.Token, (*zeronull.UUID)(&m.PreviousID),
		(*zeronull.Text)(&m.Resolution), &m.TargetPartition, &m.TargetOffset, &m.Suspicious, (*zeronull.UUID)(&m.GroupID)}
}

func scanMessage(row pgx.CollectableRow) (m dlq.Message, err error) {
	err = row.Scan(messageTargets(&m)...)
	return m, err
}

// scanListed scans a row of a list, which has the size of the payload too.
func scanListed(row pgx.CollectableRow) (m dlq.Message, err error) {
	var size int64
	err = row.Scan(append(messageTargets(&m), (*zeronull.Int8)(&size))...)
	if m.Payload == nil {
		m.OmittedPayload = int(size)
	}
	return m, err
}

// Message returns the state of a message without a large payload, or dlq.ErrNotFound.
func (s *Store) Message(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	return queryExisting(ctx, s, "read message", dlq.MessageNotFound(id), scanMessage, messageSQL, pgx.NamedArgs{"id": uuid(id)})
}

// deleteSQL and changeSQL change a message like a job of @kind.
const (
	deleteSQL = lockChanging + deleteLocked + recordedTopic
	changeSQL = lockChanging + updateLocked + recordedTopic

	lockChanging = `
WITH locked AS MATERIALIZED (
	SELECT m.id
	FROM dlq.dlq_messages m
	WHERE m.id = @id AND m.status = ANY (@statuses::text[]) AND NOT (` + mayBeSent + `)
	FOR UPDATE
`
	recordedTopic = `) /* audit */
SELECT topic FROM changed`
)

// Delete removes a message with its bytes and attempts. It returns
// dlq.ErrNotFound, or a *dlq.OwnedError while a workflow retries the message.
func (s *Store) Delete(ctx context.Context, asked *dlq.Operation, id dlq.ID) error {
	_, err := s.changeMessage(ctx, asked, "delete message", deleteSQL, id, dlq.KindDelete, func(m *dlq.Message) (bool, error) {
		return m.Status == dlq.StatusRetrying, &dlq.OwnedError{ID: id, Owner: m.Owner}
	})
	return err
}

// changeMessage runs a statement that changes a message and returns its topic. The result is the message after the
// change, or the zero message after a deletion. If the statement has changed nothing, stays reports whether the
// message cannot be changed, and the error to return. If stays returns false, another client has changed the message
// meanwhile, and the statement runs again.
func (s *Store) changeMessage(ctx context.Context, asked *dlq.Operation, operation, sql string, id dlq.ID, kind dlq.JobKind,
	stays func(*dlq.Message) (bool, error)) (dlq.Message, error) {
	args := pgx.NamedArgs{"id": uuid(id), "kind": kind, "statuses": kind.Statuses(), "revive_after": dlq.ReviveAfter}
	sql, changed := s.audited(asked, dlq.TargetMessage, sql, args)
	for {
		var topics []string
		var found []dlq.Message
		err := s.batch(ctx, operation, func(batch *pgx.Batch) {
			queueQuery(batch, &topics, pgx.RowTo[string], sql, args)
			queueQuery(batch, &found, scanMessage, messageSQL, args)
		})
		m := append(found, dlq.Message{})[0]
		switch {
		case err != nil:
			return m, err
		case len(topics) > 0:
			changed(id, topics[0])
			return m, nil
		case len(found) == 0:
			return m, dlq.MessageNotFound(id)
		}
		if done, err := stays(&m); done {
			return m, err
		}
	}
}

// MarkDead makes a PENDING or RETRYING message DEAD; a DEAD message does not change. A RETRYING
// message that an earlier retry has delivered becomes RESOLVED. MarkDead returns the message,
// dlq.ErrNotFound, or a *dlq.NotRetryableError when the message is RESOLVED.
func (s *Store) MarkDead(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	return s.changeMessage(ctx, asked, "mark message dead", changeSQL, id, dlq.KindDead, func(m *dlq.Message) (bool, error) {
		if m.Status == dlq.StatusResolved {
			return true, m.CheckRetryable()
		}
		return m.Status == dlq.StatusDead, nil
	})
}

// Revive makes a DEAD message PENDING, with no retries counted and at least one retry allowed. Revive
// returns the message, dlq.ErrNotFound, or a *dlq.NotRetryableError when the message is not DEAD.
func (s *Store) Revive(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	return s.changeMessage(ctx, asked, "revive message", changeSQL, id, dlq.KindRevive, func(m *dlq.Message) (bool, error) {
		return m.Status != dlq.StatusDead || m.WasMarkedWhileSent(), m.NotDead()
	})
}
