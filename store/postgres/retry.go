package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// claimSQL claims a message, or finds an earlier claim of the same owner. It notes the operation that asked for the retry.
const claimSQL = `
WITH claimed AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RETRYING', retry_count = m.retry_count + 1, last_retry_at = now(), updated_at = now(),
		workflow_id = @workflow_id, owner_token = @token, in_page = false
	WHERE m.id = @id AND m.status = 'PENDING' AND m.retry_count < m.max_retries
		AND m.original_topic <> '' AND m.original_topic <> m.dlq_topic AND m.original_topic !~ @dead_letter_topics
	RETURNING m.*
), noted AS (
	INSERT INTO dlq.dlq_audit_runs (operation_id, run_id)
	SELECT o.id, @token::text
	FROM claimed
	JOIN dlq.dlq_audit o ON o.id = @operation_id
	ON CONFLICT DO NOTHING
), owned AS (
	SELECT * FROM claimed
	UNION ALL
	SELECT m.* FROM dlq.dlq_messages m
	WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token
)
SELECT m.original_topic, m.retry_count, m.max_retries,` + messageSize + `
FROM owned m`

const claimedSQL = `
SELECT m.original_topic, m.retry_count, m.max_retries,` + messageSize + `
FROM dlq.dlq_messages m
WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token`

// envelopeSQL reads a message for the publisher. A row that another program inserted with
// only the documented columns has no body. Its payload is sent instead.
const envelopeSQL = `
SELECT m.id, m.seq, m.original_topic, m.retry_count,
	b.key, CASE WHEN b.message_id IS NULL THEN convert_to(m.payload::text, 'UTF8') ELSE b.value END, b.headers, b.record_timestamp,
	COALESCE(b.trace_id, '')
FROM dlq.dlq_messages m
LEFT JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
WHERE m.id = @id AND m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token`

func scanEnvelope(row pgx.CollectableRow) (e dlq.Envelope, err error) {
	var headers []byte
	err = row.Scan((*[16]byte)(&e.ID), &e.Seq, &e.OriginalTopic, &e.RetryCount,
		&e.Record.Key, &e.Record.Value, &headers, instant{&e.Record.Timestamp}, &e.TraceID)
	e.Record.Headers, e.Unreadable = readHeaders(e.ID, headers)
	return e, err
}

// errNoOwner refuses a claim that no owner could ever finalize.
var errNoOwner = errors.New("an owner needs a workflow id and a token")

// Claim gives a PENDING message to the owner and counts the retry. A second claim of the same owner is not
// counted. Claim notes the operation, unless it is zero, and OperationsOf finds it by the owner's token. The error is
// dlq.ErrNotFound, a *dlq.OwnedError when another workflow has the message, or a *dlq.NotRetryableError.
func (s *Store) Claim(ctx context.Context, id dlq.ID, owner dlq.Owner, operation dlq.ID) (dlq.Claim, error) {
	if owner.WorkflowID == "" || owner.Token == "" {
		return dlq.Claim{}, fmt.Errorf("store: claim message %s: %w", id, errNoOwner)
	}
	args := ownedArgs(id, owner)
	args["dead_letter_topics"], args["operation_id"] = s.topics.NoTargets(), uuid(operation)
	// The status may change between a failed claim and the query for the cause.
	for range maxClaimTries {
		c, found, err := queryOne(ctx, s, "claim message", pgx.RowToStructByPos[dlq.Claim], claimSQL, args)
		if err != nil || found {
			return c, err
		}
		m, err := s.Message(ctx, id)
		if err == nil && (m.Status != dlq.StatusRetrying || m.Owner != owner) {
			err = s.retryError(&m)
		}
		if err != nil {
			return dlq.Claim{}, err
		}
	}
	return dlq.Claim{}, fmt.Errorf("store: claim message %s: %w", id, errUnsettled)
}

// retryError returns why nobody can claim a message now; nil if the message can be claimed.
func (s *Store) retryError(m *dlq.Message) error {
	if m.Status == dlq.StatusRetrying {
		return &dlq.OwnedError{ID: m.ID, Owner: m.Owner}
	}
	if err := m.CheckRetryable(); err != nil {
		return err
	}
	return s.topics.CheckOrigin(m)
}

// Claimed returns the claim that the owner has, and makes no new claim. An owner that has
// lost the message, to an operator or to the sweeper, gets the errors of Claim.
func (s *Store) Claimed(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error) {
	return queryOwned(ctx, s, "find claim", pgx.RowToStructByPos[dlq.Claim], claimedSQL, id, owner)
}

// Envelope reads the part of a claimed message that its owner has to send. It fails as Claimed does.
func (s *Store) Envelope(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error) {
	return queryOwned(ctx, s, "read claimed message", scanEnvelope, envelopeSQL, id, owner)
}

func ownedArgs(id dlq.ID, owner dlq.Owner) pgx.NamedArgs {
	return pgx.NamedArgs{"id": uuid(id), "workflow_id": owner.WorkflowID, "token": owner.Token}
}

// queryOwned returns the row of a message that the owner has claimed, or why the owner has no claim.
func queryOwned[T any](ctx context.Context, s *Store, operation string, scan pgx.RowToFunc[T], sql string, id dlq.ID, owner dlq.Owner) (T, error) {
	row, found, err := queryOne(ctx, s, operation, scan, sql, ownedArgs(id, owner))
	if err != nil || found {
		return row, err
	}
	m, err := s.Message(ctx, id)
	if err == nil {
		err = m.ClaimError(owner)
	}
	return row, err
}

// maxClaimTries limits the tries to claim a message that other clients keep changing.
const maxClaimTries = 20

