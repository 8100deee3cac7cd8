package dlq

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dlqmanager/dlq/fingerprint"
)

// DefaultGroupHeader is the header in which a consumer can name the group of a dead letter.
const DefaultGroupHeader = "dlq-fingerprint"

// Grouping decides which dead letters failed for the same cause. A nil Grouping has the default header and no rules.
type Grouping struct {
	header string
	rules  []groupRule
}

// groupRule names the group of failures that match a glob.
type groupRule struct {
	glob    string
	matches *regexp.Regexp
	name    string
}

// NewGrouping returns a grouping with explicit groups: the group that the header names comes first, then the groups of rules.
// If header is empty, no header names a group. A rule maps a glob, in which * stands for any run of characters and ? for a
// character, to a group. The glob is matched with "class: message" of the error, where the class may also be the class of
// the cause. Of several globs that match, the longest counts.
func NewGrouping(header string, rules map[string]string) (*Grouping, error) {
	g := &Grouping{header: header}
	for glob, name := range rules {
		switch {
		case strings.Trim(glob, "*?") == "":
			return nil, fmt.Errorf("%q matches every failure", glob)
		case name == "":
			return nil, fmt.Errorf("%q needs the name of a group", glob)
		}
		expression := anyRun.Replace(regexp.QuoteMeta(glob))
		g.rules = append(g.rules, groupRule{glob: glob, matches: regexp.MustCompile("(?s)^" + expression + "$"), name: name})
	}
	slices.SortFunc(g.rules, func(a, b groupRule) int {
		return cmp.Or(cmp.Compare(len(b.glob), len(a.glob)), cmp.Compare(a.glob, b.glob))
	})
	return g, nil
}

// anyRun is for globs that regexp.QuoteMeta has quoted.
var anyRun = strings.NewReplacer(`\*`, ".*", `\?`, ".")

// Fingerprint is the fingerprint of an arrival. All other fields of the arrival must be set before.
func (g *Grouping) Fingerprint(a *Arrival) fingerprint.Fingerprint {
	return fingerprint.Of(fingerprint.Failure{
		Explicit:      g.explicit(a),
		ConsumerGroup: a.Origin.ConsumerGroup,
		DLQTopic:      a.DLQTopic,
		ErrorClass:    a.ErrorClass,
		CauseClass:    a.CauseClass,
		Message:       a.ErrorMessage,
		StackTrace:    a.StackTrace,
	})
}

func (g *Grouping) explicit(a *Arrival) string {
	header := DefaultGroupHeader
	if g != nil {
		header = g.header
	}
	for _, h := range slices.Backward(a.Record.Headers) { // the newest header first
		if header != "" && h.Key == header && len(h.Value) > 0 {
			return bounded(string(h.Value), maxOperationName)
		}
	}
	if g == nil {
		return ""
	}
	message := a.ErrorMessage[:min(len(a.ErrorMessage), maxShortText)]
	for _, rule := range g.rules {
		if rule.matches.MatchString(a.ErrorClass+": "+message) || a.CauseClass != "" && rule.matches.MatchString(a.CauseClass+": "+message) {
			return rule.name
		}
	}
	return ""
}
