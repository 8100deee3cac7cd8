package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// claimSQL claims a message, or finds it claimed by the same owner.
const claimSQL = `
WITH claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token
	WHERE m.id = @id AND m.status = 'PENDING' AND m.retry_count < m.max_retries
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
	RETURNING m.*
), owned AS (
	SELECT * FROM claimed
	UNION ALL
	SELECT m.* FROM dlq.dlq_messages m
	WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token
)
SELECT m.original_topic, m.retry_count, m.max_retries,
	CASE WHEN m.size > 0 THEN m.size
		ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id), octet_length(m.payload::text), 0) END
FROM owned m`

const claimedSQL = `
SELECT m.original_topic, m.retry_count, m.max_retries,
	CASE WHEN m.size > 0 THEN m.size
		ELSE COALESCE((SELECT octet_length(b.value) FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id), octet_length(m.payload::text), 0) END
FROM dlq.dlq_messages m
WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token`

// envelopeSQL reads what is to be sent. A row that another program has put in,
// with the documented columns only, has no body: its payload is all there is.
const envelopeSQL = `
SELECT m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp
FROM dlq.dlq_messages m
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token`

func scanEnvelope(row pgx.CollectableRow) (dlq.Envelope, error) {
	var e dlq.Envelope
	var headers []byte
	var timestamp *time.Time
	err := row.Scan((*[16]byte)(&e.ID), &e.Seq, &e.OriginalTopic, &e.RetryCount,
		&e.Record.Key, &e.Record.Value, &headers, optionalInstant{&timestamp})
	if err != nil {
		return dlq.Envelope{}, err
	}
	if timestamp != nil {
		e.Record.Timestamp = *timestamp
	}
	e.Record.Headers, err = decodeHeaders(headers)
	return e, err
}

// errNoOwner would make a message RETRYING that nobody could ever finalize.
var errNoOwner = errors.New("an owner needs a workflow id and a token")

// Claim gives a PENDING message to the owner and counts the retry. An owner who
// claims again gets the same again and is not counted twice. It returns
// dlq.ErrNotFound, a *dlq.OwnedError when another workflow has the message, or
// a *dlq.NotRetryableError.
func (s *Store) Claim(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error) {
	if owner.WorkflowID == "" || owner.Token == "" {
		return dlq.Claim{}, fmt.Errorf("store: claim message %s: %w", id, errNoOwner)
	}
	args := ownedArgs(id, owner)
	args["dead_letter_topics"] = s.topics.Expression()
	// The state may change between a failed claim and the look at why it failed.
	for range claimLooks {
		c, found, err := one(ctx, s, "claim message", pgx.RowToStructByPos[dlq.Claim], claimSQL, args)
		if err != nil || found {
			return c, err
		}
		m, err := s.Message(ctx, id)
		switch {
		case err != nil:
			return dlq.Claim{}, err
		case m.Status == dlq.StatusRetrying && m.Owner == owner:
			continue
		case m.Status == dlq.StatusRetrying:
			return dlq.Claim{}, &dlq.OwnedError{ID: id, Owner: m.Owner}
		}
		if err := m.CheckRetryable(); err != nil {
			return dlq.Claim{}, err
		}
		if err := s.topics.CheckOrigin(&m); err != nil {
			return dlq.Claim{}, err
		}
	}
	return dlq.Claim{}, fmt.Errorf("store: claim message %s: %w", id, errUnsettled)
}

// Claimed returns the claim that the owner has. It claims nothing anew: who has lost a
// message, to an operator or to the sweeper, gets the errors of Claim.
func (s *Store) Claimed(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error) {
	c, found, err := one(ctx, s, "find claim", pgx.RowToStructByPos[dlq.Claim], claimedSQL, ownedArgs(id, owner))
	if err == nil && !found {
		err = s.lost(ctx, id, owner)
	}
	return c, err
}

