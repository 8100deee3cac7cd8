package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration in the form of the configuration. This is Go's form, such as "1h30m" or "500ms", with optional
// days in front of it, such as "30d" or "1d12h".
type Duration time.Duration

const day = 24 * time.Hour

var daysPart = regexp.MustCompile(`^(\d+)d(.*)$`)

// ParseDuration reads a Duration. It needs a unit, and cannot be negative.
func ParseDuration(text string) (Duration, error) {
	fail := fmt.Errorf("must be a duration with a unit, such as 10s, 5m, 720h or 30d, not %q", text)
	var total time.Duration
	rest := text
	if match := daysPart.FindStringSubmatch(text); match != nil {
		days, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil || days > int64((1<<63-1)/day) {
			return 0, fmt.Errorf("is too long: %q", text)
		}
		total, rest = time.Duration(days)*day, match[2]
	}
	if rest != "" || text == "" {
		part, err := time.ParseDuration(rest)
		if err != nil {
			return 0, fail
		}
		if part < 0 || strings.ContainsAny(rest, "+-") {
			return 0, fmt.Errorf("must not be negative or signed: %q", text)
		}
		total += part
		if total < 0 {
			return 0, fmt.Errorf("is too long: %q", text)
		}
	}
	return Duration(total), nil
}

// Std returns the time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is the form that ParseDuration reads. It writes whole days as days.
func (d Duration) String() string {
	if d > 0 && time.Duration(d)%day == 0 {
		return strconv.FormatInt(int64(time.Duration(d)/day), 10) + "d"
	}
	text := time.Duration(d).String()
	if short, found := strings.CutSuffix(text, "m0s"); found {
		text = short + "m"
	}
	if short, found := strings.CutSuffix(text, "h0m"); found {
		text = short + "h"
	}
	return text
}

// UnmarshalText reads the form of ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err == nil {
		*d = parsed
	}
	return err
}
