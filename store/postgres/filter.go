package postgres

import (
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// Marks in the statements that a filter replaces.
const (
	filterMark = "true /* filter */"
	sourceMark = "dlq.dlq_messages m /* source */"
)

// Sources of the messages m that a statement reads. The LIMIT makes the server look each
// message up by its id, because a join might read the whole table.
const (
	idsSource = `unnest(@ids::uuid[]) AS named (id)
		CROSS JOIN LATERAL (SELECT *, ctid FROM dlq.dlq_messages WHERE id = named.id LIMIT 1) AS m`
	keySource = `dlq.dlq_message_bodies b
		CROSS JOIN LATERAL (SELECT *, ctid FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m`
	withBodies = ` JOIN dlq.dlq_message_bodies b ON b.message_id = m.id`
)

// filterArgs are the parameters of a filter.
func filterArgs(f *dlq.Filter) pgx.NamedArgs {
	return pgx.NamedArgs{
		"topic": f.Topic, "statuses": f.EffectiveStatuses(), "error": "%" + escapeLike(dlq.StorableText(f.ErrorContains)) + "%",
		"key": f.Key, "key_hash": dlq.KeyHash(f.Key, dlq.ID{}), "created_from": f.CreatedFrom, "created_to": f.CreatedTo, "ids": uuids(f.IDs),
		"within": f.Within, "group": uuid(f.Group),
	}
}

// conditions are those of a filter on a message m, besides topic and status, and on its
// body b if the filter has a key.
func conditions(f *dlq.Filter) string {
	var b strings.Builder
	if f.ErrorContains != "" {
		b.WriteString(" AND m.error_message" + asciiCollation(f.ErrorContains) + " ILIKE @error")
	}
	if f.Key != nil {
		b.WriteString(" AND m.key_hash = @key_hash AND b.key_hash = @key_hash AND b.key = @key")
	}
	if !f.CreatedFrom.IsZero() {
		b.WriteString(" AND m.created_at >= @created_from")
	}
	if !f.CreatedTo.IsZero() {
		b.WriteString(" AND m.created_at < @created_to")
	}
	if !f.Group.IsZero() {
		b.WriteString(" AND m.group_id = @group")
	}
	if f.Within != "" {
		b.WriteString(" AND m.dlq_topic ~ @within")
	}
	return b.String()
}

// filtered puts a filter into a statement. Messages with given ids or a given key are
// looked up by these, all others by their topic.
func filtered(sql string, f *dlq.Filter) string {
	source := "dlq.dlq_messages m"
	switch {
	case len(f.IDs) > 0 && f.Key != nil:
		source = idsSource + withBodies
	case len(f.IDs) > 0:
		source = idsSource
	case f.Key != nil:
		source = keySource
	}
	return strings.NewReplacer(filterMark, "true"+conditions(f), sourceMark, source).Replace(sql)
}

// isSearch reports whether a scan of a topic may read many messages that the filter
// excludes.
func isSearch(f *dlq.Filter) bool {
	return len(f.IDs) == 0 && f.Key == nil && conditions(f) != ""
}

// asciiCollation avoids the case folding of non-ASCII letters when the search text has
// none. In most locales that folding takes half the time of a search. Non-ASCII characters
// that fold to an ASCII letter, like the Kelvin sign, do not match then.
func asciiCollation(part string) string {
	if strings.ContainsFunc(dlq.StorableText(part), func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	return ` COLLATE "C"`
}

// escapeLike escapes the wildcards of LIKE.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace
