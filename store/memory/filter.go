package memory

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"dlqmanager/dlq"
)

// matches applies a filter.
func matches(e *entry, f *dlq.Filter) bool {
	return inTopic(e, f.Topic) &&
		slices.Contains(f.EffectiveStatuses(), e.Status) &&
		(f.Key == nil || e.Record.Key != nil && bytes.Equal(f.Key, e.Record.Key)) &&
		(f.CreatedFrom.IsZero() || !e.CreatedAt.Before(f.CreatedFrom)) &&
		(f.CreatedTo.IsZero() || e.CreatedAt.Before(f.CreatedTo)) &&
		isWithin(e.DLQTopic, f.Within) &&
		(f.Group.IsZero() || f.Group == e.GroupID) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, e.ID)) &&
		(f.ErrorContains == "" || strings.Contains(strings.ToLower(e.ErrorMessage), strings.ToLower(dlq.StorableText(f.ErrorContains))))
}

// isWithin reports whether a topic matches the expression of a principal; see
// dlq.Principal.Within.
func isWithin(topic, within string) bool {
	if within == "" {
		return true
	}
	matched, err := regexp.MatchString(within, topic)
	return err == nil && matched
}

func inTopic(e *entry, topic string) bool { return e.DLQTopic == topic || e.OriginalTopic == topic }
