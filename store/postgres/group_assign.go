package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
)

// createGroupsSQL creates the groups that do not exist, until their topic has @max_groups groups. A group that was
// deleted by hand keeps its signature. A group with messages but without a signature gets no signature, since its
// messages may have any text.
const createGroupsSQL = `
WITH wanted AS (
	SELECT w.*, row_number() OVER (PARTITION BY w.dlq_topic, w.rule = 'overflow' ORDER BY w.id) AS place
	FROM unnest(@ids::uuid[], @versions::int[], @scopes::text[], @rules::text[], @classes::text[], @frames::text[], @messages::text[],
		@dlq_topics::text[]) AS w (id, version, scope, rule, class, frame, message, dlq_topic)
	WHERE NOT EXISTS (SELECT FROM dlq.dlq_groups g WHERE g.id = w.id)
), room AS (
	SELECT t.dlq_topic, @max_groups::bigint
		- (SELECT count(*) FROM dlq.dlq_groups g WHERE g.dlq_topic = t.dlq_topic AND g.rule <> 'overflow') AS groups
	FROM (SELECT DISTINCT dlq_topic FROM wanted) AS t
), created AS (
	INSERT INTO dlq.dlq_groups (id, version, scope, rule, class, frame, message, dlq_topic)
	SELECT w.id, w.version, w.scope, w.rule, w.class, w.frame, w.message, w.dlq_topic
	FROM wanted w
	JOIN room r ON r.dlq_topic = w.dlq_topic
	WHERE w.rule = 'overflow' OR w.place <= r.groups
	ORDER BY w.id
	ON CONFLICT (id) DO NOTHING
	RETURNING id
)
INSERT INTO dlq.dlq_group_signatures (group_id, bits)
SELECT c.id, 0::bit(8192)
FROM created c
WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.group_id = c.id AND m.status <> 'RETRYING' OFFSET 0)
	AND NOT EXISTS (SELECT FROM dlq.dlq_messages m
		WHERE m.status = 'RETRYING' AND m.id = ANY (ARRAY(SELECT id FROM dlq.dlq_retrying)) AND m.group_id = c.id OFFSET 0)
ON CONFLICT (group_id) DO NOTHING`

const knownGroupsSQL = `SELECT id FROM dlq.dlq_groups WHERE id = ANY (@ids::uuid[])`

// assignGroups creates the groups of the rows. If the topic of a row has the maximum number of groups, the row gets the
// overflow group. Groups are created in a transaction of their own: a group without messages does no harm, and a long
// transaction would make arrivals of the same group wait. The groups of most batches exist, so a batch calls
// assignGroups only after it has missed a group.
func (s *Store) assignGroups(ctx context.Context, rows []*arrivalRow) error {
	unknown := map[dlq.ID]*arrivalRow{}
	for _, row := range rows {
		if !row.group.IsZero() {
			unknown[row.group] = row
		}
	}
	known, err := s.createGroups(ctx, unknown, nil)
	if err != nil {
		return err
	}
	maps.DeleteFunc(unknown, func(id dlq.ID, _ *arrivalRow) bool { return known[id] })
	if len(unknown) == 0 {
		return nil
	}
	if known, err = s.replaceGroups(ctx, unknown); err != nil {
		return err
	}
	overflow := map[dlq.ID]*arrivalRow{}
	for _, row := range rows {
		if unknown[row.group] == nil || known[row.group] {
			continue
		}
		row.Fingerprint = dlq.Overflow(row.DLQTopic)
		row.group = dlq.GroupID(&row.Fingerprint)
		overflow[row.group] = row
	}
	if len(overflow) > 0 {
		_, err = s.createGroups(ctx, overflow, nil)
	}
	return err
}

