package fingerprint

import "strings"

// classify returns the placeholder for a run of letters and digits, or "" for a word. A word
// with digits at one end only, such as "utf8", is a word and a number.
func classify(run string) string {
	digits, letters, changes := 0, 0, 0
	hex := true
	for i := range len(run) {
		c := run[i]
		if isDigit(c) {
			digits++
		} else {
			letters++
			hex = hex && 'a' <= c|0x20 && c|0x20 <= 'f'
		}
		if i > 0 && isDigit(c) != isDigit(run[i-1]) {
			changes++
		}
	}
	switch {
	case letters == 0:
		return varNumber
	case hex && (digits > 0 && len(run) >= 8 || len(run) >= 16):
		return hexKind(len(run))
	case len(run) > 2 && run[0] == '0' && run[1]|0x20 == 'x' && isHex(run[2:]):
		return varHex
	case changes >= 2:
		return varID
	}
	return ""
}

func hexKind(length int) string {
	switch length {
	case 16, 32:
		return varTrace
	case 40, 56, 64, 96, 128:
		return varHash
	}
	return varHex
}

func isHex(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) && (s[i]|0x20 < 'a' || s[i]|0x20 > 'f') {
			return false
		}
	}
	return s != ""
}

// isUUID checks 36 bytes.
func isUUID(s string) bool {
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if !isHex(s[i : i+1]) {
			return false
		}
	}
	return true
}

// isNumber accepts a sign, digits with points and commas between them, an exponent and a percent sign.
func isNumber(s string) bool {
	s = strings.TrimSuffix(strings.TrimLeft(s[:1], "+-")+s[1:], "%")
	digit := false
	for i := range len(s) {
		c := s[i]
		switch {
		case isDigit(c):
			digit = true
			continue
		case !digit, i+1 == len(s):
			return false
		case c == '.', c == ',', c|0x20 == 'e':
		case (c == '-' || c == '+') && s[i-1]|0x20 == 'e':
		default:
			return false
		}
		digit = c == '.' || c == ',' || c|0x20 == 'e'
	}
	return s != ""
}

// leadingDigits returns the number of digits at the start.
func leadingDigits(s string) int {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

// isDate accepts dates of three numbers, times of two or three, and both together.
func isDate(s string) bool {
	a := leadingDigits(s)
	if a == 0 || a == len(s) || a > 4 {
		return false
	}
	sep := s[a]
	b := leadingDigits(s[a+1:])
	rest := s[a+1+b:]
	if sep == ':' {
		return a <= 2 && b == 2 && (rest == "" || rest[0] == ':') && isTimeRest(rest)
	}
	if strings.IndexByte("-/.", sep) < 0 || b == 0 || b > 2 || rest == "" || rest[0] != sep {
		return false
	}
	c := leadingDigits(rest[1:])
	rest = rest[1+c:]
	if (a != 4 || c < 1 || c > 2) && (a > 2 || c != 4) {
		return false
	}
	return rest == "" || rest[0]|0x20 == 't' && isTimeRest(rest[1:]) || strings.IndexByte(":_+", rest[0]) >= 0 && isTimeRest(rest[1:])
}

// isDateWord recognizes the words of "Tue May 14".
func isDateWord(s string) bool {
	switch s {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun",
		"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec":
		return true
	}
	return false
}

// dateFollows reports whether a number or another word of a date comes next.
func (s *scanner) dateFollows() bool {
	if s.pos+1 < len(s.in) && s.in[s.pos] == ' ' && isDigit(s.in[s.pos+1]) {
		return true
	}
	first, _ := wordAt(s.in, s.pos)
	return isDateWord(first)
}

// isTimeRest accepts what can follow a date or an hour.
func isTimeRest(s string) bool {
	return strings.Trim(s, "0123456789:.,+-ZTz") == ""
}

// isDuration accepts "300ms", "1.5s" and "1h2m3s".
func isDuration(s string) bool {
	for s != "" {
		n := leadingDigits(s)
		if n > 0 && n+1 < len(s) && s[n] == '.' {
			n += 1 + leadingDigits(s[n+1:])
		}
		if n == 0 {
			return false
		}
		s = s[n:]
		u := 0
		for u < len(s) && isLetter(s[u]) {
			u++
		}
		if !isUnit(s[:u]) {
			return false
		}
		s = s[u:]
	}
	return true
}

// isISODuration accepts "PT1.5S" and "P1DT2H".
func isISODuration(s string) bool {
	return len(s) > 2 && s[0] == 'P' && strings.Trim(s[1:], "0123456789.TDHMSW") == "" &&
		(isDigit(s[1]) || s[1] == 'T' && isDigit(s[2])) && !isDigit(s[len(s)-1])
}

func isUnit(s string) bool {
	switch s {
	case "ns", "us", "µs", "ms", "s", "m", "h", "d", "sec", "secs", "second", "seconds", "min", "mins", "minute", "minutes",
		"hour", "hours", "hr", "hrs", "day", "days", "millis", "millisecond", "milliseconds", "nanoseconds", "microseconds":
		return true
	}
	return false
}
