package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// replaceSQL ends a message that may be retried, and notes its copy, which is inserted next. ON CONFLICT
// is for a message that was edited before, and that a statement by hand has made PENDING again.
const replaceSQL = `
WITH changed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RESOLVED', resolution = 'replaced', target_partition = NULL, target_offset = NULL, updated_at = now()
	WHERE m.id = @id AND m.status = 'PENDING' AND m.retry_count < m.max_retries
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
	RETURNING m.id, m.dlq_topic AS topic, m.retry_count, m.max_retries, m.group_id
), edit AS (
	INSERT INTO dlq.dlq_edits AS e (original_id, copy_id)
	SELECT changed.id, @copy FROM changed
	ON CONFLICT (original_id) DO UPDATE SET copy_id = EXCLUDED.copy_id, edited_at = now()
) /* audit */
SELECT topic, retry_count, max_retries, group_id FROM changed`

const copyOfSQL = `SELECT copy_id FROM dlq.dlq_edits WHERE original_id = @id`

// Replace ends a PENDING message as replaced and stores its edited copy, in a transaction, so only the copy can
// be sent. The copy has the retries and the group of the message. The error is dlq.ErrNotFound, a
// *dlq.OwnedError while a workflow retries the message, or a *dlq.NotRetryableError, which names an earlier
// edited copy.
func (s *Store) Replace(ctx context.Context, asked *dlq.Operation, id dlq.ID, edited dlq.Arrival) (dlq.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for range maxClaimTries {
		replaced, err := s.replace(ctx, asked, id, edited)
		if err != nil {
			return dlq.Message{}, wrap("replace message", err)
		}
		if replaced {
			return s.Message(ctx, edited.ID)
		}
		m, err := s.Message(ctx, id)
		if err != nil {
			return dlq.Message{}, err
		}
		if err := s.replaceError(ctx, &m); err != nil {
			return dlq.Message{}, err
		}
	}
	return dlq.Message{}, fmt.Errorf("store: replace message %s: %w", id, errUnsettled)
}

// replaceError returns why a message cannot be replaced; nil if the change of another
// client has made it replaceable meanwhile.
func (s *Store) replaceError(ctx context.Context, m *dlq.Message) error {
	if m.Ended() == dlq.ResolutionReplaced {
		copyID, found, err := s.editedCopy(ctx, m.ID)
		if err != nil {
			return err
		}
		if found {
			return dlq.ReplacedError(m, copyID)
		}
	}
	return s.retryError(m)
}

// editedCopy returns the id of the edited copy of a message.
func (s *Store) editedCopy(ctx context.Context, id dlq.ID) (editedCopy dlq.ID, found bool, err error) {
	return queryOne(ctx, s, "find edited copy", pgx.RowTo[dlq.ID], copyOfSQL, pgx.NamedArgs{"id": uuid(id)})
}

// replace runs the transaction of Replace, and reports whether the message was replaced.
func (s *Store) replace(ctx context.Context, asked *dlq.Operation, id dlq.ID, edited dlq.Arrival) (replaced bool, err error) {
	args := pgx.NamedArgs{"id": uuid(id), "copy": uuid(edited.ID), "dead_letter_topics": s.topics.NoTargets()}
	sql, changed := s.audited(asked, dlq.TargetMessage, replaceSQL, args)
	var topic string
	err = s.inTransaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, beforeCopySQL, pgx.NamedArgs{"lock": ingestLock}); err != nil {
			return err
		}
		row := newIngest([]dlq.Arrival{edited}, nil, false).rows[0]
		err := tx.QueryRow(ctx, sql, args).Scan(&topic, &row.RetryCount, &row.MaxRetries, (*zeronull.UUID)(&row.group))
		if replaced = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return copyMessages(ctx, tx, []*arrivalRow{row}, []*arrivalRow{row})
	})
	if err == nil && replaced {
		changed(id, topic)
	}
	return replaced && err == nil, err
}
