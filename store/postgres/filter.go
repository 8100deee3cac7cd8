package postgres

import (
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// Marks in the statements that a filter, or the order and the cursor of a list, replaces.
const (
	filterMark = "true /* filter */"
	sourceMark = "dlq.dlq_messages m /* source */"
	reachMark  = "true /* reach */"
	afterMark  = "true /* after */"
	descMark   = "DESC /* order */"
)

// reach is the rule of dlq.Topics.MaySend, for a job that is limited to the topics that match
// @within. Other jobs do not evaluate reach.
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
		CROSS JOIN LATERAL (SELECT *, ctid, xmax FROM dlq.dlq_messages WHERE id = named.id LIMIT 1) AS m`
	bodySource = `dlq.dlq_message_bodies b
		CROSS JOIN LATERAL (SELECT *, ctid, xmax FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m`
	withBodies = ` JOIN dlq.dlq_message_bodies b ON b.message_id = m.id`
)

// condition compares the message m, or its body b, with the value of a field.
type condition struct{ message, body string }

// ofKey finds the bodies of a key by an index. Few other keys have the same hash.
const ofKey = "b.key_hash = @key_hash AND b.key IS NOT NULL"

// filterConditions has the condition of each field in dlq.FilterFields. The parameter of a condition
// has the name of the field. The statements themselves compare statuses and ids.
var filterConditions = map[string]condition{
	"status":       {},
	"ids":          {},
	"error":        {message: "m.error_message ILIKE @error"},
	"key":          {message: "m.key_hash = @key_hash", body: ofKey + " AND b.key = @key"},
	"created_from": {message: "m.created_at >= @created_from"},
	"created_to":   {message: "m.created_at < @created_to"},
	"group":        {message: "m.group_id = @group"},
	"class": {message: `(m.error_class LIKE ANY (@class::text[]) OR EXISTS (
		SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id AND b.cause_class LIKE ANY (@class::text[]) OFFSET 0))`},
	"consumer_group":   {body: "b.consumer_group = @consumer_group"},
	"origin_partition": {body: "b.origin_partition = @origin_partition"},
	"origin_offset":    {body: "b.origin_offset = @origin_offset"},
	"trace_id":         {body: "b.trace_id <> '' AND b.trace_id = @trace_id"},
	"correlation_id":   {body: "b.correlation_id <> '' AND b.correlation_id = @correlation_id"},
	"suspicious":       {message: "m.suspicious"},
	"headers": {body: `(
		SELECT bool_and(COALESCE(dlq.has_header(b.headers, h.name, h.value), false))
		FROM unnest(@headers_names::bytea[], @headers_values::bytea[]) AS h (name, value))`},
	"payload": {message: `(
		SELECT bool_and(COALESCE(m.payload #>> string_to_array(p.name, '.') = p.value
			AND jsonb_typeof(m.payload #> string_to_array(p.name, '.')) NOT IN ('object', 'array'), false))
		FROM unnest(@payload_names::text[], @payload_values::text[]) AS p (name, value))`},
	"verified": {message: "split_part(" + verdictOf + ", ' ', 1) = @verified"},
	"within":   {message: "m.dlq_topic ~ @within"},
}

func filterArgs(f *dlq.Filter) pgx.NamedArgs {
	args := pgx.NamedArgs{"topic": f.Topic, "statuses": f.EffectiveStatuses(), "within": ""}
	addFilterArgs(args, "", f)
	for i := range f.Not {
		addFilterArgs(args, prefixOf(i), &f.Not[i])
	}
	return args
}

func addFilterArgs(args pgx.NamedArgs, prefix string, f *dlq.Filter) {
	for _, field := range f.Given() {
		name := prefix + field.Name
		switch value := field.At(f).(type) {
		case *string:
			args[name] = dlq.StorableText(*value)
		case *[]byte:
			args[name], args[name+"_hash"] = *value, dlq.KeyHash(*value, dlq.ID{})
		case *dlq.ID:
			args[name] = uuid(*value)
		case *[]dlq.ID:
			args[name] = uuids(*value)
		case *map[string]string:
			args[name+"_names"], args[name+"_values"] = pairs(*value)
		default:
			args[name] = reflect.ValueOf(value).Elem().Interface()
		}
	}
	if f.ErrorContains != "" {
		args[prefix+"error"] = containing(f.ErrorContains)
	}
	if f.Class != "" {
		args[prefix+"class"] = classPatterns(f.Class)
	}
}

// prefixOf begins the names of the parameters of a negation.
func prefixOf(negation int) string { return "not_" + strconv.Itoa(negation) + "_" }

// pairs are names and their texts, which a statement reads as BYTEA or TEXT.
func pairs(texts map[string]string) (names, values [][]byte) {
	for name, text := range texts {
		names, values = append(names, []byte(dlq.StorableText(name))), append(values, []byte(dlq.StorableText(text)))
	}
	return names, values
}

// conditions are the conditions of a filter on a message m, except topic and status. If an index of
// bodies finds the messages, some of the conditions are on the body b.
func conditions(f *dlq.Filter) string {
	var sql strings.Builder
	sql.WriteString(matching(f, f.IsLookup()))
	for i := range f.Not {
		negated := strings.ReplaceAll(matching(&f.Not[i], false), "@", "@"+prefixOf(i))
		sql.WriteString(" AND (true" + negated + ") IS NOT TRUE")
	}
	return sql.String()
}

// matching are the conditions of the fields of a filter. isJoined is set if the statement has the body
// b. Otherwise the OFFSET keeps the condition on the body from becoming a join that reads all bodies.
func matching(f *dlq.Filter, isJoined bool) string {
	var sql strings.Builder
	for _, field := range f.Given() {
		c := filterConditions[field.Name]
		if flag, isFlag := field.At(f).(**bool); isFlag && !**flag { // an index has the condition
			c.message = "NOT " + c.message
		}
		if field.Name == "error" {
			c.message = strings.Replace(c.message, "error_message", "error_message"+asciiCollation(f.ErrorContains), 1)
		}
		if c.message != "" {
			sql.WriteString(" AND " + c.message)
		}
		switch {
		case c.body != "" && isJoined:
			sql.WriteString(" AND " + c.body)
		case c.body != "":
			sql.WriteString(" AND EXISTS (SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = m.id AND " + c.body + " OFFSET 0)")
		}
	}
	return sql.String()
}

// probe is the condition of one index of bodies that finds the messages of a filter.
func probe(f *dlq.Filter) string {
	for _, field := range f.Given() {
		switch {
		case field.Name == "origin_offset" && f.OriginPartition != nil:
			return filterConditions["origin_offset"].body + " AND " + filterConditions["origin_partition"].body
		case field.Is(dlq.ByBody) && field.Name != "key":
			return filterConditions[field.Name].body
		}
	}
	return ofKey
}

// filtered puts a filter into a statement. If the filter has ids, the statement finds messages by
// their ids. If the filter has a key, an origin or the id of a trace, the statement finds messages by
// their bodies. Otherwise it finds messages by their topic.
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

// archived makes a statement read the archive instead of dlq_messages, except where dlq_messages ends a line.
func archived(sql string) string {
	return strings.ReplaceAll(sql, "dlq.dlq_messages ", "dlq.dlq_messages_archive ")
}

// isSearch reports whether a scan of a topic may read many messages that the filter excludes.
func isSearch(f *dlq.Filter) bool {
	return len(f.IDs) == 0 && !f.IsLookup() && conditions(f) != ""
}

// asciiCollation avoids the case folding of non-ASCII letters when the search text has no such
// letters. In most locales the folding takes half the time of a search. Non-ASCII characters
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

func containing(part string) string { return "%" + escapeLike(dlq.StorableText(part)) + "%" }

// classPatterns are patterns for the given class, and for classes whose last part is the given name.
func classPatterns(name string) []string {
	name = dlq.StorableText(name)
	patterns := []string{escapeLike(name)}
	for _, suffix := range dlq.ClassSuffixes(name) {
		patterns = append(patterns, "%"+escapeLike(suffix))
	}
	return patterns
}

var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace
