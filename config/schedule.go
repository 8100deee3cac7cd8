package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

var scheduleNames = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// cronFields are the five fields of a cron expression with their allowed values.
var cronFields = []struct {
	name        string
	least, most int
	words       []string // words[i] is another name of least+i
}{
	{name: "minute", least: 0, most: 59},
	{name: "hour", least: 0, most: 23},
	{name: "day of the month", least: 1, most: 31},
	{name: "month", least: 1, most: 12, words: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{name: "day of the week", least: 0, most: 7, words: strings.Fields("sun mon tue wed thu fri sat")},
}

// checkSchedule accepts the common forms of Temporal's schedules: five cron fields, names such as @daily, and @every with a
// duration. Temporal refuses an invalid schedule only after the worker has started.
func checkSchedule(text string) error {
	if every, found := strings.CutPrefix(text, "@every "); found {
		if d, err := time.ParseDuration(every); err != nil || d < time.Second {
			return fmt.Errorf("needs a duration of at least 1s after @every, such as @every 6h, not %q", every)
		}
		return nil
	}
	if slices.Contains(scheduleNames, text) {
		return nil
	}
	fields := strings.Fields(text)
	if len(fields) != len(cronFields) {
		return fmt.Errorf("must be a cron expression of five fields, such as 15 3 * * *, or one of %s, not %q",
			strings.Join(scheduleNames, ", "), text)
	}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			if !cronPartFits(i, part) {
				return fmt.Errorf("has a %s that cannot be: %q", cronFields[i].name, field)
			}
		}
	}
	return nil
}

// cronPartFits accepts *, n and n-m, each also with /step.
func cronPartFits(field int, part string) bool {
	span, step, stepped := strings.Cut(part, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n < 1 {
			return false
		}
	}
	if span == "*" {
		return true
	}
	from, to, ranged := strings.Cut(span, "-")
	first, ok := cronNumber(field, from)
	if !ok || !ranged {
		return ok
	}
	last, ok := cronNumber(field, to)
	return ok && first <= last
}

func cronNumber(field int, text string) (int, bool) {
	f := cronFields[field]
	if i := slices.Index(f.words, strings.ToLower(text)); i >= 0 {
		return f.least + i, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.least && n <= f.most
}
