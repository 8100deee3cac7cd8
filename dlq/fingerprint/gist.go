package fingerprint

import (
	"slices"
	"strings"
)

// gist returns the parts of a message that tell causes in one frame apart: the names in it and
// the service that failed. If there are none, these are the first words of its essence.
func (r *reading) gist(class, message, host string) string {
	if names := r.identity(host); names != "" {
		return names
	}
	if isNetworkClass(class) || simpleName(class) == "NullReferenceException" {
		return "" // the class says it all, and its text depends on the version and the language
	}
	return firstWords(r.essence(message))
}

// identity returns the names in a message and the host. A constraint says it all: what else is
// named depends on the version and the language of the database.
func (r *reading) identity(host string) string {
	if constraint := r.constraint(); constraint != "" {
		return constraint
	}
	if host != "" {
		r.names = append(r.names, host)
	}
	slices.Sort(r.names) // validators report their fields in any order
	return strings.Join(r.names, ", ")
}

func (r *reading) constraint() string {
	for _, name := range r.names {
		if strings.HasPrefix(name, "constraint ") {
			return name
		}
	}
	return ""
}

// sentence returns the text of a message and its identity. The text in which a database names
// a constraint, a column or a code depends on its language. The text behind the first of many
// names depends on their order.
func (r *reading) sentence(message, host string) string {
	names, text := r.identity(host), r.essence(message)
	switch {
	case names == "" && !hasWords(text, 1):
		return r.template
	case names == "":
		return strings.ToLower(text)
	case !hasWords(text, 1):
		return names
	}
	for _, name := range r.names {
		kind, name, _ := strings.Cut(name, " ")
		if kind == nounConstraint || kind == nounColumn || strings.HasPrefix(name, "ORA-") {
			return names
		}
		if i := strings.Index(text, name); i >= 0 && kind == nounField && len(r.names) > 1 {
			text = text[:i]
		}
	}
	return prefix(strings.ToLower(text), maxMessage/2) + " (" + names + ")"
}

// peer names the service that failed, if the failure is one of the network or of a remote
// service: "host pricing.internal". The innermost exception often does not name it, as in
// "Read timed out".
func peer(r *reading, class, message string, t *trace) string {
	network := isNetworkClass(class) || isNetworkMessage(message)
	if !r.status && !network {
		return ""
	}
	if r.host != "" {
		return "host " + r.host
	}
	for _, outer := range t.outer {
		if o := read(outer); o.host != "" {
			return "host " + o.host
		}
	}
	return ""
}

func isNetworkClass(class string) bool {
	return strings.Contains(class, "Timeout") || strings.Contains(class, "Connect") || strings.Contains(class, "Socket") ||
		strings.Contains(class, "UnknownHost") || strings.Contains(class, "Canceled") || strings.Contains(class, "NoRouteToHost")
}

// isNetworkMessage looks for the words of sockets, resolvers and HTTP clients.
func isNetworkMessage(message string) bool {
	message = prefix(message, maxRead)
	for _, words := range [...]string{
		"timed out", "imeout", "onnection refused", "onnection reset", "no such host", "o route to host", "nreachable",
		"not reachable", "ECONN", "ETIMEDOUT", "ENOTFOUND", "EHOST", "Max retries exceeded", "deadline exceeded",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// foundHost keeps the first host that is not an address.
func (s *scanner) foundHost(host string) {
	if s.host == "" && host != "" && len(host) <= 253 && !isIPv4(host) && host[0] != '[' {
		s.host = host
	}
}
