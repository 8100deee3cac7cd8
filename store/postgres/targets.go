package postgres

import (
	"strings"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// Marks in the statements, after an original topic, which targeted replaces by the target. A
// route mark stands for a message of another job, which may have another requested target.
const (
	targetMark = ".original_topic /* target */"
	routeMark  = ".original_topic /* route */"
)

// markedAliases are the aliases before a mark. No longer name ends with such an alias.
var markedAliases = []string{"c", "e", "m", "p"}

// routedTarget is the target of the original topic $1 by Targets.Routes.
const routedTarget = `COALESCE((
	SELECT r.target
	FROM unnest(@route_expressions::text[], @route_targets::text[]) WITH ORDINALITY AS r (expression, target, n)
	WHERE $1 ~ r.expression
	ORDER BY r.n
	LIMIT 1), $1)`

// targeted makes a statement use the targets of the messages at its marks. The order
// of a key is kept for each target, and several original topics may have the same target.
//
// Each claim and each finalize calls targeted. With a regular expression, that took more time of the
// process than all the rest of a page.
func (s *Store) targeted(sql string, spec *dlq.BulkSpec) string {
	expressions, _ := s.Targets.Routes()
	if spec.TargetTopic == "" && len(expressions) == 0 {
		return sql // a mark is a comment
	}
	for _, alias := range markedAliases {
		routed := alias + ".original_topic"
		if len(expressions) > 0 {
			routed = strings.ReplaceAll(routedTarget, "$1", routed)
		}
		target := routed
		if spec.TargetTopic != "" {
			target = "@target_topic::text"
		}
		sql = strings.ReplaceAll(sql, alias+targetMark, target)
		sql = strings.ReplaceAll(sql, alias+routeMark, routed)
	}
	return sql
}

// addTargets adds the parameters of targeted.
func (s *Store) addTargets(args pgx.NamedArgs, spec *dlq.BulkSpec) {
	args["target_topic"] = spec.TargetTopic
	args["route_expressions"], args["route_targets"] = s.Targets.Routes()
}
