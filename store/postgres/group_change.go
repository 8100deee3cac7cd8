package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// changeGroupSQL changes the notes and the state of a group. A new state replaces the conditions
// of the old state. A group that an operator opens is no regression any more.
const changeGroupSQL = `
WITH arrival AS (
	SELECT COALESCE((SELECT arrived FROM dlq.dlq_group_arrivals WHERE group_id = @id), 0)
		+ COALESCE((SELECT sum(arrived) FROM dlq.dlq_uncounted WHERE group_id = @id), 0)::bigint AS arrived
), changed AS (
	UPDATE dlq.dlq_groups g
	SET owner = COALESCE(@owner, owner), ticket = COALESCE(@ticket, ticket), note = COALESCE(@note, note),
		state = COALESCE(@state, state),
		state_at = CASE WHEN @state::text IS NULL THEN state_at ELSE now() END,
		state_reason = CASE WHEN @state::text IS NULL THEN state_reason ELSE '' END,
		held_until = CASE WHEN @state::text IS NULL THEN held_until ELSE @until::timestamptz END,
		held_until_count = CASE WHEN @state::text IS NULL THEN held_until_count ELSE arrival.arrived + @count::bigint END,
		held_until_rate = CASE WHEN @state::text IS NULL THEN held_until_rate ELSE @rate::bigint END,
		regressed_by = CASE WHEN @state::text IS NULL THEN regressed_by END
	FROM arrival
	WHERE g.id = @id
	RETURNING g.id, g.dlq_topic AS topic
), fixes AS (
	DELETE FROM dlq.dlq_group_fixes f USING changed WHERE f.group_id = changed.id AND @state::text IS NOT NULL
) /* audit */
SELECT topic FROM changed`

// ChangeGroup changes the notes and the state of a group, or returns dlq.ErrNotFound.
func (s *Store) ChangeGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, change dlq.GroupChange) error {
	change = change.Storable()
	args := pgx.NamedArgs{
		"id": uuid(id), "owner": change.Owner, "ticket": change.Ticket, "note": change.Note, "state": (*string)(change.State),
		"until": nilIf(change.Hold.Until, change.Hold.Until.IsZero()), "count": nilIf(change.Hold.Count, change.Hold.Count == 0),
		"rate": nilIf(change.Hold.Rate, change.Hold.Rate == 0),
	}
	sql, changed := s.audited(asked, dlq.TargetGroup, changeGroupSQL, args)
	topic, err := queryExisting(ctx, s, "change group", dlq.GroupNotFound(id), pgx.RowTo[string], sql, args)
	if err == nil {
		changed(id, topic)
	}
	return err
}

// fixGroupSQL marks a group as fixed. A later fix replaces an earlier fix.
const fixGroupSQL = `
WITH changed AS (
	UPDATE dlq.dlq_groups g
	SET state = 'fixed', state_at = @at, state_reason = '', ticket = COALESCE(@ticket, ticket),
		held_until = NULL, held_until_count = NULL, held_until_rate = NULL, regressed_by = NULL
	WHERE g.id = @id
	RETURNING g.id, g.dlq_topic AS topic
), ended AS (
	DELETE FROM dlq.dlq_group_fixes f
	USING changed
	WHERE f.group_id = changed.id
		AND NOT EXISTS (SELECT FROM unnest(@topics::text[], @partitions::int[]) AS w (topic, partition)
			WHERE w.topic = f.topic AND w.partition = f.partition)
), ends AS (
	INSERT INTO dlq.dlq_group_fixes (group_id, topic, partition, end_offset)
	SELECT changed.id, w.topic, w.partition, w.end_offset
	FROM changed
	CROSS JOIN unnest(@topics::text[], @partitions::int[], @end_offsets::bigint[]) AS w (topic, partition, end_offset)
	ON CONFLICT (group_id, topic, partition) DO UPDATE SET end_offset = EXCLUDED.end_offset
) /* audit */
SELECT topic FROM changed`

// FixGroup marks a group as fixed at a time, with the ends of the partitions of its original topics. It waits
// for batches that ingest is storing, so that a message that is stored later sees the fix. The error is
// dlq.ErrNotFound for an unknown id.
func (s *Store) FixGroup(ctx context.Context, asked *dlq.Operation, id dlq.ID, fix dlq.GroupFix) error {
	args := pgx.NamedArgs{
		"id": uuid(id), "at": fix.At, "ticket": nil,
		"topics":      column(fix.Ends, func(e *dlq.EndOffset) string { return dlq.StorableText(e.Topic) }),
		"partitions":  column(fix.Ends, func(e *dlq.EndOffset) int32 { return e.Partition }),
		"end_offsets": column(fix.Ends, func(e *dlq.EndOffset) int64 { return e.Offset }),
	}
	if fix.Ticket != nil {
		args["ticket"] = dlq.StorableText(*fix.Ticket)
	}
	sql, changed := s.audited(asked, dlq.TargetGroup, fixGroupSQL, args)
	var topics []string
	err := s.batch(ctx, "mark group fixed", func(batch *pgx.Batch) {
		queueIngestLock(batch)
		queueQuery(batch, &topics, pgx.RowTo[string], sql, args)
	})
	s.endSuspended(ctx, err)
	if err == nil && len(topics) == 0 {
		err = dlq.GroupNotFound(id)
	}
	if err == nil {
		changed(id, topics[0])
	}
	return err
}

// openHeldSQL opens held groups if one of their conditions is met. The statement reads only sums, and
// runs after the changes were added to the sums. The rate of a group is its LastHour in groupsSQL.
const openHeldSQL = `
WITH due AS (
	SELECT g.id, CASE
		WHEN g.held_until <= now() THEN @until::text
		WHEN g.held_until_count <= a.arrived THEN @count::text
		ELSE @rate::text END AS reason
	FROM dlq.dlq_groups g
	LEFT JOIN dlq.dlq_group_arrivals a ON a.group_id = g.id
	WHERE g.state = 'held' AND (g.held_until <= now() OR g.held_until_count <= a.arrived
		OR g.held_until_rate <= (SELECT sum(h.arrived) FROM dlq.dlq_arrivals h
			WHERE h.group_id = g.id AND h.step = 'minute' AND h.at > now() - interval '1 hour'))
	ORDER BY g.id
	FOR UPDATE OF g SKIP LOCKED
)
UPDATE dlq.dlq_groups g
SET state = 'open', state_at = now(), state_reason = due.reason,
	held_until = NULL, held_until_count = NULL, held_until_rate = NULL
FROM due
WHERE g.id = due.id
RETURNING g.id`

// OpenHeldGroups opens the held groups for which a condition is met, and returns how many. It compares the
// sums that FoldCounts has written.
func (s *Store) OpenHeldGroups(ctx context.Context) (int, error) {
	opened, err := queryAll(ctx, s, "open held groups", pgx.RowTo[[16]byte], openHeldSQL,
		pgx.NamedArgs{"until": dlq.HoldUntilReason, "count": dlq.HoldCountReason, "rate": dlq.HoldRateReason})
	return len(opened), err
}
