package fingerprint

import "strings"

// Ruby, as full_message prints it, with the quotes of 3.4 or of earlier versions:
//
//	/app/lib/shop/orders.rb:31:in 'Shop::Orders#price': undefined method 'rate' for nil (NoMethodError)
//		from /app/lib/shop/worker.rb:12:in 'block (2 levels) in Shop::Worker#run'
//
// The cause follows the exception in the same form. A plain backtrace has neither "from" nor
// message; it may follow a line such as "NoMethodError: undefined method …".
var ruby = syntax{frame: rubyFrame, own: isOwnRuby, normalize: normalizeRuby, inline: rubyHead}

// rubyFrame returns "/app/shop/orders.rb:31:in 'Shop::Orders#price'".
func rubyFrame(body string) (string, bool) {
	if !isRubyFrame(body) {
		return "", false
	}
	if i := strings.Index(body, "from "); i >= 0 {
		body = body[i+len("from "):]
	}
	if end := strings.Index(body, "': "); end >= 0 {
		body = body[:end]
	}
	return body, true
}

// rubyHead reads "/app/orders.rb:31:in 'price': undefined method 'rate' for nil (NoMethodError)".
func rubyHead(body string) (e exception, ok bool) {
	_, text, ok := strings.Cut(body, "': ")
	if !ok || strings.HasPrefix(body, "from ") {
		return e, false
	}
	if i := strings.LastIndex(text, " ("); i >= 0 && strings.HasSuffix(text, ")") {
		return exception{class: text[i+2 : len(text)-1], message: text[:i]}, true
	}
	return exception{message: text}, true
}

func normalizeRuby(frame string) string {
	i := rubyIn(frame)
	path, _, _ := cutLine(frame[:i])
	return moduleOf(path) + "." + rubyMethod(strings.TrimSuffix(frame[i+len(":in '"):], "'"))
}

// rubyIn returns the start of ":in '" or ":in `" after a line number, or -1.
func rubyIn(body string) int {
	i := strings.Index(body, ":in ")
	if i <= 0 || i+len(":in '") > len(body) || !isDigit(body[i-1]) || body[i+4] != '\'' && body[i+4] != '`' {
		return -1
	}
	return i
}

func isRubyFrame(body string) bool {
	i := rubyIn(body)
	if i < 0 {
		return false
	}
	_, _, ok := cutLine(body[:i])
	return ok
}

// rubyMethod returns "award" of "block (2 levels) in Loyalty::Points#award". Ruby names the
// class since 3.4 only.
func rubyMethod(label string) string {
	if i := strings.LastIndex(label, " in "); i >= 0 {
		label = label[i+len(" in "):]
	}
	if i := strings.LastIndexAny(label, "#."); i >= 0 && i+1 < len(label) {
		label = label[i+1:]
	}
	return label
}

func isOwnRuby(path string) bool {
	return path != "" && path[0] != '<' && !strings.Contains(path, "/gems/") && !strings.Contains(path, "/lib/ruby/") &&
		!strings.Contains(path, "/bundler/")
}
