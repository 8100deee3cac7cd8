package fingerprint

import "strings"

// Go, as a panic or a goroutine's stack, and as an error with frames (%+v):
//
//	panic: assignment to entry in nil map
//
//	goroutine 7 [running]:
//	panic({0x5ac8e0?, 0x62f3b8?})
//		/usr/local/go/src/runtime/panic.go:787 +0x132
//	shop/orders.(*Handler).price.func1(0xc00012e000)
//		/src/orders/handler.go:31 +0x1d
//
// Frames above the last panic belong to functions that recovered from the panic. An error
// with frames prints the innermost error first.
func parseGo(text string) []exception {
	var (
		e         exception
		previous  string
		message   = text
		goroutine bool
	)
	for at, line := range lines(text) {
		body, indent := trimIndent(line)
		switch {
		case indent > 0 && isGoLocation(body):
			if e.first == "" && !goroutine {
				message = text[:max(0, strings.LastIndex(text[:at], previous))]
			}
			e.goFrame(goFunction(previous), body)
		case strings.HasPrefix(body, "goroutine ") && strings.HasSuffix(strings.TrimSuffix(body, "\r"), ":"):
			if !goroutine {
				goroutine, message = true, text[:at]
				break
			}
			body = "created by another" // the second goroutine ends the loop below
		}
		if previous = body; strings.HasPrefix(body, "created by ") {
			break
		}
	}
	e.goMessage(message, goroutine)
	return []exception{e}
}

func (e *exception) goFrame(name, location string) {
	switch {
	case name == "panic", name == "runtime.gopanic":
		*e = exception{}
	case e.first == "", name != "runtime.goexit":
		e.add(normalizeGo(name), isOwnGo(name, location))
	}
}

// goMessage takes the message of a panic without the lines that the runtime adds.
func (e *exception) goMessage(text string, goroutine bool) {
	text = strings.TrimSpace(text)
	if !goroutine {
		e.message = text
		return
	}
	e.class = classPanic
	for _, line := range lines(text) {
		message, ok := strings.CutPrefix(strings.TrimPrefix(line, "fatal error: "), "panic: ")
		if ok || len(message) < len(line) {
			e.message, _, _ = strings.Cut(message, " [recovered")
			return
		}
	}
}

// classPanic is the class of all panics. The message tells them apart.
const classPanic = "panic"

// isGoLocation recognizes "/src/orders/handler.go:31 +0x1d".
func isGoLocation(body string) bool {
	i := strings.Index(body, ".go:")
	return i > 0 && i+4 < len(body) && isDigit(body[i+4]) && strings.IndexByte(body[:i], '(') < 0
}

// goFunction removes the arguments: "shop.(*Handler).price(0xc0, …)".
func goFunction(line string) string {
	if i := strings.LastIndexByte(line, '('); i > 0 && line[i-1] != '.' && strings.HasSuffix(line, ")") {
		return line[:i]
	}
	return line
}

func isOwnGo(name, location string) bool {
	if containsAny(location, "/pkg/mod/", "/vendor/", "@v") {
		return false
	}
	slash := strings.LastIndexByte(name, '/') + 1
	pkg, _, _ := strings.Cut(name[slash:], ".")
	pkg = name[:slash] + pkg
	return pkg != "" && pkg != "panic" && !isGoLibrary(pkg)
}

// normalizeGo removes receivers' punctuation, type parameters and the names of closures:
// "shop/orders.(*Handler).price.func1.2" becomes "shop/orders.Handler.price".
func normalizeGo(name string) string {
	name = goMarks.Replace(name)
	for {
		before, last := splitLast(name, '.')
		if before == "" || !isGoClosure(last) || strings.HasSuffix(before, "/") {
			return name
		}
		name = before
	}
}

var goMarks = strings.NewReplacer("(*", "", "(", "", ")", "", "[...]", "", "-fm", "")

func isGoClosure(part string) bool {
	part, _, _ = strings.Cut(part, "-") // "func1-range2"
	part = strings.TrimRight(part, "0123456789")
	return part == "" || part == "func" || part == "gowrap" || part == "deferwrap"
}
