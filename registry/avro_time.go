package registry

import (
	"strings"
	"time"
)

// avroTime is a logical type whose number is a time, counted in units.
type avroTime struct {
	layout string // of the JSON
	unit   time.Duration
}

const (
	localLayout = "2006-01-02T15:04:05.999999999"
	day         = 24 * time.Hour
)

var avroTimes = map[string]avroTime{
	"date":                   {time.DateOnly, day},
	"time-millis":            {"15:04:05.000", time.Millisecond},
	"time-micros":            {"15:04:05.000000", time.Microsecond},
	"timestamp-millis":       {time.RFC3339Nano, time.Millisecond},
	"timestamp-micros":       {time.RFC3339Nano, time.Microsecond},
	"timestamp-nanos":        {time.RFC3339Nano, time.Nanosecond},
	"local-timestamp-millis": {localLayout, time.Millisecond},
	"local-timestamp-micros": {localLayout, time.Microsecond},
	"local-timestamp-nanos":  {localLayout, time.Nanosecond},
}

// isClock tells the times of a day from other times.
func (t avroTime) isClock() bool { return strings.HasPrefix(t.layout, "15") }

// at returns the time that a number stands for. ok is false for a time outside the years 1 to 9999, and for a time of day
// outside the day.
func (t avroTime) at(n int64) (at time.Time, ok bool) {
	if t.unit == day {
		at = time.Unix(0, 0).AddDate(0, 0, int(max(min(n, 1<<23), -1<<23)))
	} else {
		second := int64(time.Second / t.unit)
		at = time.Unix(n/second, n%second*int64(t.unit))
	}
	at = at.UTC()
	return at, at.Year() >= 1 && at.Year() <= 9999 && (!t.isClock() || at.Year() == 1970 && at.YearDay() == 1)
}

// number returns the number of a time in its JSON form. It returns false for a time that is finer than the unit, or out of
// range.
func (t avroTime) number(text string) (int64, bool) {
	layout := t.layout
	if t.isClock() { // with any number of digits behind the seconds
		layout, text = localLayout, "1970-01-01T"+text
	}
	at, err := time.Parse(layout, text)
	n := at.Unix() / int64(day/time.Second)
	if t.unit < time.Second {
		n = at.Unix()*int64(time.Second/t.unit) + int64(at.Nanosecond())/int64(t.unit)
	}
	back, ok := t.at(n)
	return n, err == nil && ok && back.Equal(at)
}
