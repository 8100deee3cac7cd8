package console

import (
	"strings"
	"time"
)

// words says a filter in the language of the page.
func (f filter) words(l locale) string {
	text := f.baseWords(l)
	if isNot(f.Name) {
		return l.text("not: %s", text)
	}
	return text
}

func (f filter) baseWords(l locale) string {
	base := baseOf(f.Name)
	if name, ok := strings.CutPrefix(base, "header."); ok {
		return l.text("header %s is “%s”", name, f.Value)
	}
	if path, ok := strings.CutPrefix(base, "payload."); ok {
		return l.text("payload %s is “%s”", path, f.Value)
	}
	switch base {
	case "ids":
		return l.text("%d messages by their ids", strings.Count(f.Value, ",")+1)
	case "error":
		return l.text("error contains “%s”", f.Value)
	case "created_from":
		return l.text("stored from %s", shownTime(f.Value))
	case "created_to":
		return l.text("stored before %s", shownTime(f.Value))
	case "status":
		return l.text("status %s", strings.ReplaceAll(f.Value, ",", ", "))
	case "suspicious", "verified":
		return l.word(base, f.Value)
	default:
		return l.text("%s is “%s”", l.word("filter", base), f.Value)
	}
}

// shownTime writes the time of a parameter for people, in UTC.
func shownTime(value string) string {
	at, err := time.Parse(time.RFC3339Nano, value)
	if err != nil {
		return value
	}
	return at.UTC().Format("2006-01-02 15:04:05") + " UTC"
}
