package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var retries = map[string]func(*testing.T, fixture){
	"a claim counts the retry and returns the record": func(t *testing.T, f fixture) {
		a := dlqtest.Arrival(dlqtest.Headers(dlqtest.Arrival().Record.Headers...))
		m := f.store(a)[0]
		owner := dlqtest.Owner()
		c, err := f.Claim(t.Context(), a.ID, owner, dlq.ID{})
		require.NoError(t, err)
		require.Greater(t, c.Size, int64(len(a.Record.Value)))
		require.Equal(t, dlq.Claim{OriginalTopic: "orders", RetryCount: 1, MaxRetries: a.MaxRetries, Size: c.Size}, c)
		found, err := f.Claimed(t.Context(), a.ID, owner)
		require.NoError(t, err)
		require.Equal(t, c, found)
		e, err := f.Envelope(t.Context(), a.ID, owner)
		require.NoError(t, err)
		require.Equal(t, dlq.Envelope{ID: a.ID, Seq: m.Seq, OriginalTopic: "orders", RetryCount: 1, Record: a.Record}, e)
		claimed := f.message(a.ID)
		require.Equal(t, dlq.StatusRetrying, claimed.Status)
		require.Equal(t, 1, claimed.RetryCount)
		require.Equal(t, owner, claimed.Owner)
		require.WithinDuration(t, time.Now(), *claimed.LastRetryAt, time.Minute)

		again, err := f.Claim(t.Context(), a.ID, owner, dlq.ID{})
		require.NoError(t, err)
		require.Equal(t, c, again, "the same owner gets the same claim, which is not counted twice")
		require.Equal(t, 1, f.message(a.ID).RetryCount)
	},

	"an owner that has lost its message gets no record": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		owner := f.claim(stored[0].ID)
		_, err := f.Release(t.Context(), owner, "gone")
		require.NoError(t, err)
		dead := f.claim(stored[1].ID)
		_, err = f.MarkDead(t.Context(), nil, stored[1].ID)
		require.NoError(t, err)
		f.claim(stored[2].ID)
		var lost *dlq.NotRetryableError
		var owned *dlq.OwnedError
		for id, c := range map[dlq.ID]struct {
			owner dlq.Owner
			want  any
		}{
			stored[0].ID: {owner, &lost},
			stored[1].ID: {dead, &lost},
			stored[2].ID: {dlqtest.Owner(), &owned},
			stored[3].ID: {dlqtest.Owner(), &lost},
		} {
			_, err := f.Claimed(t.Context(), id, c.owner)
			require.ErrorAs(t, err, c.want)
			_, err = f.Envelope(t.Context(), id, c.owner)
			require.ErrorAs(t, err, c.want)
		}
		_, err = f.Envelope(t.Context(), dlq.NewID(), owner)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.Equal(t, dlq.StatusPending, f.message(stored[3].ID).Status, "nothing is claimed")
	},

	"a claim needs an owner": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		_, err := f.Claim(t.Context(), id, dlq.Owner{WorkflowID: "retry-message-1"}, dlq.ID{})
		require.Error(t, err)
		require.Equal(t, dlq.StatusPending, f.message(id).Status)
	},

	"a message of another owner is not claimed": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.claim(id)
		other := owner
		other.Token = dlq.NewID().String() // a later run of the same workflow id
		_, err := f.Claim(t.Context(), id, other, dlq.ID{})
		var owned *dlq.OwnedError
		require.ErrorAs(t, err, &owned)
		require.Equal(t, owner, owned.Owner)
		require.Equal(t, 1, f.message(id).RetryCount)
	},

	"one of several concurrent claims wins": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		var group sync.WaitGroup
		failures := make([]error, 8)
		for i := range failures {
			group.Go(func() { _, failures[i] = f.Claim(t.Context(), id, dlqtest.Owner(), dlq.ID{}) })
		}
		group.Wait()
		won := 0
		for _, err := range failures {
			var owned *dlq.OwnedError
			switch {
			case err == nil:
				won++
			case !errors.As(err, &owned):
				require.NoError(t, err)
			}
		}
		require.Equal(t, 1, won)
		require.Equal(t, 1, f.message(id).RetryCount)
	},

	"a RESOLVED or DEAD message is not claimed": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(2)...)
		f.retry(stored[0].ID, dlq.ResultDelivered)
		f.retry(stored[1].ID, dlq.ResultRejected)
		for i, text := range []string{
			"message is not retryable: status=RESOLVED, retry_count=1/3",
			"message is not retryable: status=DEAD, retry_count=1/3",
		} {
			_, err := f.Claim(t.Context(), stored[i].ID, dlqtest.Owner(), dlq.ID{})
			var refused *dlq.NotRetryableError
			require.ErrorAs(t, err, &refused)
			require.EqualError(t, err, text)
		}
	},

	"a message whose original topic is a dead-letter topic is not claimed": func(t *testing.T, f fixture) {
		for _, m := range f.store(
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders.dlq")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "other.dlq.v1")),
			dlqtest.Arrival(dlqtest.FromTopic("strange", "strange")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", ""))) {
			_, err := f.Claim(t.Context(), m.ID, dlqtest.Owner(), dlq.ID{})
			var refused *dlq.NotRetryableError
			require.ErrorAs(t, err, &refused)
			require.NotEmpty(t, refused.Reason)
			require.Zero(t, f.message(m.ID).RetryCount)
		}
	},

	"the result of a retry decides its status and its resolution": func(t *testing.T, f fixture) {
		for _, test := range []struct {
			result     dlq.Result
			had, max   int
			status     dlq.Status
			resolution dlq.Resolution
			count      int
			attempts   int
		}{
			{dlq.ResultDelivered, 0, 3, dlq.StatusResolved, dlq.ResolutionDelivered, 1, 0},
			{dlq.ResultDelivered, 2, 3, dlq.StatusResolved, dlq.ResolutionDelivered, 3, 0},
			{dlq.ResultFailed, 0, 3, dlq.StatusPending, "", 1, 1},
			{dlq.ResultFailed, 2, 3, dlq.StatusDead, dlq.ResolutionExhausted, 3, 1},
			{dlq.ResultFailed, 0, 1, dlq.StatusDead, dlq.ResolutionExhausted, 1, 1},
			{dlq.ResultRejected, 0, 3, dlq.StatusDead, dlq.ResolutionRefused, 1, 1},
			{dlq.ResultRejected, 2, 3, dlq.StatusDead, dlq.ResolutionRefused, 3, 1},
			{dlq.ResultReleased, 0, 3, dlq.StatusPending, "", 0, 0},
			{dlq.ResultReleased, 2, 3, dlq.StatusPending, "", 2, 0},
		} {
			id := f.store(dlqtest.Arrival(dlqtest.Retries(test.had, test.max)))[0].ID
			m := f.retry(id, test.result)
			require.Equal(t, test.status, m.Status, test)
			require.Equal(t, test.resolution, m.Resolution, test)
			require.Nil(t, m.TargetOffset, test)
			require.Equal(t, test.count, m.RetryCount, test)
			require.Equal(t, f.message(id), m)
			require.Len(t, f.detail(id).Attempts, test.attempts, test)
		}
	},

	"a delivered message keeps where its target has it": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		f.retry(id, dlq.ResultFailed)
		owner := f.claim(id)
		m, _, err := f.Finalize(t.Context(), owner, acknowledged(dlqtest.Delivered(id), 3, 1<<40))
		require.NoError(t, err)
		require.Equal(t, []any{int32(3), int64(1 << 40)}, []any{*m.TargetPartition, *m.TargetOffset})
		require.Equal(t, m, f.message(id))
	},

	"retries that did not deliver are stored, oldest first": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		first := f.claim(id)
		claimed := f.message(id)
		_, _, err := f.Finalize(t.Context(), first, dlq.Outcome{ID: id, Result: dlq.ResultFailed, Category: dlq.CategoryAuth, Error: "no\x00access"})
		require.NoError(t, err)
		f.retry(id, dlq.ResultReleased)
		f.retry(id, dlq.ResultRejected)
		attempts := f.detail(id).Attempts
		require.Len(t, attempts, 2)
		require.Equal(t, dlq.Attempt{Number: 1, Owner: first, StartedAt: *claimed.LastRetryAt, EndedAt: attempts[0].EndedAt,
			Result: dlq.ResultFailed, Category: dlq.CategoryAuth, Error: "no␀access"}, attempts[0])
		require.False(t, attempts[0].EndedAt.Before(attempts[0].StartedAt))
		require.Equal(t, 2, attempts[1].Number)
		require.Equal(t, dlq.ResultRejected, attempts[1].Result)
		require.Equal(t, dlq.CategoryBadData, attempts[1].Category)
	},

	"finalizing twice changes nothing": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.claim(id)
		first, ended, err := f.Finalize(t.Context(), owner, dlqtest.Failed(id))
		require.NoError(t, err)
		require.True(t, ended)
		again, ended, err := f.Finalize(t.Context(), owner, dlqtest.Failed(id))
		require.NoError(t, err)
		require.False(t, ended)
		require.Equal(t, first, again)
		require.Len(t, f.detail(id).Attempts, 1)
	},

	"only the owner finalizes": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.claim(id)
		before := f.message(id)
		m, _, err := f.Finalize(t.Context(), dlqtest.Owner(), dlqtest.Delivered(id))
		require.NoError(t, err)
		require.Equal(t, before, m)
		m, _, err = f.Finalize(t.Context(), owner, dlqtest.Delivered(id))
		require.NoError(t, err)
		require.Equal(t, dlq.StatusResolved, m.Status)
	},

	"a message that was marked dead while it was sent stays DEAD unless it was delivered": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.claim(id)
		dead, err := f.MarkDead(t.Context(), nil, id)
		require.NoError(t, err)
		for _, result := range []dlq.Result{dlq.ResultFailed, dlq.ResultRejected, dlq.ResultReleased} {
			m, ended, err := f.Finalize(t.Context(), owner, dlq.Outcome{ID: id, Result: result, Error: "refused"})
			require.NoError(t, err)
			require.False(t, ended)
			require.Equal(t, dead, m)
		}
		delivered := acknowledged(dlqtest.Delivered(id), 5, 7)
		m, ended, err := f.Finalize(t.Context(), owner, delivered)
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, dlq.StatusResolved, m.Status)
		require.Equal(t, dlq.ResolutionDelivered, m.Resolution)
		require.EqualValues(t, 7, *m.TargetOffset)
		chain, err := f.Chain(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, chain.Hops[0].Retries(), 1)
		_, ended, err = f.Finalize(t.Context(), owner, delivered)
		require.NoError(t, err)
		require.False(t, ended, "it is recorded once")
	},

	"owners are those of RETRYING messages": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(4)...)
		f.retry(stored[0].ID, dlq.ResultFailed)
		owner := f.claim(stored[1].ID)
		_, err := f.Claim(t.Context(), stored[2].ID, owner, dlq.ID{})
		require.NoError(t, err)
		other := f.claim(stored[3].ID)

		owners, err := f.Owners(t.Context(), time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.ElementsMatch(t, []dlq.Owner{owner, other}, owners)
		owners, err = f.Owners(t.Context(), time.Now().Add(-time.Minute))
		require.NoError(t, err)
		require.Empty(t, owners, "they have only just been claimed")
	},

	"messages of a terminated workflow are released": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(), dlqtest.Arrival(dlqtest.Retries(2, 3)), dlqtest.Arrival(), dlqtest.Arrival())
		owner := f.claim(stored[0].ID)
		_, err := f.Claim(t.Context(), stored[1].ID, owner, dlq.ID{})
		require.NoError(t, err)
		_, err = f.Claim(t.Context(), stored[2].ID, owner, dlq.ID{})
		require.NoError(t, err)
		_, _, err = f.Finalize(t.Context(), owner, dlqtest.Delivered(stored[2].ID))
		require.NoError(t, err)
		other := f.claim(stored[3].ID)

		released, err := f.Release(t.Context(), owner, "workflow terminated")
		require.NoError(t, err)
		require.EqualValues(t, 2, released)
		require.Equal(t, dlq.StatusPending, f.message(stored[0].ID).Status)
		require.Equal(t, dlq.StatusDead, f.message(stored[1].ID).Status)
		require.Equal(t, dlq.ResolutionExhausted, f.message(stored[1].ID).Resolution)
		require.Empty(t, f.message(stored[0].ID).Resolution)
		require.Equal(t, dlq.StatusResolved, f.message(stored[2].ID).Status)
		require.Equal(t, other, f.message(stored[3].ID).Owner)
		require.Equal(t, dlq.StatusRetrying, f.message(stored[3].ID).Status)
		for i, number := range []int{1, 3} {
			attempts := f.detail(stored[i].ID).Attempts
			require.Len(t, attempts, 1)
			require.Equal(t, number, attempts[0].Number)
			require.Equal(t, "workflow terminated", attempts[0].Error)
			require.Equal(t, dlq.CategoryTransient, attempts[0].Category)
			require.Equal(t, owner, attempts[0].Owner)
		}
		released, err = f.Release(t.Context(), owner, "again")
		require.NoError(t, err)
		require.Zero(t, released)
	},
}
