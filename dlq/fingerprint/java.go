package fingerprint

import "strings"

// Java, Kotlin and other languages of the JVM:
//
//	shop.HandlingException: cannot handle order 17
//		at app//shop.orders.OrderListener.on(OrderListener.java:31) ~[orders.jar:1.2]
//		Suppressed: …
//			at …
//	Caused by: java.lang.IllegalStateException: closed
//		at java.base/java.util.Objects.requireNonNull(Objects.java:259)
//		... 23 more
//
// The innermost cause comes last. Frames that it shares with the exception around it are
// replaced by "... n more", so the first own frame may stand with that exception.
type javaParser struct {
	chain    []exception
	base     int // indentation of the first line
	skip     int // indentation of the suppressed exception that is skipped, else -1
	reversed bool
	elided   bool   // the last line was "... n more"
	library  string // what the last frame of a library begins with: "java.base/java."
	message  int    // start of the message that is read, else -1
	text     string
}

func parseJava(text string) []exception {
	p := javaParser{text: text, base: -1, skip: -1, message: -1}
	p.chain = make([]exception, 0, 4)
	for at := 0; at < len(text); {
		line, rest := nextLine(text[at:])
		body, indent := trimIndent(line)
		if body != "" {
			if p.base < 0 {
				p.base = indent
			}
			p.line(body, at+indent, indent)
		}
		at = len(text) - len(rest)
	}
	p.endMessage(len(text))
	if !p.reversed {
		for i, j := 0, len(p.chain)-1; i < j; i, j = i+1, j-1 {
			p.chain[i], p.chain[j] = p.chain[j], p.chain[i]
		}
	}
	return p.chain
}

func (p *javaParser) line(body string, at, indent int) {
	if p.skip >= 0 {
		if indent > p.skip || indent == p.skip && !strings.HasPrefix(body, "at ") {
			return
		}
		p.skip = -1
	}
	switch {
	case strings.HasPrefix(body, "at ") && p.isNeighbor(body[3:]):
	case strings.HasPrefix(body, "at ") && isJavaFrame(body[3:]):
		p.endMessage(at)
		p.endQuoted()
		p.frame(body[3:])
	case strings.HasPrefix(body, "Caused by: ") && indent <= p.base:
		p.endMessage(at)
		p.head(body, at, len("Caused by: "))
	case strings.HasPrefix(body, "Wrapped by: ") && indent <= p.base:
		// Logback's %rEx prints the root cause first.
		p.reversed = true
		p.endMessage(at)
		p.head(body, at, len("Wrapped by: "))
	case strings.HasPrefix(body, "Suppressed: ") && indent > p.base:
		p.endMessage(at)
		p.skip = indent
	case strings.HasPrefix(body, "... ") && indent > p.base:
		p.endMessage(at)
		p.elided = len(p.chain) > 1
	case len(p.chain) == 0, len(p.chain) == 1 && p.chain[0].class == "" && p.message >= 0:
		p.head(body, at, 0)
	}
}

// endQuoted drops an exception that was part of a message: frames follow its "... n more",
// and those belong to the exception whose message holds the stack trace of a remote service.
func (p *javaParser) endQuoted() {
	if !p.elided {
		return
	}
	p.elided = false
	p.chain = p.chain[:len(p.chain)-1]
	e := &p.chain[len(p.chain)-1]
	e.first, e.own, e.helper, e.thrown = "", "", "", false
}

// head begins an exception.
func (p *javaParser) head(body string, at, skip int) {
	if strings.HasPrefix(body, `Exception in thread "`) {
		if i := strings.Index(body[21:], `" `); i >= 0 {
			skip = 21 + i + 2
		}
	}
	class, message := splitHead(body[skip:])
	if !strings.Contains(class, ".") {
		if skip == 0 && len(p.chain) == 0 {
			p.open(exception{}, at)
			return
		}
		if skip == 0 {
			return
		}
	}
	if len(p.chain) == 1 && p.chain[0].class == "" && p.chain[0].first == "" {
		p.chain = p.chain[:0] // what came before was not part of the stack trace
	}
	p.open(exception{class: stripModule(class)}, at+len(body)-len(message))
}

