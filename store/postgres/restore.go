package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// restoredID is the SQL of dlq.RestoredID for the message m.
const restoredID = `(left(m.id::text, 14) || regexp_replace(encode(sha256(convert_to('restored ' || m.id::text, 'UTF8')), 'hex'),
	'^.(...).(...)(.{12}).*$', '8\1-8\2-\3'))::uuid`

// restoreLocked is the part of a statement that copies the messages in locked from the archive. The copies have
// no source in Kafka, like edited copies. A repeated statement copies nothing. A copy that was edited and then
// deleted is not made again, since its edited copy may be sent.
const restoreLocked = `), copies AS MATERIALIZED (
	SELECT m.*, ` + restoredID + ` AS copy_id
	FROM locked
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages_archive WHERE id = locked.id LIMIT 1) AS m
	WHERE m.resolution IS DISTINCT FROM 'replaced'
		AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive c WHERE c.id = ` + restoredID + ` OFFSET 0)
		AND NOT EXISTS (SELECT FROM dlq.dlq_edits e WHERE e.original_id = ` + restoredID + ` OFFSET 0)
), restored AS (
	INSERT INTO dlq.dlq_messages AS m (id, dlq_topic, original_topic, error_message, error_class, retry_count, max_retries, payload,
		status, key_hash, previous_id, size, suspicious, group_id)
	SELECT c.copy_id, c.dlq_topic, c.original_topic, c.error_message, c.error_class, 0, greatest(c.max_retries, 1), c.payload,
		'PENDING', c.key_hash, c.id, c.size, c.suspicious, (SELECT g.id FROM dlq.dlq_groups g WHERE g.id = c.group_id)
	FROM copies c
	ORDER BY c.seq, c.id
	ON CONFLICT (id) DO NOTHING
	RETURNING m.*
), bodies AS (
	INSERT INTO dlq.dlq_message_bodies (message_id, key, key_hash, value, headers, record_timestamp,
		origin_partition, origin_offset, origin_family, stack_trace, origin_timestamp, consumer_group,
		cause_class, origin_attempts, trace_id, correlation_id, suspicion,
		schema_id, schema_format, schema_subject, schema_version, schema_message_type, decode_error)
	SELECT r.id, b.key, b.key_hash, b.value, b.headers, b.record_timestamp,
		b.origin_partition, b.origin_offset, b.origin_family, b.stack_trace, b.origin_timestamp, b.consumer_group,
		b.cause_class, b.origin_attempts, b.trace_id, b.correlation_id, b.suspicion,
		b.schema_id, b.schema_format, b.schema_subject, b.schema_version, b.schema_message_type, b.decode_error
	FROM restored r
	CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_message_bodies WHERE message_id = r.previous_id LIMIT 1) AS b
), changed AS (
	SELECT r.previous_id AS id, r.dlq_topic AS topic FROM restored r
`

const restoreSQL = `
WITH locked AS (
	SELECT @id::uuid AS id
` + restoreLocked + recordedTopic

// Restore makes a new PENDING message of an archived message, with its bytes, its error and its group, and
// returns the new message. The archived message stays. Restore returns dlq.ErrNotFound, or a *dlq.NotRetryableError
// when the message was restored before or replaced by an edited copy.
func (s *Store) Restore(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	args := pgx.NamedArgs{"id": uuid(id)}
	sql, changed := s.audited(asked, dlq.TargetMessage, restoreSQL, args)
	var topics []string
	var restored []dlq.Message
	err := s.batch(ctx, "restore message", func(batch *pgx.Batch) {
		batch.Queue(beforeCopySQL, pgx.NamedArgs{"lock": ingestLock})
		queueQuery(batch, &topics, pgx.RowTo[string], sql, args)
		queueQuery(batch, &restored, scanMessage, messageSQL, pgx.NamedArgs{"id": uuid(dlq.RestoredID(id))})
	})
	if err != nil {
		return dlq.Message{}, err
	}
	if len(topics) > 0 {
		changed(id, topics[0])
		return restored[0], nil
	}
	original, found, err := queryOne(ctx, s, "read archived message", scanMessage, archived(messageSQL), args)
	if err != nil {
		return dlq.Message{}, err
	}
	if !found {
		return dlq.Message{}, dlq.MessageNotFound(id)
	}
	edited := dlq.RestoredID(id)
	if original.Ended() == dlq.ResolutionReplaced {
		edited = id
	}
	editedCopy, found, err := s.editedCopy(ctx, edited)
	switch {
	case err != nil:
		return dlq.Message{}, err
	case found || edited == id:
		return dlq.Message{}, dlq.ReplacedError(&original, editedCopy)
	default:
		return dlq.Message{}, dlq.RestoredError(&original)
	}
}
