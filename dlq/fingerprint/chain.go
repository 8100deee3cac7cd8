package fingerprint

import (
	"slices"
	"strings"
)

// syntax is how Java, JavaScript and Ruby print an exception: a head, its frames from the
// inside out, and then its cause in the same form.
type syntax struct {
	frame  func(body string) (name string, own, ok bool)
	inline func(body string) (exception, bool) // a head within the line of a frame
}

type chainParser struct {
	*syntax
	text    string
	chain   []exception
	skip    int    // indentation of the suppressed exception that is skipped, else -1
	message int    // start of the message that is read, else -1
	cause   bool   // the next line is the head of a cause
	rooted  bool   // the innermost exception comes first, as with Logback's %rEx
	elided  bool   // the last line was "... 3 more"
	library string // the beginning of the last frame of a library: "at org.springframework."
}

// parse returns the exceptions, the innermost first.
func (s *syntax) parse(text string) []exception {
	p := chainParser{syntax: s, text: text, skip: -1, message: -1, chain: make([]exception, 0, 4)}
	for at, line := range lines(text) {
		if body, indent := trimIndent(line); body != "" {
			p.line(strings.TrimSuffix(body, "\r"), at+indent, indent)
		}
	}
	p.endMessage(len(text))
	if !p.rooted {
		slices.Reverse(p.chain)
	}
	return p.chain
}

func (p *chainParser) line(body string, at, indent int) {
	if p.skip >= 0 && (indent > p.skip || indent == p.skip && !strings.HasPrefix(body, "at ")) {
		return
	}
	p.skip = -1
	last := p.last()
	if p.message < 0 && !p.elided && last.first != "" &&
		(last.own != "" && !last.isRecursion() && strings.HasPrefix(body, "at ") || p.library != "" && strings.HasPrefix(body, p.library)) {
		return // a frame that adds nothing, like most frames
	}
	if name, own, ok := p.frame(body); ok {
		p.addFrame(name, own, body, at)
		return
	}
	head, marked := cutMark(body)
	switch {
	case strings.HasPrefix(body, "Suppressed: "):
		p.endMessage(at)
		p.skip = indent
	case strings.HasPrefix(body, "... "):
		p.endMessage(at)
		p.elided = len(p.chain) > 1
	case marked && head == "":
		p.cause = true
	case marked || p.cause:
		if message, ok := strings.CutPrefix(head, "error: "); ok {
			head = "Error: " + message // node-postgres writes a small letter
		}
		p.rooted = p.rooted || strings.HasPrefix(body, "Wrapped by")
		p.endMessage(at)
		p.head(head, at+len(body)-len(head))
	case last.first == "" && !isStrong(last.class):
		p.head(body, at)
	}
}

var none exception

func (p *chainParser) last() *exception {
	if len(p.chain) == 0 {
		return &none
	}
	return &p.chain[len(p.chain)-1]
}

// cutMark removes the mark before the head of a cause, such as "Caused by:".
func cutMark(body string) (head string, ok bool) {
	const causedBy = "caused by:"
	if len(body) >= len(causedBy) && strings.EqualFold(body[:len(causedBy)], causedBy) {
		return strings.TrimSpace(body[len(causedBy):]), true
	}
	for _, mark := range [...]string{"Wrapped by: ", "[cause]: ", "[errors]: ["} {
		if head, ok = strings.CutPrefix(body, mark); ok {
			return head, true
		}
	}
	return body, false
}

func (p *chainParser) addFrame(name string, own bool, body string, at int) {
	p.endMessage(at)
	if p.elided {
		// An exception whose "... 3 more" is followed by frames was part of a message: the message of the
		// exception around it holds the stack trace of a remote service.
		p.chain = p.chain[:len(p.chain)-1]
		e := p.last()
		*e = exception{class: e.class, message: e.message}
		p.elided = false
	}
	if p.inline != nil {
		if e, ok := p.inline(body); ok {
			p.open(e)
		}
	}
	if len(p.chain) == 0 {
		p.open(exception{})
	}
	p.last().add(name, own)
	if n := libraryPrefix(name); n > 0 && strings.HasPrefix(body, "at "+name[:n]) {
		p.library = body[:len("at ")+n]
	}
}

// head begins an exception, if the text has the form of a head.
func (p *chainParser) head(text string, at int) {
	end := at + len(text)
	if i := strings.Index(text, `" `); i > 0 && strings.HasPrefix(text, `Exception in thread "`) {
		text = text[i+2:]
	}
	text = strings.TrimPrefix(text, "Uncaught ")
	class, message := splitHead(text)
	if i := strings.Index(text, " ("); class == "" && i > 0 && strings.HasSuffix(strings.TrimSuffix(text, ":"), ")") && strings.IndexByte(text[:i], ' ') < 0 {
		class, message = text[:i], text[i+2:] // the form of Rails
	}
	class = stripModule(class)
	if class == "" || !isStrong(class) && (!isUpper(class[0]) || strings.ContainsAny(class, "/@")) {
		return
	}
	if e := p.last(); len(p.chain) > 0 && e.first == "" && !isStrong(e.class) && !p.cause {
		p.chain = p.chain[:len(p.chain)-1] // the last head was no exception
	}
	p.open(exception{class: class})
	p.message = end - len(message)
}

// isStrong tells a class from another word before a colon.
func isStrong(class string) bool {
	_, name := splitLast(class, '.')
	return len(name) < len(class) && name != "" && isUpper(name[0]) || strings.Contains(class, "::") ||
		strings.HasSuffix(class, "Error") || strings.HasSuffix(class, "Exception")
}

func (p *chainParser) open(e exception) {
	if len(p.chain) == maxExceptions {
		p.chain = p.chain[:maxExceptions-1]
	}
	p.chain = append(p.chain, e)
	p.cause, p.elided = false, false
}

func (p *chainParser) endMessage(at int) {
	if p.message >= 0 && p.message <= at {
		p.last().message = strings.TrimSpace(p.text[p.message:at])
	}
	p.message = -1
}
