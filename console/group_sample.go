package console

import (
	"context"
	"net/http"

	"dlqmanager/client"
)

// sampleOf reads one of the newest messages of a cause. missing says why it could not be read.
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
