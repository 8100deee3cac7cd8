package console

import (
	"slices"
	"strings"

	"dlqmanager/client"
)

const (
	// maxStack bounds the shown part of a stack trace, in bytes.
	maxStack      = 64 << 10
	maxStackLines = 1500
)

// stack is a stack trace as a page shows it: its exceptions, the root cause first.
type stack struct {
	Faults []fault
	IsCut  bool
	// knowsOwn is set if the API tells which frames are own code.
	knowsOwn bool
}

// fault is one exception of a stack trace with its frames.
type fault struct {
	Head   string
	Frames []frames

	// isPython is set if the exception stands below its frames.
	isPython bool
}

// frames are consecutive lines, all of own code or all of libraries.
type frames struct {
	IsOwn bool
	Lines []string
}

// pythonHead begins the trace of each exception in Python. In such traces the root cause comes first.
const pythonHead = "Traceback (most recent call last):"

// stackOf splits the stack trace of a message into its exceptions. In the traces of the JVM the root cause comes last; stackOf puts
// it first. The API tells which lines are own code; if it does not, all frames are shown as own code.
func stackOf(m *client.MessageDetail) (s stack) {
	text := valueOf(m.StackTrace)
	if text == "" {
		return s
	}
	own := map[int]bool{}
	if m.OwnLines != nil {
		s.knowsOwn = true
		for _, number := range *m.OwnLines {
			own[int(number)] = true
		}
	}
	if len(text) > maxStack {
		text, s.IsCut = cutText(text, maxStack), true
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > maxStackLines {
		lines, s.IsCut = lines[:maxStackLines], true
	}
	causes := 0
	for i, line := range lines {
		line = visible(strings.TrimRight(line, "\r"))
		head, isCause := strings.CutPrefix(line, "Caused by: ")
		switch {
		case line == pythonHead:
			s.Faults = append(s.Faults, fault{Head: line, isPython: true})
		case len(s.Faults) == 0:
			s.Faults = append(s.Faults, fault{Head: line})
		case isCause:
			causes++
			s.Faults = append(s.Faults, fault{Head: head})
		case s.Faults[len(s.Faults)-1].isPython && !strings.HasPrefix(line, " "):
			s.Faults[len(s.Faults)-1].name(line)
		default:
			last := &s.Faults[len(s.Faults)-1]
			if len(last.Frames) == 0 && !isFrameLine(line) && strings.TrimSpace(line) != "" && len(last.Head) < 2000 {
				last.Head += "\n" + line // the text of the exception has several lines
				continue
			}
			last.add(line, own[i] || !s.knowsOwn)
		}
	}
	if causes > 0 {
		slices.Reverse(s.Faults)
	}
	return s
}

// Root is the innermost exception. It is empty if the error of the message says the same.
func (s stack) Root(message string) string {
	if len(s.Faults) == 0 || s.Faults[0].Head == message {
		return ""
	}
	return s.Faults[0].Head
}

// maxOwn is how many frames the page of a cause shows.
const maxOwn = 10

// Own are the frames of own code in the innermost exception that has such frames, without duplicates.
func (s stack) Own() (own []string) {
	for _, f := range s.Faults {
		for _, part := range f.Frames {
			for _, line := range part.Lines {
				text := strings.TrimPrefix(strings.TrimSpace(line), "at ")
				if s.knowsOwn && part.IsOwn && len(own) < maxOwn && !slices.Contains(own, text) {
					own = append(own, text)
				}
			}
		}
		if len(own) > 0 {
			break
		}
	}
	return own
}

// name reads a line below the frames of Python: the exception, or the sentence before the next trace.
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
	line = strings.TrimPrefix(line, "\t") // narrow pages have no room for a tab
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
