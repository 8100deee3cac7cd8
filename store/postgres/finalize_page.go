package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// finalizePageSQL ends claims. Its CTEs in their order, without the obvious ones:
//
//   - locked locks the messages. The retry count tells a claim from a later one of the same
//     message. A message that an operator marked dead meanwhile is locked only if it was
//     delivered. The outcomes are sorted by id, so that two calls for the same page do not
//     deadlock; an ORDER BY would make the planner read the whole index of ids. The CASE
//     keeps the planner from the index of RETRYING messages.
//   - job and lane lock these rows after the messages, because the locks of messages may
//     take long, and a pause of the job must not wait for them. Claims lock in the opposite
//     order, but skip locked messages. job is locked only when its limits may be refunded.
//   - ended is empty when a newer attempt has the lane.
//   - blocked are the keys of messages that failed.
//   - queue and waiting requeue messages. An existing queue that was not tried (wait_tries
//     is 0) keeps its state.
//   - reopened opens closed targets that acknowledged or rejected a message.
//   - refunded adds requeued messages to the step limit and the rate limit
//     again.
//
// The last UPDATE keeps the messages that the lane still owns in its page. If the statement
// waited for a lock, the page may be one that the lane has claimed meanwhile, whose messages
// are PENDING in its snapshot.
const finalizePageSQL = `
WITH outcome AS MATERIALIZED (
	SELECT o.*
	FROM unnest(@ids::uuid[], @counts::int[], @left_statuses::text[], @none_statuses::text[], @deltas::int[],
			@left_resolutions::text[], @none_resolutions::text[], @target_partitions::int[], @target_offsets::bigint[],
			@target_topics::text[], @target_topic_ids::uuid[],
			@results::text[], @categories::text[], @errors::text[], @attempts::bool[],
			@wait_topics::text[], @wait_partitions::int[], @wait_keys::bool[], @wait_tries::int[], @wait_seconds::float8[])
		AS o (id, claim, left_status, none_status, delta, left_resolution, none_resolution,
			target_partition, target_offset, target_topic, target_topic_id, result, category, error, attempt,
			wait_topic, wait_partition, wait_key, wait_tries, wait_seconds)
), locked AS MATERIALIZED (
	SELECT o.*
	FROM outcome o
	JOIN dlq.dlq_messages m ON m.id = o.id
	WHERE CASE WHEN m.workflow_id = @workflow_id AND m.owner_token = @token AND m.retry_count = o.claim
			AND (m.status = 'RETRYING' OR m.status = 'DEAD' AND m.resolution = 'given_up' AND o.result = 'delivered')
		THEN true ELSE false END
	FOR UPDATE OF m
), job AS MATERIALIZED (
	SELECT id FROM dlq.dlq_bulk_retries WHERE id = @bulk AND @uncounted::bool AND (SELECT count(*) FROM locked) >= 0 FOR NO KEY UPDATE
), lane AS MATERIALIZED (
	SELECT bulk_id
	FROM dlq.dlq_bulk_retry_lanes
	WHERE bulk_id = @bulk AND lane = @lane AND pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
		AND epoch = @epoch
		AND (SELECT count(*) FROM locked) >= 0 AND (SELECT count(*) FROM job) >= 0
	FOR UPDATE
), ended AS (
	UPDATE dlq.dlq_messages m
	SET status = CASE WHEN m.retry_count < m.max_retries THEN o.left_status ELSE o.none_status END,
		resolution = CASE WHEN m.retry_count < m.max_retries THEN o.left_resolution ELSE o.none_resolution END,
		target_partition = o.target_partition, target_offset = o.target_offset,
		target_id = (SELECT t.id FROM dlq.dlq_targets t
			WHERE t.topic = o.target_topic AND t.topic_id IS NOT DISTINCT FROM o.target_topic_id AND t.dlq_topic = m.dlq_topic),
		retry_count = greatest(m.retry_count + o.delta, 0),
		last_retry_at = CASE WHEN o.result IN ('waiting', 'skipped')
			THEN (SELECT max(a.started_at) FROM dlq.dlq_retry_attempts a WHERE a.message_id = m.id)
			ELSE m.last_retry_at END,
		in_page = false, updated_at = now()
	FROM locked o, lane
	WHERE m.id = o.id
	RETURNING m.id, m.seq, m.status, m.retry_count, (m.key_hash # hashtext(m.original_topic /* target */)) & 2147483647 AS key_hash, m.original_topic,
		m.last_retry_at, m.updated_at, m.dlq_topic, m.max_retries, m.resolution, o.result, o.category, o.error, o.attempt,
		o.wait_topic, o.wait_partition, o.wait_key, o.wait_tries, o.wait_seconds
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
	SELECT id, retry_count, @workflow_id, @token, COALESCE(last_retry_at, updated_at), result, category, error
	FROM ended
	WHERE attempt
), exhausted AS (
	INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
	SELECT dlq_topic, seq, id, retry_count, max_retries, error
	FROM ended
	WHERE @outbox::bool AND resolution = 'exhausted' AND dlq_topic <> ''
	ON CONFLICT (dlq_topic, seq, message_id) DO UPDATE
	SET ended_at = now(), retry_count = EXCLUDED.retry_count, max_retries = EXCLUDED.max_retries, error = EXCLUDED.error
), blocked AS (
	INSERT INTO dlq.dlq_bulk_retry_blocked_keys (bulk_id, key_hash, topic, key)
	SELECT @bulk, e.key_hash, e.original_topic /* target */, b.key
	FROM ended e
	JOIN dlq.dlq_message_bodies b ON b.message_id = e.id
	WHERE e.attempt AND @ordered::bool AND b.key IS NOT NULL
), queue AS (
	INSERT INTO dlq.dlq_bulk_retry_queues AS q (bulk_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
	SELECT DISTINCT ON (e.wait_topic, e.wait_partition, CASE WHEN e.wait_key THEN e.key_hash ELSE -1 END)
		@bulk, CASE WHEN e.wait_key THEN @lane::int ELSE -1 END, e.wait_topic, e.wait_partition, CASE WHEN e.wait_key THEN e.key_hash ELSE -1 END,
		NOT e.wait_key AND e.wait_tries > 0, e.wait_tries, clock_timestamp() + make_interval(secs => e.wait_seconds), e.error, e.category
	FROM ended e
	WHERE e.result = 'waiting'
	ORDER BY e.wait_topic, e.wait_partition, CASE WHEN e.wait_key THEN e.key_hash ELSE -1 END, e.wait_tries DESC, e.seq
	ON CONFLICT ON CONSTRAINT uq_dlq_bulk_retry_queues DO UPDATE
	SET closed = CASE WHEN EXCLUDED.tries > 0 THEN EXCLUDED.closed ELSE q.closed END,
		due_at = CASE WHEN EXCLUDED.tries > 0 THEN EXCLUDED.due_at ELSE q.due_at END,
		reason = CASE WHEN EXCLUDED.tries > 0 THEN EXCLUDED.reason ELSE q.reason END,
		category = CASE WHEN EXCLUDED.tries > 0 THEN EXCLUDED.category ELSE q.category END,
		tries = CASE WHEN EXCLUDED.tries > 0 THEN EXCLUDED.tries ELSE q.tries END
	RETURNING q.id, q.topic, q.partition, q.key_hash
), waiting AS (
	INSERT INTO dlq.dlq_bulk_retry_waiting (bulk_id, queue_id, lane, seq, message_id, key_hash)
	SELECT @bulk, queue.id, @lane, e.seq, e.id, e.key_hash
	FROM ended e
	JOIN queue ON queue.topic = e.wait_topic AND queue.partition = e.wait_partition
		AND queue.key_hash = CASE WHEN e.wait_key THEN e.key_hash ELSE -1 END
	WHERE e.result = 'waiting'
), reopened AS (
	UPDATE dlq.dlq_bulk_retry_queues q
	SET closed = false, tries = 0, due_at = clock_timestamp()
	FROM lane, unnest(@open_topics::text[], @open_partitions::int[]) AS o (topic, partition)
	WHERE q.bulk_id = @bulk AND q.closed AND q.topic = o.topic AND q.partition IN (o.partition, -1) AND q.key_hash = -1
		AND NOT EXISTS (SELECT FROM ended e WHERE e.result = 'waiting' AND NOT e.wait_key AND e.wait_topic = q.topic AND e.wait_partition = q.partition)
), counted AS MATERIALIZED (
	SELECT count(*) AS ended,
		count(*) FILTER (WHERE result = 'delivered') AS retried,
		count(*) FILTER (WHERE attempt AND status = 'PENDING') AS failed,
		count(*) FILTER (WHERE attempt AND status = 'DEAD') AS dead,
		count(*) FILTER (WHERE result = 'skipped') AS skipped,
		count(*) FILTER (WHERE result = 'delivered' OR attempt) AS processed,
		count(*) FILTER (WHERE result = 'waiting') AS waiting
	FROM ended
), refunded AS (
	UPDATE dlq.dlq_bulk_retries b
	SET step_limit = b.step_limit + c.waiting,
		next_at = b.next_at - make_interval(secs => COALESCE(c.waiting::float8 / NULLIF(b.rate_limit, 0), 0))
	FROM counted c, job
	WHERE b.id = job.id AND (b.step_limit IS NOT NULL OR b.rate_limit > 0) AND c.waiting > 0
)
UPDATE dlq.dlq_bulk_retry_lanes l
SET retried = l.retried + c.retried, failed = l.failed + c.failed, dead = l.dead + c.dead, skipped = l.skipped + c.skipped,
	waiting = l.waiting + c.waiting,
	page = ARRAY(SELECT p.id FROM unnest(l.page) AS p (id)
		WHERE CASE WHEN EXISTS (SELECT FROM ended WHERE ended.id = p.id) THEN false ELSE EXISTS (
			SELECT FROM dlq.dlq_messages m
			WHERE m.id = p.id AND CASE m.status || ''
				WHEN 'RETRYING' THEN m.owner_token = @token
				WHEN 'PENDING' THEN p.id <> ALL (@ids::uuid[])
				ELSE false END
			OFFSET 0) END),
	window_started_at = CASE WHEN now() < l.window_started_at + interval '10 seconds' THEN l.window_started_at
		WHEN now() < l.window_started_at + interval '20 seconds' THEN l.window_started_at + interval '10 seconds'
		ELSE now() END,
	window_count = c.processed + CASE WHEN now() < l.window_started_at + interval '10 seconds' THEN l.window_count ELSE 0 END,
	previous_count = CASE WHEN now() < l.window_started_at + interval '10 seconds' THEN l.previous_count
		WHEN now() < l.window_started_at + interval '20 seconds' THEN l.window_count
		ELSE 0 END,
	updated_at = now()
FROM counted c, lane
WHERE l.bulk_id = @bulk AND l.lane = @lane AND l.pages >= (SELECT max(pages) FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = @bulk AND lane = @lane)
RETURNING l.retried, l.failed, l.dead, l.skipped, c.ended`

