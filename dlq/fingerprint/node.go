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
var node = syntax{frame: nodeFrame, own: isOwnNode, normalize: normalizeNode}

func nodeFrame(body string) (string, bool) {
	frame, ok := strings.CutPrefix(body, "at ")
	return frame, ok && isNodeFrame(frame)
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
