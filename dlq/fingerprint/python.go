package fingerprint

import (
	"cmp"
	"slices"
	"strings"
)

// Python:
//
//	Traceback (most recent call last):
//	  File "/app/shop/orders.py", line 31, in price
//	    return self.table[sku]
//	           ~~~~~~~~~~^^^^^
//	KeyError: 'sku'
//
//	During handling of the above exception, another exception occurred:
//
// The innermost cause comes first, and the innermost frame comes last. An exception group
// holds tracebacks that are indented by bars.
type pythonParser struct {
	chain   []exception
	e       exception
	message int // start of the message that is read, else -1
	text    string
}

func parsePython(text string) []exception {
	p := pythonParser{text: text, message: -1}
	for at, line := range lines(text) {
		body, depth := trimBars(line)
		p.line(body, at, at+len(line)-len(body), depth)
	}
	p.end(len(text))
	slices.SortStableFunc(p.chain, func(a, b exception) int { return b.depth - a.depth })
	return p.chain
}

// trimBars removes the bars of an exception group.
func trimBars(line string) (body string, depth int) {
	body = strings.TrimLeft(line, " ")
	if body == "" || body[0] != '|' && body[0] != '+' {
		return line, 0
	}
	depth = len(line) - len(body)
	if body[0] == '|' {
		return strings.TrimPrefix(body[1:], " "), depth
	}
	return strings.TrimLeft(body, "+ "), depth
}

// line reads a line. start is where the line begins, body is the line without its bars, and at is where body begins.
func (p *pythonParser) line(body string, start, at, depth int) {
	inner, indent := trimIndent(body)
	path, function, isFrame := pythonFrame(inner)
	switch {
	case isFrame:
		p.e.depth = depth
		p.frame(path, function)
	case inner == "", strings.HasSuffix(body, "Traceback (most recent call last):"), strings.HasPrefix(body, "-----"),
		strings.HasPrefix(body, "+-"):
		p.end(start)
	case p.message < 0 && p.e.first != "" && indent == 0:
		class, message := splitHead(body)
		p.e.class, p.message = class, at+len(body)-len(message)
	}
}

// end ends an exception if one has been read.
func (p *pythonParser) end(at int) {
	if p.e.first == "" {
		return
	}
	if p.message >= 0 && p.message <= at {
		p.e.message = strings.TrimSpace(p.text[p.message:at])
	}
	if len(p.chain) < maxExceptions {
		p.chain = append(p.chain, p.e)
	}
	p.e, p.message = exception{}, -1
}

// frame keeps a frame. The last frame counts.
func (p *pythonParser) frame(path, function string) {
	if function[0] == '<' && function != "<module>" && p.e.first != "" {
		return // a lambda or comprehension belongs to the function around it
	}
	name := moduleOf(path) + "." + function
	p.e.first = name
	if isOwnPython(path) {
		if isHelper(name) {
			p.e.helper = name
		} else {
			p.e.own, p.e.helper = name, ""
		}
	}
}

// pythonFrame reads `File "/app/shop/orders.py", line 31, in price`.
func pythonFrame(body string) (path, function string, ok bool) {
	rest, ok := strings.CutPrefix(body, `File "`)
	path, rest, isNumbered := strings.Cut(rest, `", line `)
	_, function, _ = strings.Cut(rest, ", in ")
	return path, cmp.Or(function, "<module>"), ok && isNumbered && rest != "" && isDigit(rest[0])
}

func isOwnPython(path string) bool {
	path = strings.ToLower(strings.ReplaceAll(path, `\`, "/"))
	return path != "" && path[0] != '<' &&
		!containsAny(path, "/site-packages/", "/dist-packages/", "/lib/python", "/python3", "/lib64/python", "/lib-dynload/")
}

// moduleOf returns the last folder and the file of a path without its extension, as in
// "shop.orders". The root folder of a program differs between releases, so it is left out.
func moduleOf(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	folder, file := splitLast(path, '/')
	if i := strings.IndexByte(file, '.'); i > 0 {
		file = file[:i]
	}
	_, parent := splitLast(folder, '/')
	if parent == "" || isRootFolder(parent) {
		return file
	}
	return parent + "." + file
}

func isRootFolder(name string) bool {
	return strings.ContainsAny(name, "0123456789:@") || roots[name]
}

var roots = set("app src lib dist build out task code work workspace srv opt home usr root tmp current release bin .")
