package fingerprint

import (
	"cmp"
	"strings"
)

// trace has the facts about a failure that a stack trace tells.
type trace struct {
	class   string      // of the innermost cause; "" where the stack trace does not name it
	message string      // of the innermost cause
	outer   []exception // the exceptions around the innermost, from the inside out
	causes  int         // exceptions in the chain
	own     string      // the first own frame of the innermost exception that has an own frame
	helper  string      // a helper that the own frame called
	first   string      // the first frame
}

// exception is one link of a chain of causes, as a parser finds it.
type exception struct {
	class, message string
	first          string // the first frame, as it stands in the text
	own            string // the first own frame that is no helper
	helper         string // a helper that the own frame called
	depth          int    // of the exception's group, in Python
}

// maxExceptions bounds the memory for a hostile chain.
const maxExceptions = 32

// A format finds the exceptions of a stack trace, the innermost first.
type format func(text string) []exception

// readStack reads a stack trace. message is the message of one of its exceptions.
func readStack(stack, message string) trace {
	text := unixLines(window(stack))
	line, tail := splitMessage(message)
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
	return summarize(f(text))
}

func summarize(chain []exception) trace {
	if len(chain) == 0 {
		return trace{}
	}
	causes := len(chain)
	if causes > 1 && strings.HasSuffix(chain[0].class, ".CancelledError") {
		chain = chain[1:] // how asyncio implements a timeout
	}
	if len(chain) > 1 && containsAny(chain[1].class, "Json") {
		chain[1].own, chain[1].helper = cmp.Or(chain[0].own, chain[1].own), cmp.Or(chain[0].helper, chain[1].helper)
		chain = chain[1:] // the outer exception names the field
	}
	t := trace{class: chain[0].class, message: chain[0].message, outer: chain[1:], causes: causes}
	for i := range chain {
		e := &chain[i]
		t.first = cmp.Or(t.first, e.first)
		if t.own == "" {
			t.helper = cmp.Or(t.helper, e.helper)
			t.own = e.own
		}
	}
	return t
}

// add keeps the first frame, the first own frame that is no helper, and the first helper before it.
func (e *exception) add(frame string, own bool) {
	e.first = cmp.Or(e.first, frame)
	switch {
	case own && e.own != "" && e.isRecursion(): // a recursion may overflow in any of its methods
		e.own = min(e.own, frame)
	case !own || e.own != "" || strings.HasSuffix(frame, ".<init>") && isLibraryClass(e.class): // the caller of the constructor counts
	case !isHelper(frame):
		e.own = frame
	case e.helper == "":
		e.helper = frame
	}
}

func (e *exception) isRecursion() bool {
	return strings.HasSuffix(e.class, "StackOverflowError") || e.class == "SystemStackError"
}

// isHelper recognizes code that is called for many purposes: the names of its class and its
// method are general words, as in Http.Remote.SendAsync.
func isHelper(frame string) bool {
	before, method := splitLast(frame, '.')
	_, class := splitLast(before, '.')
	return class != "" && isGeneral(class) && isGeneral(method)
}

// isGeneral splits a name at underscores and capitals.
func isGeneral(name string) bool {
	for start := 0; start < len(name); {
		end := start + 1
		for end < len(name) && name[end] != '_' && (!isUpper(name[end]) || isUpper(name[end-1])) {
			end++
		}
		if !helperWords[strings.ToLower(strings.Trim(name[start:end], "_"))] {
			return false
		}
		start = end
	}
	return true
}

var helperWords = set(`http https rest remote api client base abstract service helper helpers util utils caller call calls json xml web
request requests response sender send template wrapper wrap retry retrying retries retryable with resilient rpc grpc transport connection connector
proxy executor execute exec common default generic internal async sync fetch fetcher net network io support get post put patch delete do invoke
invoker run exchange bridge await unwrap block join guard guards check checks ensure require assert assertions assertion fail throw
preconditions precondition validate validation validator perform process handle handled tools object mapper of from to read parse decode
deserialize lib core shared errors error result results
exception panic illegal state argument runtime sql psql postgres mongo server value operation operational invalid status kafka
standard data access application app system bulk write command db database driver programming`)

// window returns at most maxStack bytes of a stack trace. Some formats print the innermost
// cause first and some last, so half comes from the start and half from the end.
func window(stack string) string {
	if len(stack) <= maxStack {
		return stack
	}
	const half = maxStack/2 - 1
	return stack[:half] + "\n" + stack[len(stack)-half:]
}

// splitMessage returns the first line of a message, and the further lines, which are cut out
// of the stack trace because they may look like frames. Of nested exceptions, the outer
// message often ends with the inner message, so that both have the same further lines.
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
func detect(text string) format {
	for _, line := range lines(text) {
		body, indent := trimIndent(line)
		if f, _ := formatOfLine(body, indent); f != nil {
			return f
		}
	}
	return nil
}

// formatOfLine returns the format of a line that is a frame or begins a stack of Go, and nil for other lines. isOwn tells
// whether the frame is of own code. For Go, where a frame has two lines, isOwn is false.
func formatOfLine(body string, indent int) (f format, isOwn bool) {
	if _, own, ok := javaFrame(body); ok {
		return java.parse, own
	}
	if _, own, ok := nodeFrame(body); ok {
		return node.parse, own
	}
	if _, own, ok := dotnetFrame(body); ok && indent > 0 {
		return parseDotnet, own
	}
	if _, own, ok := rubyFrame(body); ok {
		return ruby.parse, own
	}
	if path, _, ok := pythonFrame(strings.TrimLeft(body, "|+ ")); ok {
		return parsePython, isOwnPython(path)
	}
	switch {
	case strings.HasPrefix(body, "goroutine ") && strings.HasSuffix(body, "]:"), indent > 0 && isGoLocation(body):
		return parseGo, false
	}
	return nil, false
}