// createGroups removes the spare groups, creates the wanted groups, and returns which wanted groups exist then.
func (s *Store) createGroups(ctx context.Context, wanted map[dlq.ID]*arrivalRow, spare [][16]byte) (known map[dlq.ID]bool, err error) {
	ids := slices.Collect(maps.Keys(wanted))
	of := func(value func(*fingerprint.Fingerprint) string) []string {
		return column(ids, func(id *dlq.ID) string { return value(&wanted[*id].Fingerprint) })
	}
	args := pgx.NamedArgs{
		"ids":        uuids(ids),
		"versions":   column(ids, func(id *dlq.ID) int32 { return int32(wanted[*id].Fingerprint.Version) }),
		"scopes":     of(func(f *fingerprint.Fingerprint) string { return f.Scope }),
		"rules":      of(func(f *fingerprint.Fingerprint) string { return string(f.Rule) }),
		"classes":    of(func(f *fingerprint.Fingerprint) string { return f.Class }),
		"frames":     of(func(f *fingerprint.Fingerprint) string { return f.Frame }),
		"messages":   of(func(f *fingerprint.Fingerprint) string { return f.Message }),
		"dlq_topics": column(ids, func(id *dlq.ID) string { return wanted[*id].DLQTopic }),
		"max_groups": s.maxGroups(),
	}
	var found [][16]byte
	err = s.batch(ctx, "create groups", func(batch *pgx.Batch) {
		batch.Queue(lockSQL, pgx.NamedArgs{"lock": groupsLock})
		if len(spare) > 0 {
			queueRemoval(batch, spare, new(int64))
		}
		batch.Queue(createGroupsSQL, args)
		queueQuery(batch, &found, pgx.RowTo[[16]byte], knownGroupsSQL, args)
	})
	if err != nil {
		return nil, err
	}
	known = make(map[dlq.ID]bool, len(found))
	for _, id := range found {
		known[id] = true
	}
	return known, nil
}

func (s *Store) maxGroups() int {
	if s.MaxGroups > 0 {
		return s.MaxGroups
	}
	return dlq.MaxGroups
}

// fixesSQL reads the fixes of these groups, a row for each partition. Most groups are not fixed.
const fixesSQL = `
SELECT g.id, g.state_at, f.topic, f.partition, f.end_offset
FROM dlq.dlq_groups g
LEFT JOIN dlq.dlq_group_fixes f ON f.group_id = g.id
WHERE g.id = ANY (@groups::uuid[]) AND g.state = 'fixed'`

// reopenSQL opens fixed groups that have failed again, locked in the order of their ids.
const reopenSQL = `
WITH regression AS (
	SELECT g.id, r.message_id
	FROM dlq.dlq_groups g
	JOIN unnest(@groups::uuid[], @messages::uuid[]) AS r (group_id, message_id) ON r.group_id = g.id
	WHERE g.state = 'fixed'
	ORDER BY g.id
	FOR UPDATE OF g
), fixes AS (
	DELETE FROM dlq.dlq_group_fixes f USING regression r WHERE f.group_id = r.id
)
UPDATE dlq.dlq_groups g
SET state = 'open', state_at = now(), state_reason = @reason, regressed_by = r.message_id
FROM regression r
WHERE g.id = r.id`

func groupsOf(rows []*arrivalRow) [][16]byte {
	seen := map[dlq.ID]bool{}
	var groups [][16]byte
	for _, row := range rows {
		if !row.group.IsZero() && !seen[row.group] {
			seen[row.group] = true
			groups = append(groups, row.group)
		}
	}
	return groups
}

// regressions are the fixed groups with a message that failed after the fix, and the first such message of each group.
func regressions(rows []*arrivalRow, fixes map[dlq.ID]dlq.GroupFix) (groups, messages [][16]byte) {
	for _, row := range rows {
		fix, isFixed := fixes[row.group]
		if isFixed && fix.Precedes(&row.Arrival) && !slices.Contains(groups, uuid(row.group)) {
			groups, messages = append(groups, row.group), append(messages, row.ID)
		}
	}
	return groups, messages
}