// FinalizePage ends claims of a lane's page, writes the attempts and the queues, and adds
// to the lane's counters, all in a transaction. It returns the lane's totals and the
// number of claims that it ended.
//
// A message that the lane no longer owns is neither changed nor counted, unless it was delivered:
// see keepLate. The error is dlq.ErrFenced when a newer attempt has the lane, and dlq.ErrBlocked when
// another transaction holds a lock for a second. Deliveries are recorded also by a fenced attempt.
func (s *Store) FinalizePage(ctx context.Context, lane dlq.Lane, outcomes []dlq.PageOutcome) (dlq.PageResult, error) {
	args := finalizeArgs(&lane, outcomes)
	s.addTargets(args, &lane.Spec)
	args["outbox"] = s.Outbox
	var results []dlq.PageResult
	err := s.batch(ctx, "finalize page", func(batch *pgx.Batch) {
		batch.Queue(lanePlanSQL)
		batch.Queue(noteTargetsSQL, args)
		queueQuery(batch, &results, func(row pgx.CollectableRow) (r dlq.PageResult, err error) {
			err = row.Scan(&r.Counts.Retried, &r.Counts.Failed, &r.Counts.Dead, &r.Counts.Skipped, &r.Ended)
			return r, err
		}, s.targeted(finalizePageSQL, &lane.Spec), args)
	})
	var kept late
	if fenced := len(results) == 0; err == nil && (fenced || results[0].Ended < len(outcomes)) {
		if kept, err = s.keepLate(ctx, &lane, outcomes); err == nil && fenced {
			err = fmt.Errorf("lane %d of bulk retry %s: %w", lane.Number, lane.Bulk, dlq.ErrFenced)
		}
	}
	if err != nil {
		return dlq.PageResult{}, err
	}
	results[0].Ended += kept.Kept
	results[0].Counts.Retried += kept.Counted
	return results[0], nil
}

