package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// Marks in the statements that a filter replaces.
const (
	filterMark = "true /* filter */"
	sourceMark = "dlq.dlq_messages m /* source */"
	reachMark  = "true /* reach */"
)

// reach is dlq.Topics.MaySend for a job that is limited to the topics within. Only such a job
// evaluates it.
const reach = `(m.original_topic = COALESCE((
		SELECT regexp_replace(m.dlq_topic, o.expression, o.replacement)
		FROM unnest(@origin_expressions::text[], @origin_replacements::text[]) WITH ORDINALITY AS o (expression, replacement, n)
		WHERE m.dlq_topic ~ o.expression
		ORDER BY o.n
		LIMIT 1), m.dlq_topic)
	OR m.original_topic ~ @within AND NOT EXISTS (
		SELECT FROM dlq.dlq_message_bodies b
		WHERE b.message_id = m.id AND b.key IS NULL AND b.value IS NULL OFFSET 0))`

// Sources of the messages m that a statement reads. The LIMIT makes the server look each
// message up by its id, because a join might read the whole table.
const (
	idsSource = `unnest(@ids::uuid[]) AS named (id)
		CROSS JOIN LATERAL (SELECT *, ctid FROM dlq.dlq_messages WHERE id = named.id LIMIT 1) AS m`
	bodySource = `dlq.dlq_message_bodies b
		CROSS JOIN LATERAL (SELECT *, ctid FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m`
	withBodies = ` JOIN dlq.dlq_message_bodies b ON b.message_id = m.id`
)

// filterArgs are the parameters of a filter.
func filterArgs(f *dlq.Filter) pgx.NamedArgs {
	args := pgx.NamedArgs{
		"topic": f.Topic, "statuses": f.EffectiveStatuses(), "error": containing(f.ErrorContains),
		"key": f.Key, "key_hash": dlq.KeyHash(f.Key, dlq.ID{}), "created_from": f.CreatedFrom, "created_to": f.CreatedTo, "ids": uuids(f.IDs),
		"within": f.Within, "verified": string(f.Verified), "group": uuid(f.Group),
		"class": dlq.StorableText(f.Class), "class_ends": classEnds(f.Class), "consumer_group": dlq.StorableText(f.ConsumerGroup),
		"origin_partition": f.OriginPartition, "origin_offset": f.OriginOffset,
		"trace_id": dlq.StorableText(f.TraceID), "correlation_id": dlq.StorableText(f.CorrelationID),
	}
	for i, name := range slices.Sorted(maps.Keys(f.Headers)) {
		args[numbered("header_name", i)], args[numbered("header_value", i)] = []byte(name), []byte(f.Headers[name])
	}
	for i, path := range slices.Sorted(maps.Keys(f.Payload)) {
		args[numbered("path", i)] = dlq.PayloadPath(dlq.StorableText(path))
		args[numbered("path_value", i)] = dlq.StorableText(f.Payload[path])
	}
	return args
}

func numbered(name string, i int) string { return name + "_" + strconv.Itoa(i) }

// conditions are those of a filter on a message m, besides topic and status, and on its
// body b if an index of bodies finds the messages.
func conditions(f *dlq.Filter) string {
	var b strings.Builder
	if f.ErrorContains != "" {
		b.WriteString(" AND m.error_message" + asciiCollation(f.ErrorContains) + " ILIKE @error")
	}
	if f.Key != nil {
		b.WriteString(" AND m.key_hash = @key_hash AND b.key = @key")
	}
	b.WriteString(lookups(f, true))
	if !f.CreatedFrom.IsZero() {
		b.WriteString(" AND m.created_at >= @created_from")
	}
	if !f.CreatedTo.IsZero() {
		b.WriteString(" AND m.created_at < @created_to")
	}
	if !f.Group.IsZero() {
		b.WriteString(" AND m.group_id = @group")
	}
	if f.Suspicious != nil {
		b.WriteString(map[bool]string{true: " AND m.suspicious", false: " AND NOT m.suspicious"}[*f.Suspicious])
	}
	if f.Class != "" {
		b.WriteString(` AND (m.error_class = @class OR m.error_class LIKE ANY (@class_ends::text[])` +
			` OR EXISTS (SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id` +
			` AND (b.cause_class = @class OR b.cause_class LIKE ANY (@class_ends::text[])) OFFSET 0))`)
	}
	if f.ConsumerGroup != "" {
		b.WriteString(ofBody("b.consumer_group = @consumer_group"))
	}
	if f.OriginPartition != nil && f.OriginOffset == nil {
		b.WriteString(ofBody("b.origin_partition = @origin_partition"))
	}
	for i := range len(f.Payload) {
		b.WriteString(" AND m.payload #>> @" + numbered("path", i) + "::text[] = @" + numbered("path_value", i) +
			" AND jsonb_typeof(m.payload #> @" + numbered("path", i) + "::text[]) NOT IN ('object', 'array')")
	}
	for i := range len(f.Headers) {
		b.WriteString(ofBody("dlq.has_header(b.headers, @" + numbered("header_name", i) + ", @" + numbered("header_value", i) + ")"))
	}
	if f.Verified != "" {
		b.WriteString(" AND split_part(" + verdictOf + ", ' ', 1) = @verified")
	}
	if f.Within != "" {
		b.WriteString(" AND m.dlq_topic ~ @within")
	}
	return b.String()
}

