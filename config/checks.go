package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"dlqmanager/dlq"
)

// checkFields checks the fields of a section by their tags. It refuses a value that is given both directly and as a file, since
// it is unknown which of them is meant.
func (s section) checkFields(structure reflect.Value) {
	values := map[string]reflect.Value{}
	for _, f := range keysOf(structure) {
		values[f.path] = f.value // a key comes before the key of its file
		if rules := f.tag.Get("check"); rules != "" {
			s.check(f.path, rules, f.value)
		}
		direct, isFile := strings.CutSuffix(f.path, "_file")
		if isFile && f.value.String() != "" && values[direct].IsValid() && fmt.Sprint(values[direct].Interface()) != "" {
			s.add(f.path, "cannot be used together with %s: remove one of them", below(s.path, direct))
		}
	}
}

// check checks a value by rules. A semicolon separates the rules:
//
//   - required
//   - one of debug, info
//   - 1 to 64; at least 1s; at most 10m
//   - the name of a format in formats, which a text must have if it is not empty
//
// A list is checked item by item.
func (s section) check(key, rules string, value reflect.Value) {
	if value.Kind() != reflect.Slice {
		for rule := range strings.SplitSeq(rules, "; ") {
			if problem := problemOf(rule, value); problem != "" {
				s.add(key, "%s", problem)
			}
		}
		return
	}
	seen := map[string]bool{}
	for i := range value.Len() {
		item, itemKey := value.Index(i), fmt.Sprintf("%s[%d]", key, i)
		s.check(itemKey, rules, item)
		if seen[item.String()] && strings.HasPrefix(rules, "one of ") {
			s.add(itemKey, "occurs twice")
		}
		seen[item.String()] = true
	}
}

// problemOf tells how a value breaks a rule. It returns "" for a correct value.
func problemOf(rule string, value reflect.Value) string {
	text := fmt.Sprint(value.Interface())
	words, isChoice := strings.CutPrefix(rule, "one of ")
	switch format := formats[rule]; {
	case rule == "required":
		if strings.TrimSpace(text) == "" {
			return "is required"
		}
	case format != nil:
		if text != "" {
			return format(text)
		}
	case isChoice:
		if !slices.Contains(strings.Split(words, ", "), text) {
			return fmt.Sprintf("must be %s, not %q", rule, text)
		}
	case !isInRange(rule, value):
		return fmt.Sprintf("must be %s, not %s", rule, text)
	}
	return ""
}

// isInRange checks a value by a rule such as "1 to 64". The bounds have the form of the value.
func isInRange(rule string, value reflect.Value) bool {
	bound := func(text string) int64 {
		parsed := reflect.New(value.Type()).Elem()
		if err := setText(parsed, text); err != nil {
			panic(fmt.Sprintf("config: rule %q: %v", rule, err))
		}
		return parsed.Int()
	}
	if least, found := strings.CutPrefix(rule, "at least "); found {
		return value.Int() >= bound(least)
	}
	if most, found := strings.CutPrefix(rule, "at most "); found {
		return value.Int() <= bound(most)
	}
	least, most, _ := strings.Cut(rule, " to ")
	return value.Int() >= bound(least) && value.Int() <= bound(most)
}

// formats has a function for each format. The function tells how a text breaks the format, or returns "".
var formats = map[string]func(text string) string{
	"host": hostProblem, "host:port": hostPortProblem, "web URL": webURLProblem, "origin": originProblem,
	"issuer": issuerProblem, "proxy": proxyProblem, "network": networkProblem,
	"trace link":  func(text string) string { return dlq.TraceLink(text).Problem() },
	"record link": func(text string) string { return dlq.RecordLink(text).Problem() },
}

// hostProblem expects a host name or an IP address without a port.
func hostProblem(text string) string {
	if net.ParseIP(text) == nil && (strings.ContainsAny(text, ":/@?#,[]*") || strings.ContainsFunc(text, notInName)) {
		return "must be a host name or an IP address, without scheme or port, not " + shown(text)
	}
	return ""
}

func hostPortProblem(text string) string {
	host, port, err := net.SplitHostPort(text)
	number, notNumber := strconv.Atoi(port)
	if err != nil || host == "" || notNumber != nil || number < 1 || number > 65535 ||
		strings.ContainsAny(host, "/@?#,") || strings.ContainsFunc(host, notInName) {
		return "must be host:port, not " + shown(text)
	}
	return ""
}

// shown quotes a wrong address in an error. It hides an address that may have a password.
func shown(address string) string {
	if strings.Contains(address, "@") {
		return "an address with a user"
	}
	return strconv.Quote(address)
}

// webURLProblem refuses a password, since answers of the API, errors and the log show the URL.
func webURLProblem(text string) string {
	parsed, err := url.Parse(text)
	switch {
	case err != nil, parsed.Hostname() == "", parsed.Fragment != "", parsed.Scheme != "http" && parsed.Scheme != "https":
		return "must be an http or https URL without a fragment"
	case parsed.User != nil:
		return "must not contain a user or password"
	default:
		return ""
	}
}

// originProblem expects the origin of a web page, in the form that browsers send. A wildcard would let every web page call the
// API with the access of the people who look at the page.
func originProblem(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" ||
		text != strings.ToLower(parsed.Scheme+"://"+parsed.Host) || strings.Contains(text, "*") {
		return fmt.Sprintf("must be an origin such as https://ops.example, in small letters and without a path, not %q", text)
	}
	return ""
}

// issuerProblem expects the URL of an identity provider. Over plain HTTP, an attacker in the network could replace the
// provider's keys.
func issuerProblem(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" ||
		parsed.Scheme != "https" && (parsed.Scheme != "http" || !dlq.IsLoopback(parsed.Hostname())) {
		return "must be an https URL without user, query and fragment"
	}
	return ""
}

func proxyProblem(text string) string {
	if _, err := parseNetwork(text); err != nil {
		return fmt.Sprintf("must be an IP address or a CIDR such as 10.0.0.0/8, not %q", text)
	}
	return ""
}

func networkProblem(text string) string {
	network, err := netip.ParsePrefix(text)
	if err != nil || network != network.Masked() {
		return fmt.Sprintf("must be a network such as 10.20.0.0/16, not %q", text)
	}
	return ""
}

func notInName(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }
