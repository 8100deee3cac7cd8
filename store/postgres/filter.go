package postgres

import (
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// Marks in the statements, for what a filter varies in them.
const (
	filterMark = "true /* filter */"
	sourceMark = "dlq.dlq_messages m /* source */"
)

// Sources of the messages m that a statement looks at. The LIMIT makes the server
// look messages up one by one: a join might read the whole table.
const (
	namedSource = `unnest(@ids::uuid[]) AS named (id)
		CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = named.id LIMIT 1) AS m`
	keySource = `dlq.dlq_message_bodies b
		CROSS JOIN LATERAL (SELECT * FROM dlq.dlq_messages WHERE id = b.message_id LIMIT 1) AS m`
	withBodies = ` JOIN dlq.dlq_message_bodies b ON b.message_id = m.id`
)

// filterArgs are the parameters of a filter.
func filterArgs(f *dlq.Filter) pgx.NamedArgs {
	return pgx.NamedArgs{
		"topic": f.Topic, "statuses": f.WithStatuses(), "error": "%" + escapeLike(dlq.Text(f.ErrorContains)) + "%",
		"key": f.Key, "key_hash": dlq.KeyHash(f.Key, dlq.ID{}), "created_from": f.CreatedFrom, "created_to": f.CreatedTo, "ids": uuids(f.IDs),
	}
}

// conditions are what a filter asks of a message m beside topic and status, and,
// where it names a key, of its body b.
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
	return b.String()
}

// filtered puts a filter into a statement. Messages that it names, by their ids or
// their key, are looked up; all others are found by their topic.
func filtered(sql string, f *dlq.Filter) string {
	source := "dlq.dlq_messages m"
	switch {
	case len(f.IDs) > 0 && f.Key != nil:
		source = namedSource + withBodies
	case len(f.IDs) > 0:
		source = namedSource
	case f.Key != nil:
		source = keySource
	}
	return strings.NewReplacer(filterMark, "true"+conditions(f), sourceMark, source).Replace(sql)
}

// isSearch reports whether a scan of a topic may read much that the filter drops.
func isSearch(f *dlq.Filter) bool {
	return len(f.IDs) == 0 && f.Key == nil && conditions(f) != ""
}

// asciiCollation spares the server to fold letters that the part does not have: by
// most locales' rules that takes as long as all the rest of a search. It misses
// signs that fold to a letter of ASCII, like that of the kelvin.
func asciiCollation(part string) string {
	if strings.ContainsFunc(dlq.Text(part), func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	return ` COLLATE "C"`
}

// escapeLike makes the wildcards of LIKE stand for themselves.
var escapeLike = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace
