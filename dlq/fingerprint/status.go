package fingerprint

import (
	"bytes"
	"strings"
)

// keepNumber keeps the numbers that tell causes apart: a status of HTTP and a state of SQL.
func (s *scanner) keepNumber(c string) bool {
	if isStatus(c) && s.sayStatus() {
		s.status, s.previous = true, ""
		s.addName("status", c)
		return true
	}
	return false
}

// keepPart does the same for a number in a chunk: "status:503", "ORA-00001".
func (s *scanner) keepPart(c string, i int) bool {
	number := c[i : i+leadingDigits(c[i:])]
	switch {
	case c[:i] == "ORA-":
		s.addName("code", "ORA-"+number)
		return true
	case i+len(number) == len(c):
		return s.keepNumber(number)
	}
	return false
}

func (s *scanner) isSQLState() bool {
	return equal(s.previous, "sqlstate")
}

func isStatus(c string) bool {
	return len(c) == 3 && (c[0] == '4' || c[0] == '5') && isDigit(c[1]) && isDigit(c[2])
}

// sayStatus reports whether the words around a number say that it is a status.
func (s *scanner) sayStatus() bool {
	pos := s.pos
	for pos < len(s.in) && pos < s.pos+4 && strings.IndexByte(" :(\"", s.in[pos]) >= 0 {
		pos++
	}
	first, second := s.ahead(pos)
	if isReason(first, second) {
		return true
	}
	if s.opensMessage() || bytes.HasSuffix(s.out, []byte(varURL+": ")) {
		return true
	}
	switch strings.ToLower(s.previous) {
	case "status", "code", "http", "statuscode", "responded", "response":
		return true
	case "returned", "got", "with", "error", "answered", "received", "failed", "replied":
		next, _ := wordAt(s.in, s.pos)
		return next == ""
	case "a", "an":
		return first == "error" || first == "response"
	}
	return false
}

// opensMessage recognizes "404 : [no body]", "404 NOT_FOUND from …" and "[404] during [GET]".
func (s *scanner) opensMessage() bool {
	rest := s.in[s.pos:]
	switch {
	case s.inner: // quoted data
	case len(s.out) == 0:
		return strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, " :") || startsReason(rest)
	case len(s.out) == 1 && s.out[0] == '[':
		return strings.HasPrefix(rest, "]")
	}
	return false
}

// startsReason recognizes " NOT_FOUND" and " Client Error".
func startsReason(text string) bool {
	i := 1
	for i < len(text) && i < 16 && (isUpper(text[i]) || isLower(text[i]) || text[i] == '_') {
		i++
	}
	return i > 4 && text[0] == ' ' && isUpper(text[1]) && endsChunk(text[i:])
}

// isReason recognizes the start of a reason phrase.
func isReason(first, second string) bool {
	switch first {
	case "Unauthorized", "Forbidden", "Conflict", "Gone", "Locked", "Unprocessable":
		return true
	case "Not":
		return second == "Found" || second == "Acceptable" || second == "Implemented"
	case "Bad":
		return second == "Request" || second == "Gateway"
	case "Internal", "Client", "Server":
		return second == "Server" || second == "Error"
	case "Service":
		return second == "Unavailable"
	case "Gateway", "Request":
		return second == "Timeout" || second == "Time"
	case "Method":
		return second == "Not"
	case "Too":
		return second == "Many"
	case "Payload", "Payment", "Precondition", "Unsupported":
		return second != ""
	}
	return false
}
