package fingerprint

import "strings"

// Ruby, as full_message prints it, with the quotes of 3.4 or of earlier versions:
//
//	/app/lib/shop/orders.rb:31:in 'Shop::Orders#price': undefined method 'rate' for nil (NoMethodError)
//		from /app/lib/shop/worker.rb:12:in 'block (2 levels) in Shop::Worker#run'
//
// The cause follows the exception in the same form. A plain backtrace has neither "from" nor
// message; it may follow a line such as "NoMethodError: undefined method …".
type rubyParser struct {
	chain     []exception
	oldest    bool // "Traceback (most recent call last):", the newest frame comes last
	message   int
	text      string
	own       string // if the newest frame comes last
	wantsHead bool
}

func parseRuby(text string) []exception {
	p := rubyParser{text: text, message: -1}
	for at := 0; at < len(text); {
		line, rest := nextLine(text[at:])
		body, indent := trimIndent(line)
		p.line(body, at+indent)
		at = len(text) - len(rest)
	}
	p.endMessage(len(text))
	for i, j := 0, len(p.chain)-1; i < j; i, j = i+1, j-1 {
		p.chain[i], p.chain[j] = p.chain[j], p.chain[i]
	}
	return p.chain
}

func (p *rubyParser) line(body string, at int) {
	switch {
	case isRubyFrame(body):
		p.endMessage(at)
		p.frame(body)
	case strings.HasPrefix(body, "Traceback (most recent call last)"):
		p.oldest = true
	case strings.HasPrefix(body, "Caused by:"):
		p.endMessage(at)
		p.wantsHead = true
		if head := strings.TrimSpace(body[len("Caused by:"):]); head != "" {
			p.head(head, at+len(body)-len(head))
		}
	case body != "" && (len(p.chain) == 0 || p.wantsHead):
		p.head(body, at)
	}
}

// head reads "NoMethodError: undefined method …" or "NoMethodError (undefined method …)".
func (p *rubyParser) head(body string, at int) {
	class, message := splitHead(body)
	if class == "" {
		body = strings.TrimSuffix(body, ":")
		if i := strings.Index(body, " ("); i > 0 && strings.HasSuffix(body, ")") && isUpper(body[0]) {
			p.open(exception{class: body[:i], message: body[i+2 : len(body)-1]})
			return
		}
	}
	if class == "" || !isUpper(class[0]) {
		return
	}
	p.open(exception{class: class})
	p.message = at + len(body) - len(message)
}

func (p *rubyParser) open(e exception) {
	p.wantsHead = false
	if len(p.chain) == maxExceptions {
		p.chain = p.chain[:maxExceptions-1]
	}
	p.chain = append(p.chain, e)
}

func (p *rubyParser) endMessage(at int) {
	if p.message >= 0 && p.message <= at && len(p.chain) > 0 {
		p.chain[len(p.chain)-1].message = strings.TrimSpace(p.text[p.message:at])
	}
	p.message = -1
}

// frame reads "from /app/shop/orders.rb:31:in 'Shop::Orders#price': message (Class)".
func (p *rubyParser) frame(body string) {
	i := rubyIn(body)
	path, label := body[:i], body[i+len(":in '"):]
	end := strings.Index(label, "': ")
	rest := ""
	if end >= 0 {
		label, rest = label[:end], label[end+3:]
	} else {
		label = strings.TrimSuffix(label, "'")
	}
	path, _, _ = cutLine(path)
	from := strings.Index(path, "from ")
	path = path[max(0, from+len("from ")*min(1, from+1)):]
	name := moduleOf(path) + "." + rubyMethod(label)
	if rest != "" && from < 0 {
		p.open(rubyHead(rest))
	}
	if len(p.chain) == 0 {
		p.open(exception{})
	}
	e := &p.chain[len(p.chain)-1]
	if p.oldest {
		e.first = name
		if isOwnRuby(path) {
			p.own = name
		}
		e.own = p.own
		return
	}
	e.add(name, isOwnRuby(path), strings.TrimSpace)
}

// rubyHead reads "undefined method 'rate' for nil (NoMethodError)".
func rubyHead(text string) exception {
	if i := strings.LastIndex(text, " ("); i >= 0 && strings.HasSuffix(text, ")") {
		return exception{class: text[i+2 : len(text)-1], message: text[:i]}
	}
	return exception{message: text}
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
