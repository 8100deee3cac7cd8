package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
)

// groupBacklogsSQL includes changes that are not in the sums yet, as topicsSQL does. So the first
// alert about a topic names the largest group of the topic. Its cost grows with the number of groups,
// not of messages. The oldest message of a group is found by index, and may be in another topic of the group.
const groupBacklogsSQL = `
WITH pending AS (
	SELECT c.dlq_topic, c.group_id, g.first_seen, g.rule, g.scope, g.class, g.frame, g.message, sum(c.messages)::bigint AS messages,
		CASE WHEN g.state <> 'open' THEN g.state
			WHEN g.regressed_by IS NOT NULL THEN 'regressed'
			WHEN g.first_seen > now() - @new_age::interval THEN 'new'
			ELSE 'open' END AS state,
		bool_or(g.state = 'held') OVER (PARTITION BY c.dlq_topic) AS has_held
	FROM ` + groupCounts + ` AS c
	JOIN dlq.dlq_groups g ON g.id = c.group_id
	WHERE c.status = 'PENDING'
	GROUP BY c.dlq_topic, c.group_id, g.id
	HAVING sum(c.messages) > 0
), placed AS (
	SELECT pending.*, row_number() OVER (
			PARTITION BY dlq_topic, state ORDER BY CASE WHEN state = 'open' THEN -messages END, first_seen, group_id) AS place
	FROM pending
)
SELECT p.dlq_topic, p.state, count(*), sum(p.messages)::bigint, min(oldest.created_at),
	COALESCE(json_agg(json_build_object('Rule', p.rule, 'Scope', p.scope, 'Class', p.class, 'Frame', p.frame, 'Message', p.message,
		'Pending', p.messages) ORDER BY p.place) FILTER (WHERE p.place <= @causes AND p.state IN ('new', 'regressed', 'open')), '[]')
FROM placed p
LEFT JOIN LATERAL (
	SELECT m.created_at
	FROM dlq.dlq_messages m
	WHERE p.has_held AND m.group_id = p.group_id AND m.status = 'PENDING' AND m.status <> 'RETRYING'
	ORDER BY m.created_at, m.seq
	LIMIT 1
) AS oldest ON true
GROUP BY p.dlq_topic, p.state
ORDER BY p.dlq_topic COLLATE "C", p.state COLLATE "C"`

// GroupBacklogs counts the groups that have PENDING messages, by dead-letter topic and state.
func (s *Store) GroupBacklogs(ctx context.Context) ([]dlq.GroupBacklog, error) {
	return queryAll(ctx, s, "count groups", scanGroupBacklog, groupBacklogsSQL, pgx.NamedArgs{"new_age": dlq.NewGroupAge, "causes": dlq.MaxBacklogCauses})
}

func scanGroupBacklog(row pgx.CollectableRow) (b dlq.GroupBacklog, err error) {
	var causes []struct {
		fingerprint.Fingerprint
		Pending int64
	}
	err = row.Scan(&b.DLQTopic, (*string)(&b.State), &b.Groups, &b.Pending, optionalInstant{&b.OldestPending}, &causes)
	for i := range causes {
		f := &causes[i].Fingerprint
		b.Causes = append(b.Causes, dlq.BacklogCause{Title: dlq.GroupTitle(f), Place: dlq.GroupPlace(f), Pending: causes[i].Pending})
	}
	return b, err
}

const heldDeadSQL = `
SELECT c.dlq_topic, sum(c.messages)::bigint
FROM dlq.dlq_groups g
JOIN ` + groupCounts + ` AS c ON c.group_id = g.id
WHERE g.state = 'held' AND c.status = 'DEAD'
GROUP BY c.dlq_topic
HAVING sum(c.messages) > 0
ORDER BY c.dlq_topic COLLATE "C"`

// HeldDead counts the DEAD messages of held groups by dead-letter topic.
func (s *Store) HeldDead(ctx context.Context) ([]dlq.TopicCount, error) {
	return queryAll(ctx, s, "count DEAD messages of held groups", pgx.RowToStructByPos[dlq.TopicCount], heldDeadSQL, pgx.NamedArgs{})
}
