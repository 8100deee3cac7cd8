package roundtrip

import (
	"context"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// retry sends every message back: one message in 50 by a single retry, and all other messages in a bulk
// retry. It makes the same steps as the workflows.
func (r *round) retry(circle int) {
	for i := 0; i < len(r.ids); i += 50 {
		r.retryAlone(circle, r.ids[i])
	}
	include := func(s *dlq.JobSpec) { s.IncludeSuspicious = true }
	bulk, err := r.store.CreateJob(r.t.Context(), nil, dlqtest.Bulk(dlqTopic, 2, include))
	require.NoError(r.t, err)
	for number := range bulk.Lanes {
		lane, err := r.store.OpenLane(r.t.Context(), bulk.ID, number, dlq.LaneAttempt{})
		require.NoError(r.t, err)
		for r.retryPage(circle, lane) {
		}
	}
	bulk, err = r.store.EndJob(r.t.Context(), nil, bulk.ID, dlq.JobCompleted, "")
	require.NoError(r.t, err)
	require.EqualValues(r.t, len(r.ids)-(len(r.ids)+49)/50, bulk.Counts.Retried)
}

func (r *round) retryAlone(circle int, id dlq.ID) {
	ctx, owner := r.t.Context(), dlqtest.Owner()
	_, err := r.store.Claim(ctx, id, owner, dlq.ID{})
	require.NoError(r.t, err)
	envelope, err := r.store.Envelope(ctx, id, owner)
	require.NoError(r.t, err)
	r.publish(circle, envelope)
	_, ended, err := r.store.Finalize(ctx, owner, dlqtest.Delivered(id))
	require.NoError(r.t, err)
	require.True(r.t, ended)
}

// retryPage sends the next page of a lane, and reports whether there was a page.
func (r *round) retryPage(circle int, lane dlq.Lane) bool {
	ctx := r.t.Context()
	claim, _, err := r.store.NextPage(ctx, lane, nil, true)
	require.NoError(r.t, err)
	if claim.Bytes > dlq.PageBytes { // then the claim did not read the value
		claim, err = r.store.ClaimedPage(ctx, lane, claim.Bytes)
		require.NoError(r.t, err)
	}
	if len(claim.Page) == 0 {
		return false
	}
	envelopes := make([]dlq.Envelope, len(claim.Page))
	for i := range envelopes {
		require.False(r.t, claim.Page[i].Blocked)
		envelopes[i] = claim.Page[i].Envelope
	}
	r.publish(circle, envelopes...)
	_, err = r.store.FinalizePage(ctx, lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
	require.NoError(r.t, err)
	return true
}

// publish sends messages, after it has compared them with the dead letters of the round.
func (r *round) publish(circle int, envelopes ...dlq.Envelope) {
	for _, e := range envelopes {
		i, known := r.index[e.ID]
		require.True(r.t, known)
		require.Empty(r.t, dlqtest.Difference(&r.dead[i], &e.Record), "record %d as stored in circle %d", i, circle)
		require.Equal(r.t, r.dead[i].Timestamp.UnixMilli(), e.Record.Timestamp.UnixMilli(), "record %d", i)
		require.Equal(r.t, topic, e.OriginalTopic, "record %d, failed by %s", i, r.by[i])
		require.Equal(r.t, circle, e.RetryCount, "record %d", i)
	}
	for _, delivery := range r.publisher.Publish(context.Background(), envelopes, dlq.OrderKey, nil) {
		require.NoError(r.t, delivery.Err)
	}
}
