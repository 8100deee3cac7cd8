package fingerprint

import (
	"slices"
	"strings"
)

// cause is all that is known about the innermost exception.
type cause struct {
	*reading
	*trace
	class  string
	outage outage
	port   string // of the service that is away, if the port tells the kind of service
}

// outage is a kind of failure whose words and classes differ by library: another service is away,
// or the data cannot be parsed. "" stands for all other failures.
type outage string

const (
	unavailable  outage = "unavailable" // a service refuses, resets or does not answer: one outage has all three
	noConnection outage = "no database connection"
	malformed    outage = "malformed"
)

// outageOf recognizes an outage by the classes and words of sockets, resolvers, HTTP clients and
// pools. Their texts differ by the language of the machine and by the moment of the failure.
func outageOf(class string, r *reading, message string) outage {
	if strings.HasPrefix(class, "org.apache.kafka.connect.") {
		class = ""
	}
	driver := containsAny(class, "postgres", "psycopg", "PG::", "Npgsql", "SqlClient", "pgconn", "mysql", "Mysql", "MySql", "mariadb", "oracle")
	class, message = simpleName(class), prefix(message, maxRead)
	switch {
	case driver && len(r.names) == 0 && strings.Contains(message, "onnect"):
		return noConnection
	case containsAny(class, "SQLTransientConnection", "CannotGetJdbcConnection", "CannotCreateTransaction", "JDBCConnection", "ConnectionNotEstablished",
		"ConnectionTimeoutError", "PoolTimeout", "ConnectionBad", "CommunicationsException", "MongoTimeout", "ServerSelection"):
		return noConnection
	case containsAny(message, "connection to server at", "ould not connect to server", "translate host name", "ommunications link failure",
		"connect to MySQL", "onnection is not available", "too many clients", "QueuePool limit", "system is shutting down", "system is starting up"):
		return noConnection
	case r.has(nounStatus + " 502"), r.has(nounStatus + " 503"), r.has(nounStatus + " 504"):
		return unavailable
	case !strings.Contains(class, "Validation") && containsAny(message, "nexpected token", "nexpected character", "nexpected end", "invalid character",
		"in JSON at position", "not valid JSON", "Unterminated string", "nrecognized token", "invalid start of a value", "any JSON tokens",
		"Expecting value", "codec can't decode", "nvalid byte sequence"):
		return malformed
	case containsAny(message, "UNAVAILABLE", "= Unavailable", "timed out", "imeout", "execution expired", "ETIMEDOUT", "eadline exceeded",
		"DEADLINE_EXCEEDED", "DeadlineExceeded", "request canceled", "onnection refused", "onnection reset", "o route to host", "nreachable",
		"not reachable", "ECONN", "ENOTFOUND", "EHOST", "Max retries exceeded", "dial tcp",
		"nable to connect", "ailed to connect", "ailed connecting", "possible to connect", "an't connect", "ame or service not known", "name resolution",
		"o such host", "ctively refused", "emporarily unavailable", "EAI_AGAIN", "hang up", "EPIPE", "roken pipe"):
		return unavailable
	case containsAny(class, "Timeout", "TaskCanceled", "OperationCanceled", "ConnectException", "ConnectionError", "ConnectionRefused",
		"ConnectionReset", "Socket", "UnknownHost", "NoRouteToHost"):
		return unavailable
	}
	return ""
}

// The ports that tell the kind of a service.
var (
	databasePorts = set("1433 1521 3306 5432 27017")
	servicePorts  = set("1433 1521 3306 5432 27017 465 587 389 636 5672 6379 9042 9092 9200 11211")
)

// servicePort returns the port of a known service, as in "10.1.2.3:6379". The host before the port may differ within one
// outage.
func servicePort(message string) string {
	for {
		host, rest, found := strings.Cut(message, ":")
		if !found {
			return ""
		}
		port := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		if host != "" && host[len(host)-1] > ' ' && servicePorts[port] {
			return port
		}
		message = rest
	}
}

// isDatabaseAway recognizes an exception of a database client around the exception of a socket.
func isDatabaseAway(e exception) bool {
	return outageOf(e.class, &reading{}, e.message) == noConnection
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

func (r *reading) has(kind string) bool { return slices.Contains(r.names, kind) || r.name(kind) != "" }

// name returns the first name of a kind.
func (r *reading) name(kind string) string {
	i := slices.IndexFunc(r.names, func(name string) bool { return strings.HasPrefix(name, kind+" ") })
	if i < 0 {
		return ""
	}
	return r.names[i]
}

func (r *reading) constraint() string { return r.name(nounConstraint) }

// identity returns the names in a message, or only its constraint: other names depend on the version and language of the database.
func (r *reading) identity() string {
	if constraint := r.constraint(); constraint != "" {
		return constraint
	}
	return strings.Join(slices.Sorted(slices.Values(r.names)), ", ") // validators report in any order
}

// distinction returns the text that tells causes in one frame apart. A helper calls many services, so the host of an outage
// is a part of the text.
func (c *cause) distinction() string {
	names := c.identity()
	switch {
	case c.outage != "":
		names = string(c.outage)
		if c.helper != "" && c.outage != malformed {
			names += c.peer()
		}
	case containsAny(c.class, "ClassCast", "NumberFormat"), strings.HasSuffix(c.class, "NullPointerException") && len(c.words) > 0 && c.words[0] == "cannot":
		return "" // the text depends on the version of the JVM, and older versions have none
	case names == "":
		return strings.Join(c.words, " ")
	}
	return names
}

// sentence returns the text that the messages of one cause share.
func (c *cause) sentence() string {
	names, words := c.identity(), strings.Join(c.words, " ")
	switch {
	case c.outage == noConnection:
		return string(noConnection)
	case c.outage == malformed:
		return string(malformed)
	case c.port != "":
		return string(c.outage) + " port " + c.port
	case c.outage != "" && c.inURL && len(c.context) < 2:
		return string(c.outage) + " " + c.host
	case c.outage != "" && len(c.context) > 0:
		return strings.Join(c.context, " ") + ": " + string(c.outage)
	case c.outage != "":
		return string(c.outage) + c.peer()
	case c.constraint() != "" || c.has(nounColumn) || strings.Contains(names, " ORA-"):
		return names // the text depends on the language of the database
	case names == "":
		return words
	case words == "":
		return names
	}
	return words + " (" + names + ")"
}

// peer returns the host, with a space before it. The innermost exception often names no host, as in
// "Read timed out", so peer searches the exceptions around it too. A sentence with words that tell callers apart leaves the
// peer out, since some failures of the cause name an IP address instead of a host.
func (c *cause) peer() string {
	host := c.host
	for i := 0; i < len(c.outer) && host == ""; i++ {
		host = read(c.outer[i].message).host
	}
	if host == "" {
		return ""
	}
	return " " + host
}

// classOfKey returns the class for the key, or "" where the class differs within one cause. Wrappers and drivers report
// constraints and outages in classes of their own, and Go wraps errors in types. A message that says enough may come with
// or without a header for the class.
func (c *cause) classOfKey(rule Rule, f *Failure) string {
	switch {
	case c.constraint() != "", c.outage != "", strings.HasPrefix(c.class, "*"):
		return ""
	case rule != RuleFrame && (len(c.words) >= enough || len(c.names) > 0) && (rule == RuleFrameAndMessage || f.CauseClass == ""):
		return ""
	}
	return simpleName(c.class)
}
