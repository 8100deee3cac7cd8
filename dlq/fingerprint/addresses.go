package fingerprint

import "strings"

// isIPv4 accepts four numbers below 256, with a port or the length of a prefix.
func isIPv4(s string) bool {
	if i := strings.IndexAny(s, ":/"); i >= 0 {
		if n := leadingDigits(s[i+1:]); n == 0 || n != len(s)-i-1 {
			return false
		}
		s = s[:i]
	}
	for part := range 4 {
		n := leadingDigits(s)
		if n == 0 || n > 3 || n == 3 && s[:3] > "255" {
			return false
		}
		s = s[n:]
		if part < 3 {
			if s == "" || s[0] != '.' {
				return false
			}
			s = s[1:]
		}
	}
	return s == ""
}

// isIPv6 accepts eight groups, or fewer with "::".
func isIPv6(s string) bool {
	s, _, _ = strings.Cut(s, "%") // the zone
	colons := strings.Count(s, ":")
	double := strings.Contains(s, "::")
	if colons < 2 || colons > 8 || !double && colons != 7 {
		return false
	}
	group, digits := 0, 0
	for i := range len(s) {
		switch {
		case s[i] == ':':
			group = 0
		case isHex(s[i : i+1]):
			digits++
			if group++; group > 4 {
				return false
			}
		default:
			return false
		}
	}
	return digits > 0 || s == "::"
}

func isEmail(s string) bool {
	local, domain, _ := strings.Cut(s, "@")
	if local == "" || strings.IndexByte(domain, '@') >= 0 || strings.IndexByte(domain, '.') <= 0 || domain[len(domain)-1] == '.' {
		return false
	}
	for i := range len(domain) {
		if c := domain[i]; !isAlnum(c) && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// hostIn returns the host of "pricing.internal", "pricing.shop:8080" or "pricing/10.1.2.3:80".
func hostIn(c string) string {
	name, port, hasPort := cutLine(c)
	if i := strings.IndexByte(c, '/'); i > 0 && (c[i+1:] == "" || isIPv4(c[i+1:])) {
		name = c[:i]
		if name == "localhost" || isHostName(name) && c[i+1:] != "" {
			return name
		}
		return ""
	}
	dot := strings.LastIndexByte(name, '.')
	if !isHostName(name) || hasPort && len(port) > 5 {
		return ""
	}
	if dot < 0 {
		if hasPort && len(port) >= 2 && len(port) <= 5 && port[0] != '0' && name == "localhost" {
			return name
		}
		return ""
	}
	last := name[dot+1:]
	if _, known := topLevel[last]; known || hasPort && len(port) >= 2 && !isSourceFile(last) {
		return name
	}
	return ""
}

// isHostName accepts labels of lower-case letters, digits and hyphens.
func isHostName(s string) bool {
	label := 0
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
		case isLower(c), isDigit(c), c == '-' && label > 0:
			label++
		default:
			return false
		}
	}
	return label > 0 && isLower(s[0])
}

func isSourceFile(extension string) bool {
	switch extension {
	case "py", "js", "ts", "mjs", "go", "rb", "java", "kt", "cs", "php", "json", "xml", "yaml", "rs", "scala":
		return true
	}
	return false
}

// topLevel are the last labels by which a host is recognized without a port.
var topLevel = set(`
com net org edu gov io dev app cloud eu de uk fr nl ch at se no dk fi it es pl us ca au jp cn in br info biz
internal local localhost lan intra intranet corp svc cluster test example invalid home arpa
`)
