package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// messageColumns are what scanMessage reads, of a table named m.
const messageColumns = `m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class,
	m.retry_count, m.max_retries, m.payload, m.status, m.created_at, m.updated_at, m.last_retry_at,
	m.workflow_id, m.run_id, m.previous_id`

// messageTargets are where a row of messageColumns goes. done completes the
// message after the scan.
func messageTargets(m *dlq.Message) (targets []any, done func()) {
	var previous *[16]byte
	targets = []any{(*[16]byte)(&m.ID), &m.Seq, &m.OriginalTopic, &m.DLQTopic, &m.ErrorMessage, &m.ErrorClass,
		&m.RetryCount, &m.MaxRetries, (*[]byte)(&m.Payload), (*string)(&m.Status), &m.CreatedAt, &m.UpdatedAt, &m.LastRetryAt,
		&m.Owner.WorkflowID, &m.Owner.RunID, &previous}
	return targets, func() {
		m.CreatedAt, m.UpdatedAt, m.LastRetryAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC(), utc(m.LastRetryAt)
		if previous != nil {
			m.PreviousID = *previous
		}
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func scanMessage(row pgx.CollectableRow) (dlq.Message, error) {
	var m dlq.Message
	targets, done := messageTargets(&m)
	if err := row.Scan(targets...); err != nil {
		return dlq.Message{}, err
	}
	done()
	return m, nil
}

// one returns the message of a statement that gives messageColumns; found is
// false when it gives no row.
func (p *Postgres) one(ctx context.Context, sql string, args ...any) (m dlq.Message, found bool, err error) {
	err = again(func() error {
		rows, err := p.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		m, err = pgx.CollectExactlyOneRow(rows, scanMessage)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.Message{}, false, nil
	}
	return m, err == nil, err
}

// Message returns the state of a message, or dlq.ErrNotFound.
func (p *Postgres) Message(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	m, found, err := p.one(ctx, `SELECT `+messageColumns+` FROM dlq.dlq_messages m WHERE m.id = $1`, uuid(id))
	if err != nil {
		return dlq.Message{}, failed("read message", err)
	}
	if !found {
		return dlq.Message{}, notFound(id)
	}
	return m, nil
}

const detailSQL = `
SELECT ` + messageColumns + `,
	b.topic_id, b.partition, b.record_offset, b.key, ` + valueColumn + `, b.headers, b.record_timestamp,
	b.origin_partition, b.origin_offset, COALESCE(b.origin_family, ''), COALESCE(b.stack_trace, '')
FROM dlq.dlq_messages m
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.id = $1`

const attemptsSQL = `
SELECT number, workflow_id, run_id, started_at, ended_at, result, category, error
FROM dlq.dlq_retry_attempts
WHERE message_id = $1
ORDER BY id`

// Detail returns everything known of a message, or dlq.ErrNotFound.
func (p *Postgres) Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	var d dlq.Detail
	batch := &pgx.Batch{} // one round trip for both
	batch.Queue(detailSQL, uuid(id)).Query(func(rows pgx.Rows) (err error) {
		d, err = pgx.CollectExactlyOneRow(rows, scanDetail)
		return err
	})
	var attempts []dlq.Attempt
	batch.Queue(attemptsSQL, uuid(id)).Query(func(rows pgx.Rows) (err error) {
		attempts, err = pgx.CollectRows(rows, scanAttempt)
		return err
	})
	err := p.pool.SendBatch(ctx, batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.Detail{}, notFound(id)
	}
	if err != nil {
		return dlq.Detail{}, failed("read message", err)
	}
	d.Attempts = attempts
	return d, nil
}

func scanDetail(row pgx.CollectableRow) (dlq.Detail, error) {
	var d dlq.Detail
	var topic *[16]byte
	var partition *int32
	var offset *int64
	var headers []byte
	var timestamp *time.Time
	targets, done := messageTargets(&d.Message)
	err := row.Scan(append(targets, &topic, &partition, &offset, &d.Record.Key, &d.Record.Value, &headers, &timestamp,
		&d.Origin.Partition, &d.Origin.Offset, &d.Origin.Family, &d.StackTrace)...)
	if err != nil {
		return dlq.Detail{}, err
	}
	done()
	if topic != nil && partition != nil && offset != nil {
		d.Source = dlq.Source{TopicID: *topic, Partition: *partition, Offset: *offset}
	}
	if timestamp != nil {
		d.Record.Timestamp = timestamp.UTC()
	}
	d.Origin.Topic = d.OriginalTopic
	d.Record.Headers, err = decodeHeaders(headers)
	return d, err
}

func scanAttempt(row pgx.CollectableRow) (a dlq.Attempt, err error) {
	err = row.Scan(&a.Number, &a.Owner.WorkflowID, &a.Owner.RunID, &a.StartedAt, &a.EndedAt,
		(*string)(&a.Result), (*string)(&a.Category), &a.Error)
	a.StartedAt, a.EndedAt = a.StartedAt.UTC(), a.EndedAt.UTC()
	return a, err
}

// Delete removes a message with its bytes and attempts. It returns
// dlq.ErrNotFound, or a *dlq.OwnedError while a workflow retries it.
func (p *Postgres) Delete(ctx context.Context, id dlq.ID) error {
	// A message that is RETRYING at the first try may be free at the second.
	for {
		var deleted int
		err := again(func() error {
			return p.pool.QueryRow(ctx, `
				WITH gone AS (
					DELETE FROM dlq.dlq_messages WHERE id = $1 AND status <> 'RETRYING' RETURNING id
				), bodies AS (
					DELETE FROM dlq.dlq_message_bodies b USING gone WHERE b.message_id = gone.id
				), attempts AS (
					DELETE FROM dlq.dlq_retry_attempts a USING gone WHERE a.message_id = gone.id
				)
				SELECT count(*) FROM gone`, uuid(id)).Scan(&deleted)
		})
		if err != nil {
			return failed("delete message", err)
		}
		if deleted > 0 {
			return nil
		}
		m, err := p.Message(ctx, id)
		if err != nil {
			return err
		}
		if m.Status == dlq.StatusRetrying {
			return &dlq.OwnedError{ID: id, Owner: m.Owner}
		}
	}
}

// MarkDead makes a PENDING or RETRYING message DEAD; one that is DEAD stays as
// it is. It returns the message, dlq.ErrNotFound, or a *dlq.NotRetryableError
// when the message is RESOLVED.
func (p *Postgres) MarkDead(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	for {
		m, found, err := p.one(ctx, `
			UPDATE dlq.dlq_messages m SET status = 'DEAD', updated_at = now()
			WHERE m.id = $1 AND m.status IN ('PENDING', 'RETRYING')
			RETURNING `+messageColumns, uuid(id))
		if err != nil {
			return dlq.Message{}, failed("mark message dead", err)
		}
		if found {
			return m, nil
		}
		if m, err = p.Message(ctx, id); err != nil {
			return dlq.Message{}, err
		}
		switch m.Status {
		case dlq.StatusDead:
			return m, nil
		case dlq.StatusResolved:
			return m, m.CheckRetryable()
		case dlq.StatusPending, dlq.StatusRetrying: // it changed in between: once more
		}
	}
}

// uuid is how pgx takes an ID.
func uuid(id dlq.ID) [16]byte { return id }
