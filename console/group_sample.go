package console

import (
	"context"
	"net/http"
	"slices"

	"dlqmanager/client"
)

// failure is why a message is not through.
type failure struct {
	*client.MessageDetail

	// Last is the newest retry that failed; nil if none did.
	Last  *client.MessageDetail_Attempts
	Stack stack
}

func failureOf(m *client.MessageDetail) failure {
	f := failure{MessageDetail: m, Stack: stackOf(m)}
	for i, attempt := range slices.Backward(m.Attempts) {
		if attempt.Error != nil {
			f.Last = &m.Attempts[i]
			break
		}
	}
	return f
}

// sampleOf reads one of the newest messages of a cause; if it cannot, it says why.
func (v *visit) sampleOf(ctx context.Context, g client.Group) (sample *failure, missing string) {
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
	return new(failureOf(&answer.Value)), ""
}
