package postgres

import (
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Rows that were written by hand may hold an infinite time, which Go cannot represent. Such a time
// must not fail a whole list. It is read as the last or the first time that an int64 of microseconds
// can express. Both times are beyond the range of PostgreSQL's finite times.
var (
	endOfTime   = time.UnixMicro(math.MaxInt64).UTC()
	startOfTime = time.UnixMicro(math.MinInt64).UTC()
	// minTimestamp is the first finite time of PostgreSQL, in 4714 BC.
	minTimestamp = time.Date(-4713, time.November, 24, 0, 0, 0, 0, time.UTC)
)

// instant is a scan target for a time, in UTC. NULL becomes the zero time.
type instant struct{ at *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (i instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i.at = timeOf(v)
	return nil
}

// optionalInstant is an instant whose column may be NULL, which becomes nil.
type optionalInstant struct{ at **time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (i optionalInstant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*i.at = nil
	if v.Valid {
		at := timeOf(v)
		*i.at = &at
	}
	return nil
}

func timeOf(v pgtype.Timestamptz) time.Time {
	switch v.InfinityModifier {
	case pgtype.Infinity:
		return endOfTime
	case pgtype.NegativeInfinity:
		return startOfTime
	default:
		return v.Time.UTC()
	}
}

// timestamptz is the inverse of timeOf.
func timestamptz(t time.Time) pgtype.Timestamptz {
	v := pgtype.Timestamptz{Time: t, Valid: true}
	switch {
	case !t.Before(endOfTime):
		v.InfinityModifier = pgtype.Infinity
	case t.Before(minTimestamp):
		v.InfinityModifier = pgtype.NegativeInfinity
	}
	return v
}
