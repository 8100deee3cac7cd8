package fingerprint

import "strings"

// JavaScript on V8:
//
//	MailError: cannot render mail
//	    at async Renderer.render (file:///app/src/render.js:31:7)
//	    at /app/src/mails.js:12:3
//	    at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {
//	  [cause]: TypeError: Cannot read properties of undefined (reading 'zip')
//	      at …
//	}
//
// The innermost cause comes last.
func parseNode(text string) []exception {
	var (
		chain   = make([]exception, 1, 2)
		message = -1
		framed  bool // the current exception has frames
		listed  bool // the next line begins an exception of a list
	)
	for at := 0; at < len(text); {
		line, rest := nextLine(text[at:])
		body, indent := trimIndent(line)
		e := &chain[len(chain)-1]
		head, nested := nodeCause(body)
		switch {
		case strings.HasPrefix(body, "at ") && isNodeFrame(body[3:]):
			if message >= 0 {
				e.message, message = strings.TrimSpace(text[message:at]), -1
			}
			framed = true
			e.nodeFrame(body[3:])
		case nested && head == "":
			listed = true
		case framed && (nested || listed):
			if len(chain) == maxExceptions {
				chain = chain[:maxExceptions-1]
			}
			class, _ := splitHead(head)
			chain = append(chain, exception{class: class})
			message, framed, listed = at+len(line)-len(head)+headLength(head), false, false
		case !framed && message < 0:
			head = strings.TrimPrefix(body, "Uncaught ")
			if class, _ := splitHead(head); isNodeClass(class) {
				e.class, message = class, at+indent+len(body)-len(head)+headLength(head)
			}
		}
		at = len(text) - len(rest)
	}
	if message >= 0 {
		chain[len(chain)-1].message = strings.TrimSpace(text[message:])
	}
	for i, j := 0, len(chain)-1; i < j; i, j = i+1, j-1 {
		chain[i], chain[j] = chain[j], chain[i]
	}
	return chain
}

// headLength returns the length of the class and of the colon after it.
func headLength(head string) int {
	_, message := splitHead(head)
	return len(head) - len(message)
}

// nodeCause returns the head of a nested exception. It is empty if the head follows in the
// next line.
func nodeCause(body string) (head string, ok bool) {
	for _, mark := range [...]string{"[cause]: ", "Caused by: ", "caused by: ", "Caused By: "} {
		if head, ok = strings.CutPrefix(body, mark); ok {
			return head, true
		}
	}
	if body == "[errors]: [" {
		return "", true
	}
	return body, false
}

// isNodeClass tells the head of an exception from source code and other output before it.
func isNodeClass(class string) bool {
	return class != "" && !strings.ContainsAny(class, "/:@") &&
		(isUpper(class[0]) || strings.HasSuffix(class, "Error") || strings.HasSuffix(class, "Exception"))
}

func (e *exception) nodeFrame(frame string) {
	e.add(frame, isOwnNode(frame), normalizeNode)
}

// isNodeFrame recognizes "render (file:///app/render.js:31:7)" and "/app/render.js:31:7".
func isNodeFrame(frame string) bool {
	frame = strings.TrimSuffix(frame, " {")
	location := nodeLocation(frame)
	switch location {
	case "<anonymous>", "native", "node:internal", "unknown location":
		return location != frame
	}
	if strings.HasPrefix(location, "index ") && strings.Contains(frame, "Promise.") {
		return true
	}
	file, _, ok := cutLine(location)
	if !ok {
		return false
	}
	_, _, ok = cutLine(file)
	return ok
}

// nodeLocation returns what stands between the last parentheses, else the whole frame.
func nodeLocation(frame string) string {
	if !strings.HasSuffix(frame, ")") {
		return strings.TrimPrefix(frame, "async ")
	}
	i := strings.LastIndex(frame, " (")
	if i < 0 {
		return frame
	}
	return frame[i+2 : len(frame)-1]
}

// isOwnNode also refuses minified code, whose names differ from build to build.
func isOwnNode(frame string) bool {
	location := nodeLocation(strings.TrimSuffix(frame, " {"))
	file, column, ok := cutLine(location)
	if !ok || strings.Contains(file, "node_modules") || strings.HasPrefix(file, "node:") ||
		strings.HasPrefix(file, "internal/") || strings.Contains(file, "webpack/bootstrap") || strings.HasPrefix(file, "ext:") {
		return false
	}
	return !isMinified(file, column)
}

func isMinified(file, column string) bool {
	return strings.HasSuffix(file, ":1") && len(column) > 3
}

// normalizeNode returns "render.Renderer.render" of
// "async Renderer.render [as next] (file:///app/src/render.js:31:7)".
func normalizeNode(frame string) string {
	frame = strings.TrimSuffix(frame, " {")
	location := nodeLocation(frame)
	function := ""
	if len(location) < len(frame) && strings.HasSuffix(frame, ")") {
		function = frame[:len(frame)-len(location)-3]
	}
	function = strings.TrimPrefix(strings.TrimPrefix(function, "async "), "new ")
	if i := strings.Index(function, " [as "); i >= 0 {
		function = function[:i]
	}
	for _, receiver := range [...]string{"Object.", "Module.", "Function.", "exports.", "module.exports.", "process."} {
		function = strings.TrimPrefix(function, receiver)
	}
	if function == "" {
		function = "<anonymous>"
	}
	file, column, _ := cutLine(location)
	if isMinified(file, column) {
		function = "<minified>"
	}
	file, _, _ = cutLine(file)
	file = moduleOf(strings.TrimPrefix(strings.TrimPrefix(file, "node:"), "file://"))
	if file == "" || file == "<anonymous>" {
		return function
	}
	return file + "." + function
}
