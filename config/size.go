package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written as a plain number or with one of the units
// KiB, MiB and GiB. It is below 2 GiB.
type Size int

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize reads a Size.
func ParseSize(text string) (Size, error) {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if before, found := strings.CutSuffix(text, u.suffix); found {
			digits, unit = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt32/unit {
		return 0, fmt.Errorf("must be a number of bytes such as 1048576, 512KiB or 4MiB, not %q", text)
	}
	return Size(n * unit), nil
}

// Bytes is the size as a number.
func (s Size) Bytes() int { return int(s) }

// String is the form that ParseSize reads, in the largest unit that is exact.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return "0B"
}

// MarshalText is String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) error {
	parsed, err := ParseSize(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}
