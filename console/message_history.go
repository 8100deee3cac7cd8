package console

import (
	"context"
	"strings"
	"time"

	"dlqmanager/client"
)

// hopData is a message of the chain.
type hopData struct {
	client.Hop

	// Page is the page of the message.
	Page string
	// IsRestored is set if the message was restored from the archive.
	IsThis, IsRestored bool
	Tries              []tryData
}

// tryData is a retry that has ended.
type tryData struct {
	client.Hop_Attempts

	// Actor is the person who asked for the retry; empty if unknown.
	Actor string
}

// readActors finds the people who asked for the newest changes of a message. After an error, the page shows fewer names.
func (v *visit) readActors(ctx context.Context, id string, actors map[string]string) {
	operations, err := v.api.ListOperations(ctx, &client.ListOperationsParams{TargetID: &id, PageSize: new(int64(100))})
	if err != nil {
		return
	}
	for _, operation := range operations.Value.Operations {
		actors[operation.ID] = operation.Subject
	}
}

// readRequest looks for the message among the newest single retries of its topic. So the page also shows a retry that no
// worker has claimed yet: the data of the message do not show such a retry.
func (v *visit) readRequest(d *messageData) {
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
		d.actors[retry.OperationID] = retry.Actor
		if d.Request == nil && isUnderway(retry.State) && !isOutdated(retry.StartedAt, d.LastRetryAt) {
			d.Request = &retries.Value.Retries[i]
		}
	}
}

func isUnderway(state client.SingleRetryState) bool {
	return state == client.SingleRetryStateUNCLAIMED || state == client.SingleRetryStateRUNNING
}

// isOutdated tells whether a later retry has begun since a retry was asked for. Then an unclaimed retry will not run.
func isOutdated(asked time.Time, lastRetry *time.Time) bool {
	return lastRetry != nil && asked.Before(*lastRetry)
}

func (v *visit) describeChain(p *messageParts) {
	if p.chainErr != nil {
		p.ChainProblem = v.explain(p.chainErr)
		return
	}
	p.IsTruncated = p.chain.Truncated
	for _, hop := range p.chain.Hops {
		h := hopData{
			Hop: hop, Page: messagePath(hop.ID), IsThis: hop.ID == p.ID,
			IsRestored: isRestored(hop.ID, hop.PreviousID, hop.EditedFrom, hop.Source),
		}
		if hop.Archived {
			h.Page = archivedPath(hop.ID)
		}
		for _, try := range hop.Attempts {
			h.Tries = append(h.Tries, tryData{try, p.actors[valueOf(try.OperationID)]})
		}
		switch {
		case valueOf(hop.PreviousID) != p.ID || hop.EditedFrom != nil:
		case h.IsRestored:
			p.RestoredAs = h.Page
		default:
			p.CameBackAs = append(p.CameBackAs, h)
		}
		p.Hops = append(p.Hops, h)
	}
}

// isRestored tells whether a message was restored from the archive: it has a previous message and no record in Kafka. A message that was
// handed in has no record either, but its id is of version 7, which a restore does not make.
func isRestored(id string, previous, editedFrom *client.ID, source *client.Source) bool {
	return previous != nil && editedFrom == nil && source == nil && !strings.HasPrefix(id[min(len(id), 14):], "7")
}
