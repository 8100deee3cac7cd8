package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. It is written as a plain number, or with one of the units B, KiB, MiB and GiB. Every size is below
// 2 GiB.
type Size int

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for _, u := range sizeUnits {
		if before, found := strings.CutSuffix(digits, u.suffix); found {
			digits, unit = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32/unit {
		return fmt.Errorf("must be a number of bytes such as 1048576, 512KiB or 4MiB, not %q", text)
	}
	*s = Size(n * unit)
	return nil
}

// Bytes is the size as a number.
func (s Size) Bytes() int { return int(s) }

// String is the form that UnmarshalText reads. It has the largest unit in which the size is a whole number.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0B"
}
