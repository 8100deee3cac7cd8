package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var messages = map[string]func(*testing.T, fixture){
	"an unknown id is not found": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival())
		id := dlq.NewID()
		_, err := f.Message(t.Context(), id)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = dlqtest.Detail(t.Context(), f, id)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.MarkDead(t.Context(), nil, id)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, err = f.Claim(t.Context(), id, dlqtest.Owner(), dlq.ID{})
		require.ErrorIs(t, err, dlq.ErrNotFound)
		_, _, err = f.Finalize(t.Context(), dlqtest.Owner(), dlqtest.Delivered(id))
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.ErrorIs(t, f.Delete(t.Context(), nil, id), dlq.ErrNotFound)
	},

	"a store answers a ping": func(t *testing.T, f fixture) {
		require.NoError(t, f.Ping(t.Context()))
	},

	"a deleted message is not found": func(t *testing.T, f fixture) {
		kept, deleted := dlqtest.Arrival(), dlqtest.Arrival()
		f.store(kept, deleted)
		f.retry(deleted.ID, dlq.ResultFailed)
		require.NoError(t, f.Delete(t.Context(), nil, deleted.ID))
		_, err := dlqtest.Detail(t.Context(), f, deleted.ID)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.ErrorIs(t, f.Delete(t.Context(), nil, deleted.ID), dlq.ErrNotFound)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 10})
		require.Equal(t, []dlq.ID{kept.ID}, ids(page.Messages))
	},

	"a message that is being retried is not deleted": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.claim(id)
		var owned *dlq.OwnedError
		require.ErrorAs(t, f.Delete(t.Context(), nil, id), &owned)
		require.Equal(t, dlq.OwnedError{ID: id, Owner: owner}, *owned)
		require.Equal(t, dlq.StatusRetrying, f.message(id).Status)
	},

	"an operator marks messages dead": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		pending, retrying, dead, resolved := stored[0].ID, stored[1].ID, stored[2].ID, stored[3].ID
		f.claim(retrying)
		f.retry(resolved, dlq.ResultDelivered)
		f.retry(dead, dlq.ResultRejected)

		for _, id := range []dlq.ID{pending, retrying} {
			m, err := f.MarkDead(t.Context(), nil, id)
			require.NoError(t, err)
			require.Equal(t, dlq.StatusDead, m.Status)
			require.Equal(t, f.message(id), m)
		}
		before := f.message(dead)
		m, err := f.MarkDead(t.Context(), nil, dead)
		require.NoError(t, err)
		require.Equal(t, before, m, "nothing is left to change")

		_, err = f.MarkDead(t.Context(), nil, resolved)
		var refused *dlq.NotRetryableError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, dlq.StatusResolved, refused.Status)
		require.Equal(t, dlq.StatusResolved, f.message(resolved).Status)
	},

	"an operator revives a dead message": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(5)...)
		pending, retrying, resolved, sending := stored[0].ID, stored[1].ID, stored[2].ID, stored[4].ID
		f.claim(retrying)
		f.claim(sending)
		f.retry(resolved, dlq.ResultDelivered)
		dead := f.retry(stored[3].ID, dlq.ResultRejected)
		require.Equal(t, dlq.ResolutionRefused, dead.Resolution)
		marked, err := f.MarkDead(t.Context(), nil, sending)
		require.NoError(t, err)
		require.Equal(t, dlq.ResolutionGivenUp, marked.Resolution)
		m, err := f.Revive(t.Context(), nil, dead.ID)
		require.NoError(t, err)
		require.Equal(t, f.message(dead.ID), m)
		require.Equal(t, dlq.StatusPending, m.Status)
		require.Zero(t, m.RetryCount)
		require.Zero(t, m.Owner)
		require.Empty(t, m.Resolution)
		require.Equal(t, dead.LastRetryAt, m.LastRetryAt)
		require.True(t, m.UpdatedAt.After(dead.UpdatedAt))
		require.Len(t, f.detail(dead.ID).Attempts, 1, "the history stays")
		require.Equal(t, dlq.StatusResolved, f.retry(dead.ID, dlq.ResultDelivered).Status)

		_, err = f.Revive(t.Context(), nil, dlq.NewID())
		require.ErrorIs(t, err, dlq.ErrNotFound)
		for id, status := range map[dlq.ID]dlq.Status{pending: dlq.StatusPending, retrying: dlq.StatusRetrying, resolved: dlq.StatusResolved,
			sending: dlq.StatusDead} { // the publish of this message may not have ended
			before := f.message(id)
			_, err := f.Revive(t.Context(), nil, id)
			var refused *dlq.NotRetryableError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, status, refused.Status)
			require.Equal(t, before, f.message(id))
		}
	},

	"a message that nobody sends is revived as soon as it was marked dead": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		f.retry(id, dlq.ResultFailed)
		marked, err := f.MarkDead(t.Context(), nil, id)
		require.NoError(t, err)
		require.Zero(t, marked.Owner)
		revived, err := f.Revive(t.Context(), nil, id)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusPending, revived.Status)
		require.Len(t, f.detail(id).Attempts, 1)
		f.retry(id, dlq.ResultFailed)
		f.act(dlq.KindDead, dlq.Filter{Topic: "orders"})
		require.EqualValues(t, 1, f.act(dlq.KindRevive, dlq.Filter{Topic: "orders"}).Counts.Changed)
	},

	"a revived message may be retried": func(t *testing.T, f fixture) {
		for _, m := range f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)), dlqtest.Arrival(dlqtest.Retries(9, 3)),
			dlqtest.Arrival(dlqtest.Retries(0, 0)), dlqtest.Arrival(dlqtest.Retries(2, -1))) {
			require.Equal(t, dlq.StatusDead, m.Status)
			revived, err := f.Revive(t.Context(), nil, m.ID)
			require.NoError(t, err)
			require.NoError(t, revived.CheckRetryable())
			require.Equal(t, max(m.MaxRetries, 1), revived.MaxRetries)
			f.claim(m.ID)
		}
	},

	"a change of status moves updated_at": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival())[0]
		dead, err := f.MarkDead(t.Context(), nil, m.ID)
		require.NoError(t, err)
		require.Equal(t, m.CreatedAt, dead.CreatedAt)
		require.True(t, dead.UpdatedAt.After(m.UpdatedAt))
	},

	"topics are summed up": func(t *testing.T, f fixture) {
		empty, err := f.Topics(t.Context())
		require.NoError(t, err)
		require.Empty(t, empty)

		orders := f.store(dlqtest.Arrivals(4, dlqtest.Topic("orders"))...)
		f.store(dlqtest.Arrival(dlqtest.FromTopic("mixed.dlq", "first")))
		newest := f.store(dlqtest.Arrival(dlqtest.FromTopic("mixed.dlq", "second"), dlqtest.Retries(3, 3)))[0]
		f.claim(orders[0].ID)
		f.retry(orders[1].ID, dlq.ResultDelivered)

		topics, err := f.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, topics, 2)
		require.Equal(t, "mixed.dlq", topics[0].DLQTopic)
		require.Equal(t, "second", topics[0].OriginalTopic)
		require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 1, dlq.StatusDead: 1}, topics[0].Counts)
		require.Equal(t, newest.CreatedAt, topics[0].NewestArrival)
		require.NotNil(t, topics[0].OldestPending)
		require.Equal(t, "orders.dlq", topics[1].DLQTopic)
		require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 2, dlq.StatusRetrying: 1, dlq.StatusResolved: 1}, topics[1].Counts)
		require.Equal(t, &orders[2].CreatedAt, topics[1].OldestPending)
		require.Equal(t, orders[3].CreatedAt, topics[1].NewestArrival)

		for _, m := range orders[2:] {
			f.retry(m.ID, dlq.ResultDelivered)
		}
		topics, err = f.Topics(t.Context())
		require.NoError(t, err)
		require.Nil(t, topics[1].OldestPending)
	},
}