var errUnsettled = errors.New("its status changes during every try")

// finalStatuses are the two statuses that Result.After can return, and the change of the retry
// count. With these values, one statement finalizes many messages by the rule of package dlq.
type finalStatuses struct {
	retriesLeft string // the status while retries are left
	noneLeft    string // the status when no retries are left
	countDelta  int    // the change of the retry count
	// The resolutions that belong to the two statuses; nil when the message has not ended.
	retriesLeftResolution *string
	noneLeftResolution    *string
}

func finalStatusesOf(r dlq.Result) finalStatuses {
	left, count := r.After(1, 2)
	none, _ := r.After(1, 1)
	resolution := func(status dlq.Status) *string {
		why := dlq.ResolutionOf(r, status)
		return nilIf(string(why), why == "")
	}
	return finalStatuses{retriesLeft: string(left), noneLeft: string(none), countDelta: count - 1,
		retriesLeftResolution: resolution(left), noneLeftResolution: resolution(none)}
}

// finalizeSQL ends retries that have the same outcome. If a retry is not counted, finalizeSQL undoes its claim. A message that
// an operator has marked dead meanwhile becomes RESOLVED if it was delivered. ON CONFLICT is for a revived message that is
// still in the outbox.
const finalizeSQL = `
WITH m AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN @left_status ELSE @none_status END,
		resolution = CASE WHEN m.retry_count < m.max_retries THEN @left_resolution ELSE @none_resolution END,
		target_partition = @target_partition, target_offset = @target_offset,
		target_id = (SELECT t.id FROM dlq.dlq_targets t
			WHERE t.topic = @target_topic::text AND t.topic_id IS NOT DISTINCT FROM @target_topic_id::uuid AND t.dlq_topic = m.dlq_topic),
		retry_count = greatest(m.retry_count + @delta::int, 0), updated_at = now(),
		workflow_id = CASE WHEN @result::text = 'returned' THEN '' ELSE m.workflow_id END,
		owner_token = CASE WHEN @result::text = 'returned' THEN '' ELSE m.owner_token END,
		last_retry_at = CASE WHEN @result::text IN ('returned', 'skipped')
			THEN (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
			ELSE m.last_retry_at END
	WHERE m.id = ANY (@ids::uuid[]) AND m.workflow_id = @workflow_id AND m.owner_token = @token
		AND (m.status = 'RETRYING' OR m.status = 'DEAD' AND m.resolution = 'given_up' AND @result::text = 'delivered')
	RETURNING m.*
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
	SELECT m.id, m.retry_count, @workflow_id, @token, COALESCE(m.last_retry_at, m.updated_at), @result::text, @category, @error
	FROM m
	WHERE @is_attempt::bool
), exhausted AS (
	INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
	SELECT m.dlq_topic, m.seq, m.id, m.retry_count, m.max_retries, @error
	FROM m
	WHERE @outbox::bool AND m.resolution = 'exhausted' AND m.dlq_topic <> '' AND NOT dlq.was_delivered(m.id)
	ON CONFLICT (dlq_topic, seq, message_id) DO UPDATE
	SET ended_at = now(), retry_count = EXCLUDED.retry_count, max_retries = EXCLUDED.max_retries, error = EXCLUDED.error
)
SELECT id FROM m`

// Finalize ends the retry of a message that the owner has claimed, and returns the message. ended reports whether
// this call has recorded the outcome, which happens once. If the owner has lost its claim, only a delivery is
// recorded. The message then becomes RESOLVED at once, or when the retry of its present owner ends. The error is
// dlq.ErrNotFound when the message was deleted or archived.
func (s *Store) Finalize(ctx context.Context, owner dlq.Owner, o dlq.Outcome) (m dlq.Message, ended bool, err error) {
	args := s.finalizeArgs(owner, o)
	var finalized [][16]byte
	var found []dlq.Message
	err = s.batch(ctx, "finalize message", func(batch *pgx.Batch) {
		if o.Result == dlq.ResultReleased { // the claim may still be committing
			batch.Queue(lockLateSQL, args)
		}
		batch.Queue(noteTargetsSQL, args)
		queueQuery(batch, &finalized, pgx.RowTo[[16]byte], finalizeSQL, args)
		queueQuery(batch, &found, scanMessage, messageSQL, args)
	})
	if err == nil && len(finalized) > 0 {
		return found[0], true, nil
	}
	kept := 0
	if err == nil {
		kept, _, err = s.keepLate(ctx, &dlq.Lane{Owner: owner}, []dlq.PageOutcome{{Outcome: o}})
	}
	if err == nil {
		m, err = s.Message(ctx, o.ID)
	}
	return m, kept > 0, err
}

// finalizeArgs are the parameters of finalizeSQL for the message of an outcome.
func (s *Store) finalizeArgs(owner dlq.Owner, o dlq.Outcome) pgx.NamedArgs {
	end := finalStatusesOf(o.Result)
	partition, offset := o.Acknowledgement.Columns()
	args := ownedArgs(o.ID, owner)
	maps.Copy(args, targetArgs(o.ID, o.Acknowledgement))
	maps.Copy(args, pgx.NamedArgs{
		"left_status": end.retriesLeft, "none_status": end.noneLeft, "delta": end.countDelta,
		"left_resolution": end.retriesLeftResolution, "none_resolution": end.noneLeftResolution,
		"target_partition": partition, "target_offset": offset,
		"result": o.Result, "category": o.Category, "error": dlq.StorableText(o.Error), "is_attempt": o.Result.IsAttempt(),
		"outbox": s.Outbox,
	})
	return args
}
