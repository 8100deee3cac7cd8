package fingerprint

import "strings"

// trace is what a stack trace says about a failure.
type trace struct {
	class   string   // of the innermost cause; "" where the stack trace does not name it
	message string   // of the innermost cause
	outer   []string // messages of the exceptions around it, from the inside out
	causes  int      // exceptions in the chain
	own     string   // the first own frame of the innermost exception that has one
	first   string   // the first frame
}

// exception is one link of a chain of causes, as a parser finds it.
type exception struct {
	class, message string
	first          string // the first frame, as it stands in the text
	own            string // the first own frame
	depth          int    // of the group it belongs to, in Python
}

// maxExceptions bounds the memory for a hostile chain.
const maxExceptions = 32

// A format finds the exceptions of a stack trace, the innermost first.
type format struct {
	parse     func(text string) []exception
	normalize func(frame string) string
}

// readStack reads a stack trace, of which message is the message of some exception.
func readStack(stack, message string) trace {
	text := unixLines(window(stack))
	line, tail := splitMessage(message)
	if tail == "" {
		return parse(text)
	}
	cut := strings.ReplaceAll(text, tail, "")
	t := parse(cut)
	switch {
	case len(cut) == len(text):
	case t.first == "":
		return parse(text) // the message holds the whole stack trace
	case t.message != "" && strings.HasSuffix(line, t.message):
		t.message += tail
	}
	return t
}

func parse(text string) trace {
	f := detect(text)
	if f == nil {
		return trace{}
	}
	return summarize(f.parse(text), f.normalize)
}

func summarize(chain []exception, normalize func(string) string) trace {
	if len(chain) == 0 {
		return trace{}
	}
	causes := len(chain)
	if causes > 1 && strings.HasSuffix(chain[0].class, ".CancelledError") {
		chain = chain[1:] // how asyncio implements a timeout
	}
	t := trace{class: chain[0].class, message: chain[0].message, causes: causes}
	for i := range chain {
		e := &chain[i]
		if i > 0 && e.message != "" {
			t.outer = append(t.outer, e.message)
		}
		if t.first == "" && e.first != "" {
			t.first = normalize(e.first)
		}
		if t.own == "" && e.own != "" {
			t.own = normalize(e.own)
		}
	}
	return t
}

// window returns at most maxStack bytes of a stack trace. Some formats print the innermost
// cause first and some last, so half comes from the start and half from the end.
func window(stack string) string {
	if len(stack) <= maxStack {
		return stack
	}
	const half = maxStack/2 - 1
	head, tail := stack[:half], stack[len(stack)-half:]
	if i := strings.LastIndexByte(head, '\n'); i > 0 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	return head + "\n" + tail
}

// splitMessage returns the first line of a message, and the further lines, which are cut out
// of the stack trace because they may look like frames. Of nested exceptions, the outer
// message often ends with the inner one, so that both have the same further lines.
func splitMessage(message string) (line, tail string) {
	if len(message) > maxStack {
		return "", ""
	}
	message = unixLines(message)
	i := strings.IndexByte(message, '\n')
	if i < 0 {
		return "", ""
	}
	return strings.TrimSpace(message[:i]), strings.TrimRight(message[i:], " \t\r\n")
}

// detect tells the format by the first line that has the form of a frame.
func detect(text string) *format {
	for text != "" {
		var line string
		line, text = nextLine(text)
		body, indent := trimIndent(line)
		if len(body) < 5 {
			continue
		}
		if f := formatOfLine(body, indent); f != nil {
			return f
		}
	}
	return nil
}

func formatOfLine(body string, indent int) *format {
	if frame, ok := dotnetAt(body); ok && indent > 0 {
		switch {
		case isJavaFrame(frame):
			return &javaFormat
		case isNodeFrame(frame):
			return &nodeFormat
		case isDotnetFrame(frame):
			return &dotnetFormat
		}
	}
	switch {
	case isPythonFrame(strings.TrimLeft(body, "|+ ")):
		return &pythonFormat
	case strings.HasPrefix(body, "goroutine ") && strings.HasSuffix(body, "]:"),
		indent > 0 && isGoLocation(body):
		return &goFormat
	case isRubyFrame(body):
		return &rubyFormat
	case strings.HasPrefix(body, "at ") && isJavaFrame(body[3:]):
		return &javaFormat
	}
	return nil
}