// ofBody is a condition on the body of a message. The OFFSET keeps it from becoming a join
// that reads all bodies.
func ofBody(condition string) string {
	return " AND EXISTS (SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id AND " + condition + " OFFSET 0)"
}

// lookups are the conditions of a filter that an index of bodies answers: all of them, or only
// the first.
func lookups(f *dlq.Filter, all bool) string {
	var found []string
	if f.OriginOffset != nil {
		found = append(found, " AND b.origin_offset = @origin_offset")
		if f.OriginPartition != nil {
			found[0] += " AND b.origin_partition = @origin_partition"
		}
	}
	if f.TraceID != "" {
		found = append(found, " AND b.trace_id <> '' AND b.trace_id = @trace_id")
	}
	if f.CorrelationID != "" {
		found = append(found, " AND b.correlation_id <> '' AND b.correlation_id = @correlation_id")
	}
	if f.Key != nil {
		found = append(found, " AND b.key_hash = @key_hash AND b.key IS NOT NULL")
	}
	if !all && len(found) > 1 {
		found = found[:1]
	}
	return strings.Join(found, "")
}

// filtered puts a filter into a statement. Messages with given ids are looked up by these,
// those with a given key, origin or id of a trace by their body, all others by their topic.
func filtered(sql string, f *dlq.Filter) string {
	source := "dlq.dlq_messages m"
	switch {
	case len(f.IDs) > 0 && f.IsLookup():
		source = idsSource + withBodies
	case len(f.IDs) > 0:
		source = idsSource
	case f.IsLookup():
		source = bodySource
	}
	sql = strings.ReplaceAll(sql, sourceMark, source)
	if f.Archived { // before the conditions, which may read both tables
		sql = archived(sql)
	}
	if f.Within != "" {
		sql = strings.ReplaceAll(sql, reachMark, reach)
	}
	return strings.ReplaceAll(sql, filterMark, "true"+conditions(f))
}

// archived makes a statement read archived messages instead of the others.
func archived(sql string) string {
	return strings.ReplaceAll(sql, "dlq.dlq_messages ", "dlq.dlq_messages_archive ")
}

// isSearch reports whether a scan of a topic may read many messages that the filter
// excludes.
func isSearch(f *dlq.Filter) bool {
	return len(f.IDs) == 0 && !f.IsLookup() && conditions(f) != ""
}

// asciiCollation avoids the case folding of non-ASCII letters when the search text has
// none. In most locales that folding takes half the time of a search. Non-ASCII characters
// that fold to an ASCII letter, like the Kelvin sign, do not match then.
func asciiCollation(part string) string {
	if !isASCII(dlq.StorableText(part)) {
		return ""
	}
	return ` COLLATE "C"`
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// containing is a pattern for texts with this part.
func containing(part string) string { return "%" + escapeLike(dlq.StorableText(part)) + "%" }

// classEnds are patterns for classes whose last part this is.
func classEnds(name string) []string {
	patterns := dlq.ClassSuffixes(dlq.StorableText(name))
	for i, suffix := range patterns {
		patterns[i] = "%" + escapeLike(suffix)
	}
	return patterns
}

// escapeLike escapes the wildcards of LIKE.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace
