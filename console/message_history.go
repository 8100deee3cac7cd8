package console

import (
	"context"
	"time"

	"dlqmanager/client"
)

// hopData is a message of the chain.
type hopData struct {
	client.Hop

	IsThis               bool
	AboutEnd, AboutCheck string
	Tries                []tryData
}

// tryData is a retry that has ended.
type tryData struct {
	client.Hop_Attempts

	// Actor is who asked for it, if that is known.
	Actor         string
	AboutCategory string
}

// readActors finds who asked for the newest changes of a message. Without them the page shows less.
func (v *visit) readActors(ctx context.Context, id string, actors map[string]string) {
	operations, err := v.api.ListOperations(ctx, &client.ListOperationsParams{TargetID: &id, PageSize: new(int64(100))})
	if err != nil {
		return
	}
	for _, operation := range operations.Value.Operations {
		actors[operation.ID] = operation.Subject
	}
}

// readRequest finds the newest single retry of the message among the newest of its topic. So a retry that no worker has taken
// yet shows too, which the message itself does not know.
func (v *visit) readRequest(d *messageData, actors map[string]string) {
	if d.Status != client.StatusPENDING && d.Status != client.StatusRETRYING {
		return
	}
	retries, err := v.api.ListSingleRetries(v.Context(), &client.ListSingleRetriesParams{Topic: &d.DlqTopic, PageSize: new(int64(50))})
	if err != nil {
		return
	}
	for i, retry := range retries.Value.Retries {
		if retry.MessageID != d.ID {
			continue
		}
		actors[retry.OperationID] = retry.Actor
		if d.Request == nil && isUnderway(retry.State) && !isOutdated(retry.StartedAt, d.LastRetryAt) {
			d.Request = &retries.Value.Retries[i]
			d.AboutRequest = v.aboutRetryState(retry.State)
		}
	}
}

func isUnderway(state client.SingleRetryState) bool {
	return state == client.SingleRetryStateUNCLAIMED || state == client.SingleRetryStateRUNNING
}

// isOutdated tells whether a retry was asked for before the last one that began. An unclaimed one will not come then.
func isOutdated(asked time.Time, lastRetry *time.Time) bool {
	return lastRetry != nil && asked.Before(*lastRetry)
}

func (v *visit) describeChain(d *messageData, chain *client.Chain, err error, actors map[string]string) {
	if err != nil {
		d.ChainProblem = v.explain(err)
		return
	}
	d.IsTruncated = chain.Truncated
	for _, hop := range chain.Hops {
		h := hopData{
			Hop: hop, IsThis: hop.ID == d.ID,
			AboutEnd: v.aboutResolution(hop.Resolution), AboutCheck: v.aboutVerified(hop.Verified, hop.VerifiedReason),
		}
		for _, try := range hop.Attempts {
			t := tryData{Hop_Attempts: try, AboutCategory: v.aboutCategory(try.Category)}
			if try.OperationID != nil {
				t.Actor = actors[*try.OperationID]
			}
			h.Tries = append(h.Tries, t)
		}
		if valueOf(hop.PreviousID) == d.ID && hop.EditedFrom == nil {
			d.CameBackAs = append(d.CameBackAs, hop.ID)
		}
		d.Hops = append(d.Hops, h)
	}
}
