package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// unusedGroup is a condition on a group that nobody needs: it has no messages, live or archived, and
// no note or state of an operator. Changes that are not yet in the sums count as messages. The tables
// of messages are read too, since messages that came by logical replication are not counted.
const unusedGroup = `g.state = 'open' AND g.owner = '' AND g.ticket = '' AND g.note = ''
	AND NOT EXISTS (SELECT FROM dlq.dlq_group_count_sums c WHERE c.group_id = g.id AND c.messages <> 0 OFFSET 0)
	AND g.id NOT IN (SELECT u.group_id FROM dlq.dlq_uncounted u WHERE u.group_id IS NOT NULL)
	AND NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.group_id = g.id AND m.status <> 'RETRYING' OFFSET 0)
	AND NOT EXISTS (SELECT FROM dlq.dlq_messages_archive m WHERE m.group_id = g.id OFFSET 0)`

const oldGroupsSQL = `
SELECT g.id
FROM dlq.dlq_groups g
LEFT JOIN dlq.dlq_group_arrivals a ON a.group_id = g.id
WHERE g.first_seen < now() - @microseconds::bigint * interval '1 microsecond'
	AND COALESCE(a.last_seen < now() - @microseconds::bigint * interval '1 microsecond', true)
	AND ` + unusedGroup + `
ORDER BY COALESCE(a.last_seen, g.first_seen), g.id
LIMIT @limit::int`

// spareGroupsSQL chooses the groups of full topics that give way to new groups. A group without
// arrivals is not chosen: it was created for a message that is about to be stored.
const spareGroupsSQL = `
SELECT spare.id
FROM unnest(@dlq_topics::text[], @wanted::int[]) AS w (dlq_topic, groups)
CROSS JOIN LATERAL (
	SELECT g.id
	FROM dlq.dlq_groups g
	JOIN dlq.dlq_group_arrivals a ON a.group_id = g.id
	WHERE g.dlq_topic = w.dlq_topic AND g.rule <> 'overflow' AND ` + unusedGroup + `
	ORDER BY a.last_seen, g.id
	LIMIT greatest(w.groups - @max_groups::bigint
		+ (SELECT count(*) FROM dlq.dlq_groups o WHERE o.dlq_topic = w.dlq_topic AND o.rule <> 'overflow'), 0)
) AS spare`

const removeGroupsSQL = `
WITH removed AS (
	DELETE FROM dlq.dlq_groups g WHERE g.id = ANY (@unused::uuid[]) AND ` + unusedGroup + ` RETURNING g.id
), counts AS (
	DELETE FROM dlq.dlq_group_count_sums c USING removed r WHERE c.group_id = r.id
), arrivals AS (
	DELETE FROM dlq.dlq_group_arrivals a USING removed r WHERE a.group_id = r.id
), signatures AS (
	DELETE FROM dlq.dlq_group_signatures s USING removed r WHERE s.group_id = r.id
)
SELECT count(*) FROM removed`

// queueRemoval removes groups while nothing is stored, so no message gets into a group that is being removed. A
// batch of ingest that has chosen the group finds that it does not exist, and creates it again.
func queueRemoval(batch *pgx.Batch, unused [][16]byte, removed *int64) {
	queueIngestLock(batch)
	batch.Queue(removeGroupsSQL, pgx.NamedArgs{"unused": unused}).QueryRow(func(row pgx.Row) error { return row.Scan(removed) })
}

// PurgeGroups removes at most limit groups that are not used any more and whose last message
// arrived longer ago than olderThan, and returns how many.
func (s *Store) PurgeGroups(ctx context.Context, olderThan time.Duration, limit int) (removed int64, err error) {
	unused, err := queryAll(ctx, s, "find unused groups", pgx.RowTo[[16]byte], oldGroupsSQL,
		pgx.NamedArgs{"microseconds": olderThan.Microseconds(), "limit": limit})
	if err != nil || len(unused) == 0 {
		return 0, err
	}
	err = s.batch(ctx, "remove groups", func(batch *pgx.Batch) { queueRemoval(batch, unused, &removed) })
	s.endSuspended(ctx, err)
	return removed, err
}

// replaceGroups creates groups in topics that have the maximum number of groups, in place of unused groups. It
// returns which wanted groups exist then. If ingest does not release its lock in time, it returns no groups.
func (s *Store) replaceGroups(ctx context.Context, wanted map[dlq.ID]*arrivalRow) (known map[dlq.ID]bool, err error) {
	inTopic := map[string]int32{}
	for _, row := range wanted {
		inTopic[row.DLQTopic]++
	}
	var topics []string
	var groups []int32
	for topic, n := range inTopic {
		topics, groups = append(topics, topic), append(groups, n)
	}
	spare, err := queryAll(ctx, s, "find spare groups", pgx.RowTo[[16]byte], spareGroupsSQL,
		pgx.NamedArgs{"dlq_topics": topics, "wanted": groups, "max_groups": s.maxGroups()})
	if err != nil || len(spare) == 0 {
		return nil, err
	}
	known, err = s.createGroups(ctx, wanted, spare)
	if s.endSuspended(ctx, err); isBlocked(err) {
		return known, nil
	}
	return known, err
}
