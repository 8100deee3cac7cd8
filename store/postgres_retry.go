package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// valueColumn is the record's value. A row that another program has put in,
// with the documented columns only, has no body; its payload is all there is.
const valueColumn = `CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END`

// envelopeColumns are what scanEnvelope reads, of a table or CTE m of messages
// and its bodies b.
const envelopeColumns = `m.id, m.seq, m.original_topic, m.retry_count, m.last_retry_at,
	b.key, ` + valueColumn + `, b.headers, b.record_timestamp`

func scanEnvelope(row pgx.CollectableRow) (dlq.Envelope, error) {
	var e dlq.Envelope
	var headers []byte
	var claimed, timestamp *time.Time
	err := row.Scan((*[16]byte)(&e.ID), &e.Seq, &e.OriginalTopic, &e.RetryCount, &claimed,
		&e.Record.Key, &e.Record.Value, &headers, &timestamp)
	if err != nil {
		return dlq.Envelope{}, err
	}
	if claimed != nil {
		e.ClaimedAt = claimed.UTC()
	}
	if timestamp != nil {
		e.Record.Timestamp = timestamp.UTC()
	}
	e.Record.Headers, err = decodeHeaders(headers)
	return e, err
}

const claimSQL = `
WITH m AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(), workflow_id = @workflow, run_id = @run
	WHERE m.id = @id AND m.status = 'PENDING' AND m.retry_count < m.max_retries AND ` + hasOrigin + `
	RETURNING m.*
)
SELECT ` + envelopeColumns + `
FROM m LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id`

const claimedSQL = `
SELECT ` + envelopeColumns + `
FROM dlq.dlq_messages m LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow AND m.run_id = @run`

// errNoOwner would make a message RETRYING that nobody could ever finalize.
var errNoOwner = errors.New("an owner needs a workflow id and a run id")

// Claim gives a PENDING message to the owner and counts the retry. An owner who
// claims again gets the same again and is not counted twice. It returns
// dlq.ErrNotFound, a *dlq.OwnedError when another workflow has the message, or
// a *dlq.NotRetryableError.
func (p *Postgres) Claim(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error) {
	if owner.WorkflowID == "" || owner.RunID == "" {
		return dlq.Envelope{}, fmt.Errorf("store: claim message %s: %w", id, errNoOwner)
	}
	args := pgx.NamedArgs{"id": uuid(id), "workflow": owner.WorkflowID, "run": owner.RunID, "expression": p.topics.Expression()}
	// The state may change between a failed claim and the look at why it failed.
	for {
		e, found, err := p.envelope(ctx, claimSQL, args)
		if err != nil {
			return dlq.Envelope{}, failed("claim message", err)
		}
		if found {
			return e, nil
		}
		m, err := p.Message(ctx, id)
		switch {
		case err != nil:
			return dlq.Envelope{}, err
		case m.Status == dlq.StatusRetrying && m.Owner == owner:
			e, found, err := p.envelope(ctx, claimedSQL, args)
			if err != nil {
				return dlq.Envelope{}, failed("claim message", err)
			}
			if found {
				return e, nil
			}
			continue
		case m.Status == dlq.StatusRetrying:
			return dlq.Envelope{}, &dlq.OwnedError{ID: id, Owner: m.Owner}
		}
		if err := m.CheckRetryable(); err != nil {
			return dlq.Envelope{}, err
		}
		if err := p.topics.CheckOrigin(&m); err != nil {
			return dlq.Envelope{}, err
		}
	}
}

