package dlq

import (
	"strings"

	"dlqmanager/dlq/fingerprint"
)

// maxGroupTitle is the most characters of a title.
const maxGroupTitle = 200

// GroupTitle describes a group in one line, such as "java.lang.IllegalStateException:
// com.example.Orders.price".
func GroupTitle(f *fingerprint.Fingerprint) string {
	if f.Rule == RuleOverflow {
		return "all further failures in " + f.Scope
	}
	where := f.Message
	switch {
	case where == "":
		where = f.Frame
	case f.Rule == fingerprint.RuleFrame: // a part of the message tells causes in one frame apart
		where = f.Frame + " (" + f.Message + ")"
	}
	var parts []string
	for _, part := range []string{f.Class, where} {
		if words := strings.Fields(part); len(words) > 0 {
			parts = append(parts, strings.Join(words, " "))
		}
	}
	if len(parts) == 0 {
		return "no error is known"
	}
	title := []rune(strings.Join(parts, ": "))
	if len(title) > maxGroupTitle {
		return string(title[:maxGroupTitle-1]) + "…"
	}
	return string(title)
}
