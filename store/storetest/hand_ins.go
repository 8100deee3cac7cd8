package storetest

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// handedIn is an arrival that does not come from Kafka.
func handedIn(options ...func(*dlq.Arrival)) dlq.Arrival {
	a := dlqtest.Arrival(options...)
	a.Source, a.ID = dlq.Source{}, dlq.NewID()
	return a
}

// idempotent is the same key for each request.
func idempotent(request string) *dlq.IdempotencyKey {
	return dlq.NewIdempotencyKey([]string{"k"}, []byte(request))
}

var handIns = map[string]func(*testing.T, fixture){
	"letters that are handed in are messages like any other": func(t *testing.T, f fixture) {
		letters := []dlq.Arrival{handedIn(dlqtest.Cause("boom")), handedIn(dlqtest.Cause("boom")), handedIn(dlqtest.NoKey)}
		ids, repeated, err := f.HandIn(t.Context(), nil, letters, nil)
		require.NoError(t, err)
		require.False(t, repeated)
		require.Equal(t, []dlq.ID{letters[0].ID, letters[1].ID, letters[2].ID}, ids, "in their order")
		for i := range letters {
			d := f.detail(ids[i])
			require.Equal(t, dlq.StatusPending, d.Status)
			require.True(t, d.Source.IsZero())
			require.Equal(t, letters[i].Record.Value, d.Record.Value)
		}
		group := f.group(f.message(ids[0]).GroupID)
		require.EqualValues(t, 2, dlqtest.Pending(&group))
		require.Equal(t, ids, f.drain(f.startLane()))
	},

	"a repeated key stores nothing and returns the same ids": func(t *testing.T, f fixture) {
		first, repeated, err := f.HandIn(t.Context(), nil, []dlq.Arrival{handedIn(), handedIn()}, idempotent("a"))
		require.NoError(t, err)
		require.False(t, repeated)
		require.NoError(t, f.Delete(t.Context(), nil, first[0]))
		again, repeated, err := f.HandIn(t.Context(), nil, []dlq.Arrival{handedIn(), handedIn()}, idempotent("a"))
		require.NoError(t, err)
		require.True(t, repeated)
		require.Equal(t, first, again)
		_, err = f.Message(t.Context(), first[0])
		require.ErrorIs(t, err, dlq.ErrNotFound, "what was deleted does not come back")
		_, _, err = f.HandIn(t.Context(), nil, []dlq.Arrival{handedIn()}, idempotent("b"))
		require.ErrorIs(t, err, dlq.ErrKeyReused)
		require.Len(t, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 50}).Messages, 1)
	},

	"requests with one key at once store their letters once": func(t *testing.T, f fixture) {
		var wait sync.WaitGroup
		answers := make([][]dlq.ID, 6)
		for i := range answers {
			wait.Go(func() {
				ids, _, err := f.HandIn(t.Context(), nil, []dlq.Arrival{handedIn(), handedIn()}, idempotent("a"))
				if err == nil {
					answers[i] = ids
				}
			})
		}
		wait.Wait()
		for _, ids := range answers {
			require.Equal(t, answers[0], ids)
		}
		require.Len(t, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 50}).Messages, 2)
	},

	"letters are in the audit in their transaction": func(t *testing.T, f fixture) {
		asked := &dlq.Operation{Subject: "shop", Action: dlq.PermMessageCreate, Topic: "orders.dlq"}
		for range 2 {
			_, _, err := f.HandIn(t.Context(), asked, []dlq.Arrival{handedIn()}, idempotent("a"))
			require.NoError(t, err)
		}
		page, err := f.Operations(t.Context(), dlq.OperationQuery{PageSize: 10})
		require.NoError(t, err)
		require.Len(t, page.Entries, 1, "the repeated one changed nothing")
		require.Equal(t, dlq.OperationDone, page.Entries[0].Outcome)
	},
}
