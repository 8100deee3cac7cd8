package fingerprint

import (
	"regexp"
	"strings"
)

// JavaScript on V8:
//
//	MailError: cannot render mail
//	    at async Renderer.render [as next] (file:///app/src/render.js:31:7)
//	    at /app/src/mails.js:12:3
//	    at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {
//	  [cause]: TypeError: Cannot read properties of undefined (reading 'zip')
//	      at …
//	}
//
// The innermost cause comes last.
var node = syntax{frame: nodeFrame}

var (
	nodeLine      = regexp.MustCompile(`^at (?:(.+?)(?: \[as .*\])? \()?(?:async )?([^()]*?)(?::(\d+):(\d+))?\)?(?: \{)?$`)
	nodeReceivers = regexp.MustCompile(`^(async |new |Object\.|Module\.|Function\.|exports\.|module\.exports\.|process\.)+`)
)

// nodeFrame returns "render.Renderer.render".
func nodeFrame(body string) (name string, own, ok bool) {
	if !strings.HasPrefix(body, "at ") {
		return "", false, false
	}
	m := nodeLine.FindStringSubmatch(prefix(body, maxName))
	if m == nil || m[3] == "" && (m[1] == "" || m[2] != "<anonymous>" && m[2] != "native" && !strings.HasPrefix(m[2], "index ")) {
		return "", false, false
	}
	function, file := nodeReceivers.ReplaceAllString(m[1], ""), strings.TrimPrefix(m[2], "file://")
	minified := m[3] == "1" && len(m[4]) > 3 // names in minified code differ from build to build
	own = m[3] != "" && !minified && !containsAny(file, "node_modules", "node:", "webpack/bootstrap") &&
		!strings.HasPrefix(file, "internal/") && !strings.HasPrefix(file, "ext:")
	switch {
	case minified:
		function = "<minified>"
	case function == "":
		function = "<anonymous>"
	}
	if file = withoutHash(moduleOf(strings.TrimPrefix(file, "node:"))); file == "" || file == "<anonymous>" {
		return function, own, true
	}
	return file + "." + function, own, true
}

// withoutHash returns "worker" of "worker-QK3F7ZUA", as bundlers name their files.
func withoutHash(file string) string {
	name, hash := splitLast(file, '-')
	if name != "" && len(hash) >= 8 && (hasDigit(hash) || strings.ToUpper(hash) == hash) {
		return name
	}
	return file
}
