package postgres

import (
	"regexp"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// targetMark is an original topic in a statement, which targeted replaces by the target. A
// route mark stands for a message of another job, which may have another requested target.
var targetMark = regexp.MustCompile(`(\w+\.original_topic) /\* (target|route) \*/`)

// routedTarget is the target of the original topic in its first argument by Targets.Routes.
const routedTarget = `COALESCE((
	SELECT r.target
	FROM unnest(@route_expressions::text[], @route_targets::text[]) WITH ORDINALITY AS r (expression, target, n)
	WHERE $1 ~ r.expression
	ORDER BY r.n
	LIMIT 1), $1)`

// targeted makes a statement use the targets of the messages where it has a targetMark. The
// order of a key is kept for each target, and several original topics may have the same one.
func (s *Store) targeted(sql string, spec *dlq.BulkSpec) string {
	expressions, _ := s.Targets.Routes()
	return targetMark.ReplaceAllStringFunc(sql, func(mark string) string {
		parts := targetMark.FindStringSubmatch(mark)
		switch {
		case parts[2] == "target" && spec.TargetTopic != "":
			return "@target_topic::text"
		case len(expressions) > 0:
			return targetArgument.ReplaceAllString(routedTarget, parts[1])
		default:
			return parts[1]
		}
	})
}

var targetArgument = regexp.MustCompile(`\$1`)

// addTargets adds the parameters of targeted.
func (s *Store) addTargets(args pgx.NamedArgs, spec *dlq.BulkSpec) {
	args["target_topic"] = spec.TargetTopic
	args["route_expressions"], args["route_targets"] = s.Targets.Routes()
}