func (p *javaParser) open(e exception, message int) {
	if len(p.chain) == maxExceptions {
		p.chain = p.chain[:maxExceptions-1]
	}
	p.chain = append(p.chain, e)
	p.message, p.elided = message, false
}

func (p *javaParser) endMessage(at int) {
	if p.message >= 0 && len(p.chain) > 0 && p.message <= at {
		p.chain[len(p.chain)-1].message = strings.TrimSpace(p.text[p.message:at])
	}
	p.message = -1
}

func (p *javaParser) frame(frame string) {
	if len(p.chain) == 0 {
		p.chain = append(p.chain, exception{})
	}
	e := &p.chain[len(p.chain)-1]
	name := javaName(frame)
	n := libraryPrefix(name)
	if n > 0 {
		p.library = frame[:min(len(frame), strings.Index(frame, name)+n)]
	}
	e.add(name, n == 0 && isOwnJava(name), normalizeJava)
}

// isNeighbor reports quickly that a frame cannot matter: it follows other frames of its
// exception, and belongs to the same library as one of them. Most frames do.
func (p *javaParser) isNeighbor(frame string) bool {
	return p.library != "" && p.message < 0 && len(p.chain) > 0 && p.chain[len(p.chain)-1].first != "" &&
		strings.HasPrefix(frame, p.library)
}

// javaName returns "shop.Orders.price" of "app//shop.Orders.price(Orders.java:3)".
func javaName(frame string) string {
	if i := strings.IndexByte(frame, '('); i >= 0 {
		frame = frame[:i]
	}
	return stripModule(frame)
}

// stripModule removes a class loader and a module: "app//", "java.base/", "app/shop@1.0/".
// The name of a hidden class has a slash too, after "$$".
func stripModule(name string) string {
	end := strings.Index(name, "$$")
	if end < 0 {
		end = len(name)
	}
	return name[strings.LastIndexByte(name[:end], '/')+1:]
}

// isJavaFrame tells "shop.Orders.price(Orders.java:3)" from frames of other languages.
func isJavaFrame(frame string) bool {
	open := strings.IndexByte(frame, '(')
	if open <= 0 || strings.IndexByte(frame[:open], '.') < 0 || strings.IndexByte(frame[:open], ' ') >= 0 {
		return false
	}
	location := frame[open+1:]
	end := strings.IndexByte(location, ')')
	if end <= 0 {
		return false
	}
	location = location[:end]
	switch location {
	case "Native Method", "Unknown Source", "<generated>", "SourceFile", "Unknown":
		return true
	}
	file, _, numbered := cutLine(location)
	if strings.ContainsAny(file, " /\\:<") {
		return file == "Unknown Source"
	}
	return numbered || strings.HasSuffix(file, ".java") || strings.HasSuffix(file, ".kt") ||
		strings.HasSuffix(file, ".scala") || strings.HasSuffix(file, ".groovy")
}

// cutLine splits "Orders.java:31" into file and line number.
func cutLine(location string) (file, number string, ok bool) {
	i := len(location)
	for i > 0 && isDigit(location[i-1]) {
		i--
	}
	if i == len(location) || i < 2 || location[i-1] != ':' {
		return location, "", false
	}
	return location[:i-1], location[i:], true
}

func isOwnJava(name string) bool {
	class, _ := splitLast(name, '.')
	// A lambda's class calls the method that holds its code, which is the next frame.
	return class != "" && !strings.Contains(class, "$$Lambda") && !strings.Contains(class, "$Proxy")
}

func splitLast(s string, sep byte) (before, after string) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return "", s
	}
	return s[:i], s[i+1:]
}
