package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"dlqmanager/client"
)

// sample is one of the newest messages of a cause, as far as it tells why messages fail.
type sample struct {
	client.MessageDetail

	// LastError is the error of the newest retry that failed; nil if none did.
	LastError *client.MessageDetail_Attempts
	// Error is what the consumer said, cut if IsCut.
	Error string
	// Root is the line of the stack with the innermost cause, empty if it says no more than Error.
	Root string
	// Stack are the lines of the stack, at most stackLines of them; MoreLines were left out.
	Stack     []stackLine
	MoreLines int
	IsCut     bool
}

// stackLine is a line of a stack. IsOwn marks the frame of the own code that the cause is named after.
type stackLine struct {
	Text         string
	IsOwn, IsTop bool
}

const (
	errorBytes = 2000
	stackBytes = 64 << 10
	stackLines = 200
	lineBytes  = 1000
)

// sampleOf reads a message of a cause; if it cannot, it says why.
func (v *visit) sampleOf(ctx context.Context, g client.Group) (one *sample, missing string) {
	if g.Sample == nil {
		return nil, v.text("All its messages were archived or deleted.")
	}
	answer, err := v.api.GetMessage(ctx, g.Sample.MessageID, nil)
	var refused *client.APIError
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return nil, v.text("The sample was archived or deleted a moment ago.")
	case err != nil:
		return nil, v.explain(err)
	}
	return newSample(answer.Value, g.GroupedBy), ""
}

func newSample(message client.MessageDetail, by client.GroupedBy) *sample {
	one := &sample{MessageDetail: message}
	for i := len(message.Attempts) - 1; i >= 0 && one.LastError == nil; i-- {
		if message.Attempts[i].Error != nil {
			one.LastError = &message.Attempts[i]
			cut := cutBytes(*one.LastError.Error, errorBytes)
			one.LastError.Error = &cut
		}
	}
	one.Error = cutBytes(message.ErrorMessage, errorBytes)
	one.IsCut = len(one.Error) < len(message.ErrorMessage)
	one.readStack(valueOf(message.StackTrace), valueOf(by.Class), valueOf(by.Frame))
	return one
}

// readStack finds the innermost cause and the frame of the own code.
func (s *sample) readStack(stack, class, frame string) {
	cut := cutBytes(stack, stackBytes)
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(cut, "\r\n", "\n"), "\n"), "\n")
	if cut == "" {
		return
	}
	root := -1
	for i, text := range lines {
		if class != "" && strings.Contains(text, class) {
			root = i
		}
	}
	for i, text := range lines {
		if i == stackLines {
			s.MoreLines = len(lines) - i
			break
		}
		s.Stack = append(s.Stack, stackLine{Text: cutBytes(text, lineBytes), IsOwn: isFrame(text, frame), IsTop: i == root})
	}
	if root >= 0 {
		s.Root = cutBytes(strings.TrimPrefix(strings.TrimSpace(lines[root]), "Caused by: "), lineBytes)
	}
	s.IsCut = s.IsCut || len(cut) < len(stack)
}

// Own are the frames of the own code, without the repeated ones.
func (s *sample) Own() []string {
	var own []string
	seen := map[string]bool{}
	for _, one := range s.Stack {
		text := strings.TrimPrefix(strings.TrimSpace(one.Text), "at ")
		if one.IsOwn && !seen[text] {
			seen[text] = true
			own = append(own, text)
		}
	}
	return own
}

// isFrame tells whether a line of a stack is a frame, such as "shop.orders.price": the line has its whole name as in Java,
// or its folder or file and its function as in Python.
func isFrame(text, frame string) bool {
	if frame == "" || !strings.ContainsAny(text, "0123456789") {
		return false
	}
	if strings.Contains(text, frame) {
		return true
	}
	parts := strings.FieldsFunc(frame, func(r rune) bool { return r == '.' || r == '/' || r == ':' })
	if len(parts) < 2 {
		return false
	}
	for _, part := range parts[len(parts)-2:] {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// cutBytes returns the beginning of a text, with whole characters.
func cutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
