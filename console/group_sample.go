package console

import (
	"context"
	"net/http"

	"dlqmanager/client"
)

// sample is one of the newest messages of a cause, as far as it tells why messages fail.
type sample struct {
	client.MessageDetail

	// LastError is the error of the newest retry that failed; nil if none did.
	LastError *client.MessageDetail_Attempts
	// AboutCategory is why that retry failed, in words.
	AboutCategory string
	// Error is what the consumer said, cut if IsCut.
	Error string
	IsCut bool
	// Root is the innermost exception, empty if it says no more than Error.
	Root string
	// Own are frames of own code.
	Own   []string
	Stack stack
}

const errorBytes = 2000

// sampleOf reads a message of a cause; if it cannot, it says why.
func (v *visit) sampleOf(ctx context.Context, g client.Group) (one *sample, missing string) {
	if g.Sample == nil {
		return nil, v.text("All its messages were archived or deleted.")
	}
	answer, err := v.api.GetMessage(ctx, g.Sample.MessageID, nil)
	switch {
	case isStatus(err, http.StatusNotFound):
		return nil, v.text("The sample was archived or deleted a moment ago.")
	case err != nil:
		return nil, v.explain(err)
	}
	one = newSample(answer.Value)
	if one.LastError != nil {
		one.AboutCategory = v.aboutCategory(one.LastError.Category)
	}
	return one, ""
}

func newSample(message client.MessageDetail) *sample {
	one := &sample{MessageDetail: message}
	for i := len(message.Attempts) - 1; i >= 0 && one.LastError == nil; i-- {
		if message.Attempts[i].Error != nil {
			one.LastError = &message.Attempts[i]
			cut := cutText(*one.LastError.Error, errorBytes)
			one.LastError.Error = &cut
		}
	}
	one.Error = cutText(message.ErrorMessage, errorBytes)
	one.IsCut = len(one.Error) < len(message.ErrorMessage)
	one.Stack = stackOf(&message)
	one.Root, one.Own = one.Stack.Root(message.ErrorMessage), one.Stack.Own()
	return one
}
