package console

import "strings"

const (
	// maxStack bounds what is shown of a stack trace.
	maxStack      = 64 << 10
	maxStackLines = 1500
)

// fault is one exception of a stack trace with its frames.
type fault struct {
	Head   string
	Frames []frames

	// isPython is set if the exception stands below its frames.
	isPython bool
}

// frames are lines that follow each other: own code, or code of libraries.
type frames struct {
	IsOwn bool
	Lines []string
}

// pythonHead begins the trace of each exception in Python. The root cause comes first there.
const pythonHead = "Traceback (most recent call last):"

// readStack splits a stack trace into its exceptions. In the traces of the JVM, the root cause comes last; here it comes first.
// ownFrame is a frame that the API knows as own, empty if there is none.
func readStack(text, ownFrame string) (faults []fault, isCut bool) {
	if len(text) > maxStack {
		text, isCut = cutBytes(text, maxStack), true
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > maxStackLines {
		lines, isCut = lines[:maxStackLines], true
	}
	causes := 0
	for _, line := range lines {
		line = visible(strings.TrimRight(line, "\r"))
		head, isCause := strings.CutPrefix(line, "Caused by: ")
		switch {
		case line == pythonHead:
			faults = append(faults, fault{Head: line, isPython: true})
		case len(faults) == 0:
			faults = append(faults, fault{Head: line})
		case isCause:
			causes++
			faults = append(faults, fault{Head: head})
		case faults[len(faults)-1].isPython && !strings.HasPrefix(line, " "):
			faults[len(faults)-1].name(line)
		default:
			last := &faults[len(faults)-1]
			if len(last.Frames) == 0 && !isFrameLine(line) && strings.TrimSpace(line) != "" && len(last.Head) < 2000 {
				last.Head += "\n" + line // a message with several lines
				continue
			}
			isOwn := isOwnLine(line, ownFrame)
			if n := len(last.Frames); last.isPython && n > 0 && !strings.HasPrefix(line, "  File ") {
				isOwn = last.Frames[n-1].IsOwn // the source of the frame above
			}
			last.add(line, isOwn)
		}
	}
	if causes > 0 {
		for i, j := 0, len(faults)-1; i < j; i, j = i+1, j-1 {
			faults[i], faults[j] = faults[j], faults[i]
		}
	}
	return faults, isCut
}

// name reads a line below the frames of Python: the exception, or a sentence before the next one.
func (f *fault) name(line string) {
	switch {
	case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "During handling of ") || strings.HasPrefix(line, "The above exception "):
	case f.Head == pythonHead:
		f.Head = line
	case len(f.Head) < 2000:
		f.Head += "\n" + line
	}
}

func (f *fault) add(line string, isOwn bool) {
	line = strings.TrimPrefix(line, "\t") // the narrow pages have no room for it
	if n := len(f.Frames); n > 0 && f.Frames[n-1].IsOwn == isOwn {
		f.Frames[n-1].Lines = append(f.Frames[n-1].Lines, line)
		return
	}
	f.Frames = append(f.Frames, frames{isOwn, []string{line}})
}

func isFrameLine(line string) bool {
	text := strings.TrimSpace(line)
	return strings.HasPrefix(text, "at ") || strings.HasPrefix(text, "... ") || strings.HasPrefix(text, "File ") || strings.HasPrefix(text, "from ") ||
		strings.HasPrefix(line, "\t") || strings.HasPrefix(text, "Suppressed:")
}

// isOwnLine tells whether a line is worth reading at first. The API names one own frame only, so the others are told from
// the packages that most traces have. A wrong guess folds a line or shows one too many.
func isOwnLine(line, ownFrame string) bool {
	text := strings.TrimSpace(line)
	if isFrame(text, ownFrame) {
		return true
	}
	if strings.HasPrefix(text, "... ") {
		return false
	}
	for _, place := range libraryPlaces {
		if strings.Contains(text, place) {
			return false
		}
	}
	name, isAt := strings.CutPrefix(text, "at ")
	if !isAt {
		return true
	}
	call, _, _ := strings.Cut(name, "(")
	if i := strings.LastIndexByte(call, '/'); i >= 0 {
		call = call[i+1:] // the module of a frame of the JVM
	}
	for _, name := range libraryNames {
		if strings.HasPrefix(call, name) {
			return false
		}
	}
	return true
}

// libraryNames begin the frames of runtimes and of the libraries that stand between a consumer and Kafka.
var libraryNames = []string{
	"java.", "javax.", "jakarta.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "groovy.", "org.springframework.", "org.apache.",
	"org.hibernate.", "io.netty.", "reactor.", "io.micronaut.", "io.quarkus.", "io.smallrye.", "io.vertx.", "com.fasterxml.", "com.google.", "io.confluent.",
	"org.postgresql.", "com.zaxxer.", "io.grpc.", "io.opentelemetry.", "net.bytebuddy.", "System.", "Microsoft.", "Confluent.", "MassTransit.", "Newtonsoft.",
	"Wolverine.", "Npgsql.",
}

// libraryPlaces are folders of libraries in the traces of other languages.
var libraryPlaces = []string{
	"site-packages/", "dist-packages/", "/lib/python", "<frozen ", "node_modules/", "node:internal", "/pkg/mod/", "/go/src/", "/gems/", "/ruby/",
}