// finalizeArgs are the parameters of finalizePageSQL, sorted by id. When a message has
// several outcomes, the first one counts.
func finalizeArgs(lane *dlq.Lane, outcomes []dlq.PageOutcome) pgx.NamedArgs {
	ids := make([][16]byte, 0, len(outcomes)) // not nil: NULL would make the page empty
	var left, none, results, categories, errs, topics, openTopics []string
	var counts, deltas, tries []int
	var attempts, keys []bool
	var partitions, openPartitions []int32
	var leftResolutions, noneResolutions []*string
	var targetPartitions []*int32
	var targetOffsets []*int64
	var targetTopics []*string
	var targetTopicIDs []*[16]byte
	var seconds []float64
	uncounted := false
	seen, open := make(map[dlq.ID]bool, len(outcomes)), map[dlq.Target]bool{}
	// Two calls lock messages in the same order, so they do not deadlock.
	sorted := slices.SortedStableFunc(slices.Values(outcomes), func(a, b dlq.PageOutcome) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for i := range sorted {
		o := &sorted[i]
		if seen[o.ID] {
			continue
		}
		seen[o.ID] = true
		end := finalStatusesOf(o.Result)
		uncounted = uncounted || o.Result.IsUncounted()
		ids, counts = append(ids, o.ID), append(counts, o.RetryCount)
		left, none, deltas = append(left, end.retriesLeft), append(none, end.noneLeft), append(deltas, end.countDelta)
		leftResolutions, noneResolutions = append(leftResolutions, end.retriesLeftResolution), append(noneResolutions, end.noneLeftResolution)
		partition, offset := o.Acknowledgement.Columns()
		targetPartitions, targetOffsets = append(targetPartitions, partition), append(targetOffsets, offset)
		topic, topicID := o.Acknowledgement.Target()
		targetTopics, targetTopicIDs = append(targetTopics, topic), append(targetTopicIDs, (*[16]byte)(topicID))
		results, categories = append(results, string(o.Result)), append(categories, string(o.Category))
		errs, attempts = append(errs, dlq.StorableText(o.Error)), append(attempts, o.Result.IsAttempt())
		topics, partitions = append(topics, o.Wait.Target.Topic), append(partitions, o.Wait.Target.Partition)
		keys, tries, seconds = append(keys, o.Wait.OfKey), append(tries, o.Wait.Tries), append(seconds, o.Wait.For.Seconds())
		if o.Target.Topic != "" && !open[o.Target] {
			open[o.Target] = true
			openTopics, openPartitions = append(openTopics, o.Target.Topic), append(openPartitions, o.Target.Partition)
		}
	}
	args := laneArgs(lane)
	args["ids"], args["counts"], args["left_statuses"], args["none_statuses"], args["deltas"] = ids, counts, left, none, deltas
	args["left_resolutions"], args["none_resolutions"] = leftResolutions, noneResolutions
	args["target_partitions"], args["target_offsets"] = targetPartitions, targetOffsets
	args["target_topics"], args["target_topic_ids"] = targetTopics, targetTopicIDs
	args["results"], args["categories"], args["errors"], args["attempts"] = results, categories, errs, attempts
	args["wait_topics"], args["wait_partitions"], args["wait_keys"] = topics, partitions, keys
	args["wait_tries"], args["wait_seconds"] = tries, seconds
	args["open_topics"], args["open_partitions"] = openTopics, openPartitions
	args["uncounted"] = uncounted
	return args
}
