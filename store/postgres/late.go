package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// lockLateSQL waits for transactions that change the messages. The next statement sees their changes.
const lockLateSQL = `SELECT FROM dlq.dlq_messages WHERE id = ANY (@ids::uuid[]) ORDER BY id FOR UPDATE`

// keepLateSQL records deliveries by an owner that has lost its claims. Each delivery is recorded once. The CTEs:
//
//   - late are the messages whose delivery by this owner is not recorded yet. A message that the owner has claimed
//     again since is left out: the outcome says nothing about the present claim.
//   - resolved are the messages that nobody retries, and messages that a newer attempt at the lane has claimed. If another
//     owner retries a message, a trigger resolves it when that retry ends.
//   - counted are the messages that the job has not counted: the attempt is the newest of its lane, or the message is in
//     the page, in a queue or beyond the cursor of the lane. A restore of the database moves the cursor back.
const keepLateSQL = `
WITH late AS MATERIALIZED (
	SELECT o.id, o.claim, o.target_partition, o.target_offset, m.seq, m.dlq_topic,
		(SELECT t.id FROM dlq.dlq_targets t
			WHERE t.topic = o.target_topic AND t.topic_id IS NOT DISTINCT FROM o.target_topic_id AND t.dlq_topic = m.dlq_topic) AS target_id,
		greatest(COALESCE(NULLIF(o.claim, 0), m.retry_count), 1) AS number, COALESCE(m.last_retry_at, m.updated_at) AS started_at,
		m.status <> 'RESOLVED' AND (m.status <> 'RETRYING' OR m.workflow_id = @workflow_id AND m.owner_token = @token) AS resolves
	FROM unnest(@ids::uuid[], @claims::int[], @target_partitions::int[], @target_offsets::bigint[], @target_topics::text[], @target_topic_ids::uuid[])
		AS o (id, claim, target_partition, target_offset, target_topic, target_topic_id)
	JOIN dlq.dlq_messages m ON m.id = o.id
	WHERE NOT (m.status = 'RESOLVED' AND m.resolution IS NOT DISTINCT FROM 'delivered' AND m.owner_token = @token)
		AND NOT (m.status = 'RETRYING' AND m.workflow_id = @workflow_id AND m.owner_token = @token AND m.retry_count <> o.claim)
		AND NOT EXISTS (SELECT FROM dlq.dlq_retry_attempts a WHERE a.message_id = o.id AND a.owner_token = @token AND a.result = 'delivered')
), attempt AS (
	INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error,
		target_id, target_partition, target_offset)
	SELECT id, number, @workflow_id, @token, started_at, 'delivered', '', '', target_id, target_partition, target_offset
	FROM late
), resolved AS (
	UPDATE dlq.dlq_messages m
	SET status = 'RESOLVED', resolution = 'delivered', workflow_id = @workflow_id, owner_token = @token, in_page = false, updated_at = now(),
		retry_count = greatest(m.retry_count, late.claim),
		target_id = late.target_id, target_partition = late.target_partition, target_offset = late.target_offset
	FROM late
	WHERE m.id = late.id AND late.resolves
), published AS (
	DELETE FROM dlq.dlq_exhausted_outbox o
	USING late
	WHERE o.dlq_topic = late.dlq_topic AND o.seq = late.seq AND o.message_id = late.id
), counted AS MATERIALIZED (
	SELECT count(*) AS n
	FROM late
	JOIN dlq.dlq_job_lanes l ON ` + rowOfLane + `
	JOIN dlq.dlq_jobs b ON b.id = l.job_id AND b.ended_at IS NULL
	WHERE l.epoch = @epoch OR late.id = ANY (l.page) OR late.seq > l.cursor
		OR late.id IN (SELECT w.message_id FROM dlq.dlq_job_waiting w WHERE w.job_id = @job AND w.lane = @lane)
), lane AS (
	UPDATE dlq.dlq_job_lanes l
	SET retried = l.retried + counted.n, updated_at = now()
	FROM counted
	WHERE ` + rowOfLane + ` AND counted.n > 0
)
SELECT (SELECT count(*) FROM late), counted.n FROM counted`

// keepLate records the deliveries among outcomes whose claims are lost: an operator, the sweeper or a newer attempt at the
// lane has taken the messages. kept is the number of deliveries that it has recorded, and counted is how many of them the
// lane counts. For a single retry, the lane has only an owner.
func (s *Store) keepLate(ctx context.Context, lane *dlq.Lane, outcomes []dlq.PageOutcome) (kept int, counted int64, err error) {
	delivered := slices.DeleteFunc(slices.Clone(outcomes), func(o dlq.PageOutcome) bool { return o.Result != dlq.ResultDelivered })
	if len(delivered) == 0 {
		return 0, 0, nil
	}
	args := lateArgs(lane, inOrder(delivered))
	err = s.batch(ctx, "note targets", func(batch *pgx.Batch) { batch.Queue(noteTargetsSQL, args) }) // committed before the wait for locks
	if err != nil {
		return 0, 0, err
	}
	err = s.batch(ctx, "keep late acknowledgements", func(batch *pgx.Batch) {
		batch.Queue(batchPlanSQL)
		batch.Queue(lockLateSQL, args)
		batch.Queue(lockJobSQL, args) // so the job's end either counts the delivery, or is seen by keepLateSQL
		queueRows(batch, keepLateSQL, args, []any{&kept, &counted}, func() {})
	})
	if err != nil {
		return 0, 0, err
	}
	return kept, counted, nil
}

// lateArgs are the parameters of keepLateSQL and lockJobSQL.
func lateArgs(lane *dlq.Lane, delivered []dlq.PageOutcome) pgx.NamedArgs {
	args := acknowledgedArgs(lane.Owner, delivered)
	maps.Copy(args, pgx.NamedArgs{"id": uuid(lane.Job), "job": uuid(lane.Job), "lane": lane.Number, "epoch": lane.Epoch})
	return args
}
