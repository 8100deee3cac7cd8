package postgres

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// groupCounts are the counts of groups with the latest changes. A group may have several rows for the same topics and status.
const groupCounts = `(SELECT group_id, dlq_topic, original_topic, status, messages FROM dlq.dlq_group_count_sums
		UNION ALL
		SELECT group_id, dlq_topic, original_topic, status, messages FROM dlq.dlq_uncounted WHERE group_id IS NOT NULL)`

// newestGroupsSQL reads groups by the time of their first message. A group belongs to the
// topic of its first message and to the topics of its counts.
const newestGroupsSQL = `
SELECT g.id, (extract(epoch FROM g.first_seen) * 1000000)::bigint AS rank
FROM dlq.dlq_groups g
WHERE true /* visible */ AND true /* filter */
	AND (@after_rank::bigint IS NULL
		OR (g.first_seen, g.id) < ('epoch'::timestamptz + @after_rank::bigint * interval '1 microsecond', @after_id::uuid))
ORDER BY g.first_seen DESC, g.id DESC
LIMIT @limit`

// rankedGroupsSQL computes the rank of all groups from all counts. Its cost grows with the
// number of groups, not of messages. The caller may not be allowed to see the newest message of
// a group. So a group that ever had hidden messages is ranked by the time of its first message.
const rankedGroupsSQL = `
WITH counted AS (
	SELECT c.group_id, bool_or(c.is_visible) AS is_visible, bool_or(NOT c.is_visible) AS has_hidden,
		sum(c.messages) FILTER (WHERE c.is_visible) > 0 AS is_used,
		bool_or(c.dlq_topic = @topic OR c.original_topic = @topic) FILTER (WHERE c.is_visible AND c.messages > 0) AS has_topic,
		sum(c.messages) FILTER (WHERE c.is_visible AND c.status = 'PENDING') AS pending
	FROM (SELECT *, @within = '' OR dlq_topic ~ @within AS is_visible FROM ` + groupCounts + ` AS c) AS c
	GROUP BY c.group_id
), seen AS (
	SELECT a.group_id, max(a.last_seen) AS last_seen
	FROM (SELECT group_id, last_seen FROM dlq.dlq_group_arrivals
		UNION ALL
		SELECT group_id, arrived_at FROM dlq.dlq_uncounted WHERE arrived > 0 AND group_id IS NOT NULL) AS a
	GROUP BY a.group_id
), ranked AS (
	SELECT g.id, CASE WHEN @sort = 'pending' THEN COALESCE(counted.pending, 0)::bigint
		WHEN counted.has_hidden OR @within <> '' AND g.dlq_topic !~ @within THEN (extract(epoch FROM g.first_seen) * 1000000)::bigint
		ELSE (extract(epoch FROM COALESCE(seen.last_seen, g.first_seen)) * 1000000)::bigint END AS rank
	FROM dlq.dlq_groups g
	LEFT JOIN counted ON counted.group_id = g.id
	LEFT JOIN seen ON seen.group_id = g.id
	WHERE (@within = '' OR g.dlq_topic ~ @within OR counted.is_visible)
		AND (@topic = '' OR g.dlq_topic = @topic AND (@within = '' OR @topic ~ @within) OR counted.has_topic)
		AND CASE WHEN @state = '' THEN counted.is_used ELSE g.state = @state END
)
SELECT r.id, r.rank
FROM ranked r
WHERE @after_rank::bigint IS NULL OR (r.rank, r.id) < (@after_rank::bigint, @after_id::uuid)
ORDER BY r.rank DESC, r.id DESC
LIMIT @limit`

// groupsSQL reads groups with their counts, in the order of @ids. LastHour has the arrivals of the
// minutes that began within the last hour. The sample is among the newest 100 messages of a
// status, so that hidden messages do not make the search expensive.
const groupsSQL = `
WITH change AS MATERIALIZED (
	SELECT group_id, dlq_topic, original_topic, status, sum(messages) AS messages, sum(arrived) AS arrived, max(arrived_at) AS arrived_at
	FROM dlq.dlq_uncounted
	WHERE group_id = ANY (@ids::uuid[])
	GROUP BY group_id, dlq_topic, original_topic, status
), counted AS (
	SELECT group_id, dlq_topic, original_topic, status, sum(messages)::bigint AS messages
	FROM (SELECT group_id, dlq_topic, original_topic, status, messages FROM dlq.dlq_group_count_sums WHERE group_id = ANY (@ids::uuid[])
		UNION ALL
		SELECT group_id, dlq_topic, original_topic, status, messages FROM change) AS part
	GROUP BY group_id, dlq_topic, original_topic, status
), counts AS (
	SELECT group_id, jsonb_agg(jsonb_build_object('dlq_topic', dlq_topic, 'original_topic', original_topic, 'status', status, 'messages', messages)
		ORDER BY dlq_topic, original_topic, status) FILTER (WHERE messages > 0 AND (@within = '' OR dlq_topic ~ @within)) AS list,
		bool_or(@within <> '' AND dlq_topic !~ @within) AS has_hidden
	FROM counted
	GROUP BY group_id
), new AS (
	SELECT group_id, sum(arrived)::bigint AS arrived, max(arrived_at) AS last_seen
	FROM change
	GROUP BY group_id
)
SELECT g.id, g.version, g.scope, g.rule, g.class, g.frame, g.message, g.first_seen,
	greatest(a.last_seen, new.last_seen, g.first_seen), COALESCE(a.arrived, 0) + COALESCE(new.arrived, 0),
	(COALESCE(new.arrived, 0) + COALESCE((SELECT sum(h.arrived) FROM dlq.dlq_arrivals h
		WHERE h.group_id = g.id AND h.step = 'minute' AND h.at > now() - interval '1 hour'), 0))::bigint,
	COALESCE(counts.list, '[]'), sample.id, g.owner, g.ticket, g.note, g.state, g.state_at, g.state_reason,
	g.held_until, g.held_until_count - COALESCE(a.arrived, 0) - COALESCE(new.arrived, 0), g.held_until_rate, g.regressed_by,
	COALESCE(counts.has_hidden, false) OR @within <> '' AND g.dlq_topic !~ @within
FROM unnest(@ids::uuid[]) WITH ORDINALITY AS wanted (id, place)
JOIN dlq.dlq_groups g ON g.id = wanted.id AND true /* visible */
LEFT JOIN dlq.dlq_group_arrivals a ON a.group_id = g.id
LEFT JOIN new ON new.group_id = g.id
LEFT JOIN counts ON counts.group_id = g.id
LEFT JOIN LATERAL (
	SELECT newest.id
	FROM unnest('{PENDING,DEAD,RESOLVED}'::text[]) AS s (status)
	CROSS JOIN LATERAL (
		SELECT m.id, m.created_at, m.seq
		FROM (
			SELECT m.id, m.dlq_topic, m.created_at, m.seq
			FROM dlq.dlq_messages m
			WHERE m.group_id = g.id AND m.status = s.status AND m.status <> 'RETRYING'
			ORDER BY m.created_at DESC, m.seq DESC
			LIMIT 100
		) AS m
		WHERE @within = '' OR m.dlq_topic ~ @within
		ORDER BY m.created_at DESC, m.seq DESC
		LIMIT 1
	) AS newest
	ORDER BY newest.created_at DESC, newest.seq DESC
	LIMIT 1
) AS sample ON true
ORDER BY wanted.place`

// Conditions of newestGroupsSQL. The first condition is also in groupsSQL. OFFSET 0 makes the server
// look up the counts of one group at a time, instead of reading the counts of all groups.
const (
	// A group is visible if a dead-letter topic of its messages is visible, even if these messages are gone.
	groupVisible = `(g.dlq_topic ~ @within
		OR EXISTS (SELECT FROM dlq.dlq_group_count_sums c WHERE c.group_id = g.id AND c.dlq_topic ~ @within OFFSET 0))`
	groupTopic = `(g.dlq_topic = @topic AND (@within = '' OR g.dlq_topic ~ @within)
		OR EXISTS (SELECT FROM dlq.dlq_group_count_sums c WHERE c.group_id = g.id AND (c.dlq_topic = @topic OR c.original_topic = @topic)
			AND c.messages > 0 AND (@within = '' OR c.dlq_topic ~ @within) OFFSET 0))`
	groupState = `g.state = @state`
	// The sums may not have the newest messages of a group yet.
	groupNotEmpty = `(EXISTS (SELECT FROM dlq.dlq_group_count_sums c WHERE c.group_id = g.id AND c.messages > 0
			AND (@within = '' OR c.dlq_topic ~ @within) OFFSET 0)
		OR g.id IN (SELECT c.group_id FROM dlq.dlq_uncounted c WHERE c.messages > 0 AND (@within = '' OR c.dlq_topic ~ @within)))`
)

// grouped puts the conditions of a query into a statement.
func grouped(sql string, q *dlq.GroupQuery) string {
	visible, filter := "true", groupNotEmpty
	if q.Within != "" {
		visible = groupVisible
	}
	if q.State != "" {
		filter = groupState
	}
	if q.Topic != "" {
		filter += " AND " + groupTopic
	}
	return strings.NewReplacer("true /* visible */", visible, filterMark, filter).Replace(sql)
}

// ranks reports whether the order of a query needs the counts of all groups.
func ranks(q *dlq.GroupQuery) bool { return q.Sort != "" && q.Sort != dlq.GroupsByFirstSeen }

// Groups returns a page of groups.
func (s *Store) Groups(ctx context.Context, q dlq.GroupQuery) (page dlq.PageOf[dlq.Group], err error) {
	sql := newestGroupsSQL
	if ranks(&q) {
		sql = rankedGroupsSQL
	}
	size := max(q.PageSize, 1)
	args := pgx.NamedArgs{"topic": q.Topic, "state": q.State, "within": q.Within, "sort": string(q.Sort), "limit": size + 1,
		"after_rank": nil, "after_id": nil}
	if q.After != nil {
		args["after_rank"], args["after_id"] = q.After.Rank, uuid(q.After.ID)
	}
	var found []dlq.Place
	err = s.inSnapshot(ctx, "list groups", func(send snapshotSender) error {
		err := send(false, func(batch *pgx.Batch) {
			if !ranks(&q) {
				batch.Queue(byIndexSQL)
			}
			queueQuery(batch, &found, pgx.RowToStructByName[dlq.Place], grouped(sql, &q), args)
		})
		if err != nil {
			return err
		}
		if page.Next = nil; len(found) > size {
			found = found[:size]
			page.Next = &found[size-1]
		}
		args["ids"] = uuids(column(found, func(c *dlq.Place) dlq.ID { return c.ID }))
		return send(true, func(batch *pgx.Batch) {
			batch.Queue(onceByIndexSQL)
			queueQuery(batch, &page.Entries, scanGroup, grouped(groupsSQL, &q), args)
		})
	})
	return page, err
}

// Group returns a group, or dlq.ErrNotFound. If within is not empty, only messages of dead-letter topics
// that match within are counted, and a group that has never had such a message is not found.
func (s *Store) Group(ctx context.Context, id dlq.ID, within string) (dlq.Group, error) {
	sql := grouped(groupsSQL, &dlq.GroupQuery{Within: within})
	args := pgx.NamedArgs{"ids": uuids([]dlq.ID{id}), "within": within}
	return queryExisting(ctx, s, "read group", dlq.GroupNotFound(id), scanGroup, sql, args, onceByIndexSQL)
}

func scanGroup(row pgx.CollectableRow) (g dlq.Group, err error) {
	var counts []byte
	f := &g.Fingerprint
	err = row.Scan((*[16]byte)(&g.ID), &f.Version, &f.Scope, (*string)(&f.Rule), &f.Class, &f.Frame, &f.Message, instant{&g.FirstSeen},
		instant{&g.LastSeen}, &g.Arrived, &g.LastHour, &counts, (*zeronull.UUID)(&g.Sample), &g.Owner, &g.Ticket, &g.Note, (*string)(&g.State),
		instant{&g.StateAt}, &g.StateReason, instant{&g.Hold.Until}, (*zeronull.Int8)(&g.Hold.Count), (*zeronull.Int8)(&g.Hold.Rate),
		(*zeronull.UUID)(&g.RegressedBy), &g.IsPartial)
	if err != nil {
		return dlq.Group{}, err
	}
	g.Hold.Count = max(g.Hold.Count, 0)
	return g, json.Unmarshal(counts, &g.Counts)
}