func (p *Postgres) envelope(ctx context.Context, sql string, args pgx.NamedArgs) (e dlq.Envelope, found bool, err error) {
	err = again(func() error {
		rows, err := p.pool.Query(ctx, sql, args)
		if err != nil {
			return err
		}
		e, err = pgx.CollectExactlyOneRow(rows, scanEnvelope)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.Envelope{}, false, nil
	}
	return e, err == nil, err
}

// undo takes back what a claim wrote beside status and count, when the result
// says that there was no retry. A skipped message keeps its owner: that is how
// the bulk retry which skipped it knows not to take it again.
func undo(result string) string {
	return `workflow_id = CASE WHEN ` + result + ` = 'returned' THEN '' ELSE m.workflow_id END,
		run_id = CASE WHEN ` + result + ` = 'returned' THEN '' ELSE m.run_id END,
		last_retry_at = CASE WHEN ` + result + ` IN ('returned', 'skipped')
			THEN (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
			ELSE m.last_retry_at END`
}

var finalizeSQL = `
WITH m AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN @left ELSE @none END,
		retry_count = greatest(m.retry_count + @delta, 0), updated_at = now(), ` + undo("@result::text") + `
	WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow AND m.run_id = @run
	RETURNING m.*
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, run_id, started_at, result, category, error)
	SELECT m.id, m.retry_count, m.workflow_id, m.run_id, COALESCE(m.last_retry_at, m.updated_at), @result::text, @category, @error
	FROM m
	WHERE @attempt
)
SELECT ` + messageColumns + ` FROM m`

// Finalize ends the retry of a message that the owner has claimed and returns
// the message. When the message is not the owner's, because it was finalized
// before or an operator marked it dead, nothing changes and it is returned as
// it is. It returns dlq.ErrNotFound when it was deleted or archived.
func (p *Postgres) Finalize(ctx context.Context, owner dlq.Owner, o dlq.Outcome) (dlq.Message, error) {
	end := endingOf(o.Result)
	m, found, err := p.one(ctx, finalizeSQL, pgx.NamedArgs{
		"id": uuid(o.ID), "workflow": owner.WorkflowID, "run": owner.RunID,
		"left": end.left, "none": end.none, "delta": end.delta,
		"result": string(o.Result), "category": string(o.Category), "error": text(o.Error), "attempt": isAttempt(o.Result),
	})
	if err != nil {
		return dlq.Message{}, failed("finalize message", err)
	}
	if found {
		return m, nil
	}
	return p.Message(ctx, o.ID)
}

// Owners returns the workflows that own RETRYING messages which were claimed
// before the given time.
func (p *Postgres) Owners(ctx context.Context, claimedBefore time.Time) ([]dlq.Owner, error) {
	rows, err := p.pool.Query(ctx, `
		SELECT DISTINCT workflow_id, run_id
		FROM dlq.dlq_messages
		WHERE status = 'RETRYING' AND COALESCE(last_retry_at, updated_at) < $1
		ORDER BY workflow_id, run_id`, claimedBefore)
	if err != nil {
		return nil, failed("list owners", err)
	}
	owners, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o dlq.Owner, err error) {
		err = row.Scan(&o.WorkflowID, &o.RunID)
		return o, err
	})
	if err != nil {
		return nil, failed("list owners", err)
	}
	return owners, nil
}

var releaseSQL = `
WITH mine AS (
	SELECT id FROM dlq.dlq_messages
	WHERE status = 'RETRYING' AND workflow_id = @workflow AND run_id = @run
	ORDER BY id
	FOR UPDATE
), m AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN @left ELSE @none END,
		retry_count = greatest(m.retry_count + @delta, 0), ` + undo("@result::text") + `,
		updated_at = COALESCE((SELECT frozen_at FROM dlq.dlq_bulk_retries WHERE id = @bulk::uuid), now())
	FROM mine
	WHERE m.id = mine.id
	RETURNING m.*
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, run_id, started_at, result, category, error)
	SELECT m.id, m.retry_count, m.workflow_id, m.run_id, COALESCE(m.last_retry_at, m.updated_at), @result::text, @category, @error
	FROM m
	WHERE @attempt
), rewound AS (
	UPDATE dlq.dlq_bulk_retry_lanes l
	SET cursor = least(l.cursor, lowest.seq - 1)
	FROM (SELECT key_hash % @lanes::int AS lane, min(seq) AS seq FROM m GROUP BY 1) AS lowest
	WHERE l.bulk_id = @bulk::uuid AND l.lane = lowest.lane
)
SELECT count(*) FROM m`

// Release ends every retry of an owner who is gone, as failed for the given
// reason, and returns how many there were.
func (p *Postgres) Release(ctx context.Context, owner dlq.Owner, reason string) (released int64, err error) {
	err = again(func() error {
		released, err = release(ctx, p.pool, owner, dlq.ResultFailed, reason, nil)
		return err
	})
	if err != nil {
		return 0, failed("release messages", err)
	}
	return released, nil
}

// querier is a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// rewind is the bulk retry whose lanes go back to what is released, which is
// dated back to where it was untouched.
type rewind struct {
	bulk  dlq.ID
	lanes int
}

func release(ctx context.Context, on querier, owner dlq.Owner, result dlq.Result, reason string, back *rewind) (released int64, err error) {
	end := endingOf(result)
	args := pgx.NamedArgs{
		"workflow": owner.WorkflowID, "run": owner.RunID, "left": end.left, "none": end.none, "delta": end.delta,
		"result": string(result), "category": string(dlq.CategoryTransient), "error": text(reason), "attempt": isAttempt(result),
		"bulk": nil, "lanes": 1,
	}
	if back != nil {
		args["bulk"], args["lanes"] = uuid(back.bulk), back.lanes
	}
	err = on.QueryRow(ctx, releaseSQL, args).Scan(&released)
	return released, err
}
