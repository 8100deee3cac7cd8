package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// isRetryable is the condition that a message m can be retried now, if it has
// somewhere to go.
const isRetryable = `m.status = 'PENDING' AND m.retry_count < m.max_retries`

// untouched is the condition that a message m has waited since the scope of the
// job was frozen, of a CTE job with its frozen_at. Every statement that changes a
// status writes updated_at, as of its transaction's start by the database's own
// clock. What the job gives back it dates back to frozen_at, so that this holds
// for it again. A job of before has no frozen_at and takes what it finds.
//
// A transaction that began before the scope was frozen and ends only after the
// count slips through: its message is taken though it was not matched. EndBulk
// then raises what was matched to what was done, so that the sum stays right.
const untouched = ` AND COALESCE(m.updated_at <= (SELECT frozen_at FROM job), true)`

// scope is the topic and filter of a bulk retry, on the way to SQL.
type scope struct {
	spec dlq.BulkSpec
	args pgx.NamedArgs
	// filter is what is asked of m beside topic and status, and opaque the part
	// of it that the planner must not see.
	filter, opaque string
}

func (p *Postgres) scope(spec dlq.BulkSpec) *scope {
	s := &scope{spec: spec, args: pgx.NamedArgs{"topic": topicText(spec.Topic), "expression": p.topics.Expression()}}
	f := filterOf(spec)
	key := f.Key
	f.Key = nil
	s.opaque = filterConditions(f, s.args)
	if key != nil { // has an index of its own, which the planner may find better
		s.filter = filterConditions(dlq.Filter{Key: key}, s.args)
	}
	if s.byIDs() {
		ids := make([][16]byte, 0, len(spec.Filter.IDs))
		for _, id := range unique(spec.Filter.IDs) {
			ids = append(ids, id)
		}
		s.args["ids"] = ids
	}
	return s
}

func (s *scope) byIDs() bool { return len(s.spec.Filter.IDs) > 0 }

// isSearch reports whether most of what a scan reads may be of no use to it.
func (s *scope) isSearch() bool { return s.opaque != "" && !s.byIDs() && s.spec.Filter.Key == nil }

// inStatuses is the condition that a message has one of some statuses, or any if
// there are none. They are written into the text, as there are four.
func inStatuses(wanted []dlq.Status) string {
	if len(wanted) == 0 {
		return "true"
	}
	var names []string
	for _, status := range dlq.Statuses {
		if slices.Contains(wanted, status) {
			names = append(names, "'"+string(status)+"'")
		}
	}
	if len(names) == 0 {
		return "false"
	}
	return "m.status IN (" + strings.Join(names, ", ") + ")"
}

// selects is a SELECT of the scope that asks for more by condition, which the
// planner sees, and by hidden, which it does not. As a CASE, a condition is
// opaque to it: otherwise it takes an equality for one row in 200, fears to read
// the whole topic for a page, and sorts it instead of walking the index. ending
// closes each part.
func (s *scope) selects(columns, condition, hidden, ending string) string {
	tables := "dlq.dlq_messages m"
	if s.spec.Filter.Key != nil {
		tables += " JOIN dlq.dlq_message_bodies b ON b.message_id = m.id"
	}
	hidden += s.opaque
	if s.byIDs() {
		// The ids alone lead to the messages; there are never many. The LIMIT
		// makes it look them up one by one: a join might read the whole table.
		tables = strings.Replace(tables, "dlq.dlq_messages m",
			"unnest(@ids::uuid[]) AS wanted (id) CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = wanted.id LIMIT 1) AS m", 1)
		return fmt.Sprintf(`(SELECT %s FROM %s
	WHERE CASE WHEN (m.dlq_topic = @topic OR m.original_topic = @topic) AND %s%s THEN true ELSE false END%s%s)`,
			columns, tables, condition, hidden, s.filter, ending)
	}
	if hidden != "" {
		hidden = " AND CASE WHEN " + strings.TrimPrefix(hidden, " AND ") + " THEN true ELSE false END"
	}
	parts := make([]string, len(sides))
	for i, side := range sides {
		parts[i] = fmt.Sprintf("(SELECT %s FROM %s\n\tWHERE %s AND %s%s%s%s)", columns, tables, side, condition, s.filter, hidden, ending)
	}
	return "(" + strings.Join(parts, "\n\tUNION ALL ") + ")"
}

// sendable is selects for what can be sent. The dearest condition comes last: a
// lane passes over what is not its own without matching a pattern.
func (s *scope) sendable(columns, condition, hidden, ending string) string {
	if !takesPending(s.spec.Filter) {
		condition += " AND false"
	}
	return s.selects(columns, isRetryable+condition, hidden+" AND "+hasOrigin, ending)
}
