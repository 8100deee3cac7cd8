package config

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

func (r *report) notEmpty(path, value string) {
	if strings.TrimSpace(value) == "" {
		r.add(path, "is required")
	}
}

func (r *report) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		r.add(path, "must be one of %s, not %q", strings.Join(allowed, ", "), value)
	}
}

func (r *report) between(path string, value, least, most int) {
	if value < least || value > most {
		r.add(path, "must be %d to %d, not %d", least, most, value)
	}
}

func (r *report) port(path string, value int) { r.between(path, value, 1, 65535) }

// host checks a host name or an IP address without a port.
func (r *report) host(path, value string) {
	switch {
	case value == "":
		r.add(path, "is required")
	case net.ParseIP(value) != nil:
	case strings.ContainsAny(value, ":/@?#,[]*") || strings.ContainsFunc(value, notInName):
		r.add(path, "must be a host name or an IP address, without scheme or port, not %q", value)
	}
}

// hostPort checks host:port.
func (r *report) hostPort(path, value string) {
	host, port, err := net.SplitHostPort(value)
	number, notNumber := strconv.Atoi(port)
	switch {
	case err != nil, host == "", notNumber != nil, number < 1, number > 65535,
		strings.ContainsAny(host, "/@?#,") || strings.ContainsFunc(host, notInName):
		r.add(path, "must be host:port, not %q", value)
	}
}

// webURL checks the address of a web page. It refuses a password, since the API shows
// this address in its answers.
func (r *report) webURL(path, value string) {
	parsed, err := url.Parse(value)
	switch {
	case err != nil, parsed.Host == "", parsed.Scheme != "http" && parsed.Scheme != "https":
		r.add(path, "must be an http or https URL")
	case parsed.User != nil:
		r.add(path, "must not contain a user or password")
	}
}

// origin checks the origin of a web page, as browsers send it. A wildcard would let every page
// of the internet use the access of whoever looks at it.
func (r *report) origin(path, value string) {
	parsed, err := url.Parse(value)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" ||
		value != strings.ToLower(parsed.Scheme+"://"+parsed.Host) || strings.Contains(value, "*") {
		r.add(path, "must be an origin such as https://ops.example, in small letters and without a path, not %q", value)
	}
}

// certificate checks that a client certificate and its key are given together.
func (r *report) certificate(path, certFile, keyFile string) {
	if (certFile == "") != (keyFile == "") {
		r.add(path, "cert_file and key_file belong together: set both or neither")
	}
}

func notInName(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }
