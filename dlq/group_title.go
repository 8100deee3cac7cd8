package dlq

import (
	"strings"
	"unicode"

	"dlqmanager/dlq/fingerprint"
	"dlqmanager/dlq/masking"
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
	return shortened(strings.Join(parts, ": "), maxGroupTitle)
}

// GroupPlace describes a group by the class of its errors, if the class is the name of a type, and by the frame. The message of
// the errors may quote hidden values, so it is left out.
func GroupPlace(f *fingerprint.Fingerprint) string {
	place := *f
	place.Message = ""
	if !IsTypeName(f.Class) {
		place.Class = ""
	}
	if place.Class+place.Frame == "" && f.Rule != RuleOverflow {
		return masking.Hidden
	}
	return GroupTitle(&place)
}

// IsTypeName reports whether the class of an error can be the name of a type. Any other class may quote anything.
func IsTypeName(class string) bool {
	return !strings.ContainsFunc(class, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune(`._$:\/<>`+"`", c)
	})
}