// Envelope reads what the owner of a claim has to send. The errors are those of Claimed.
func (s *Store) Envelope(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error) {
	e, found, err := one(ctx, s, "read claimed message", scanEnvelope, envelopeSQL, ownedArgs(id, owner))
	if err == nil && !found {
		err = s.lost(ctx, id, owner)
	}
	return e, err
}

func ownedArgs(id dlq.ID, owner dlq.Owner) pgx.NamedArgs {
	return pgx.NamedArgs{"id": uuid(id), "workflow_id": owner.WorkflowID, "token": owner.Token}
}

// lost says why a message is not the owner's.
func (s *Store) lost(ctx context.Context, id dlq.ID, owner dlq.Owner) error {
	m, err := s.Message(ctx, id)
	if err != nil {
		return err
	}
	return m.Lost(owner)
}

// claimLooks is how often a claim looks at a message that changes all the time.
const claimLooks = 20

var errUnsettled = errors.New("its row says each time that it can be claimed, and then it cannot")

// ending is a Result as the two cases that Result.After can come to, so that a
// statement can end many retries at once by the domain's own rule.
type ending struct {
	left  string // the status when retries are left
	none  string // the status when none is left
	delta int    // the change of the retry count
}

func endingOf(r dlq.Result) ending {
	left, count := r.After(1, 2)
	none, _ := r.After(1, 1)
	return ending{left: string(left), none: string(none), delta: count - 1}
}

// finalizeSQL also takes back what the claim wrote, where the result says that there
// was no retry.
const finalizeSQL = `
WITH m AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN @left_status ELSE @none_status END,
		retry_count = greatest(m.retry_count + @delta::int, 0), updated_at = now(),
		workflow_id = CASE WHEN @result::text = 'returned' THEN '' ELSE m.workflow_id END,
		owner_token = CASE WHEN @result::text = 'returned' THEN '' ELSE m.owner_token END,
		last_retry_at = CASE WHEN @result::text IN ('returned', 'skipped')
			THEN (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
			ELSE m.last_retry_at END
	WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token
	RETURNING m.*
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
	SELECT m.id, m.retry_count, m.workflow_id, m.owner_token, COALESCE(m.last_retry_at, m.updated_at), @result::text, @category, @error
	FROM m
	WHERE @is_attempt::bool
)
SELECT m.id, m.seq, m.original_topic, m.dlq_topic, m.error_message, m.error_class, m.retry_count, m.max_retries, m.payload,
	m.status, m.created_at, m.updated_at, m.last_retry_at, m.workflow_id, m.owner_token, m.previous_id
FROM m`

// lockMessageSQL waits for a claim that is being committed. The statement after it sees
// what that has written.
const lockMessageSQL = `SELECT FROM dlq.dlq_messages WHERE id = @id FOR UPDATE`

// Finalize ends the retry of a message that the owner has claimed, and returns the message
// and whether it did that. When the message is not the owner's, because it was finalized
// before or an operator marked it dead, nothing changes and it is returned as it is. It
// returns dlq.ErrNotFound when it was deleted or archived.
func (s *Store) Finalize(ctx context.Context, owner dlq.Owner, o dlq.Outcome) (m dlq.Message, ended bool, err error) {
	end := endingOf(o.Result)
	args := ownedArgs(o.ID, owner)
	maps.Copy(args, pgx.NamedArgs{
		"left_status": end.left, "none_status": end.none, "delta": end.delta,
		"result": o.Result, "category": o.Category, "error": dlq.Text(o.Error), "is_attempt": o.Result.IsAttempt(),
	})
	var found []dlq.Message
	err = s.batch(ctx, "finalize message", func(batch *pgx.Batch) {
		if o.Result == dlq.ResultReturned { // perhaps of a claim whose answer was lost
			batch.Queue(lockMessageSQL, args)
		}
		queue(batch, &found, scanMessage, finalizeSQL, args)
	})
	if err == nil && len(found) > 0 {
		return found[0], true, nil
	}
	if err == nil {
		m, err = s.Message(ctx, o.ID)
	}
	return m, false, err
}
