package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// hops are the messages of a chain, which must be complete.
func (f fixture) hops(id dlq.ID) []dlq.Hop {
	f.t.Helper()
	chain, err := f.Chain(f.t.Context(), id)
	require.NoError(f.t, err)
	require.False(f.t, chain.Truncated)
	return chain.Hops
}

func hopIDs(hops []dlq.Hop) []dlq.ID {
	list := make([]dlq.ID, len(hops))
	for i := range hops {
		list[i] = hops[i].ID
	}
	return list
}

var chains = map[string]func(*testing.T, fixture){
	"a chain has every message of a tree, from wherever one looks": func(t *testing.T, f fixture) {
		root := dlqtest.Arrival()
		left, right := cameBackFrom(root.ID), cameBackFrom(root.ID)
		leaf, deepest := cameBackFrom(left.ID), cameBackFrom(right.ID)
		other := dlqtest.Arrival()
		f.store(root, other, left, right, leaf, cameBackFrom(other.ID), deepest)
		want := arrivalIDs([]dlq.Arrival{root, left, right, leaf, deepest})
		for _, id := range want {
			require.Equal(t, want, hopIDs(f.hops(id)))
		}
		hops := f.hops(leaf.ID)
		require.Equal(t, left.Source, hops[1].Source)
		require.Nil(t, hops[1].Payload)
		withoutPayload := f.message(left.ID)
		withoutPayload.Payload, withoutPayload.ErrorMessage = nil, ""
		require.Equal(t, withoutPayload, hops[1].Message)
	},

	"a chain has archived messages too": func(t *testing.T, f fixture) {
		root := dlqtest.Arrival()
		f.store(root)
		f.retry(root.ID, dlq.ResultFailed)
		owner := f.claim(root.ID)
		_, _, err := f.Finalize(t.Context(), owner, acknowledged(dlqtest.Delivered(root.ID), 3, 1<<40))
		require.NoError(t, err)
		delivered := f.message(root.ID)
		_, err = f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		back := cameBackFrom(root.ID)
		f.store(back)
		for _, id := range []dlq.ID{root.ID, back.ID} {
			hops := f.hops(id)
			require.Equal(t, []dlq.ID{root.ID, back.ID}, hopIDs(hops))
			require.Equal(t, []bool{true, false}, []bool{hops[0].Archived, hops[1].Archived})
			delivered.Payload, delivered.ErrorMessage = nil, ""
			require.Equal(t, delivered, hops[0].Message)
			require.Equal(t, root.Source, hops[0].Source)
			retries := hops[0].Retries()
			require.Len(t, retries, 2)
			require.Equal(t, dlq.ResultFailed, retries[0].Result)
			require.Equal(t, dlq.Attempt{Number: 2, Owner: owner, StartedAt: *delivered.LastRetryAt, EndedAt: delivered.UpdatedAt,
				Result: dlq.ResultDelivered}, retries[1])
			require.Empty(t, hops[1].Retries())
		}
	},

	"a deleted message still connects those that it became": func(t *testing.T, f fixture) {
		root := dlqtest.Arrival()
		left, right := cameBackFrom(root.ID), cameBackFrom(root.ID)
		f.store(root, left, right)
		require.NoError(t, f.Delete(t.Context(), nil, root.ID))
		require.Equal(t, []dlq.ID{left.ID, right.ID}, hopIDs(f.hops(right.ID)))
		_, err := f.Chain(t.Context(), root.ID)
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"a message that does not exist has no chain": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival())
		_, err := f.Chain(t.Context(), dlq.NewID())
		require.ErrorIs(t, err, dlq.ErrNotFound)
	},

	"a chain that is too long is truncated around the message": func(t *testing.T, f fixture) {
		const length = dlq.ChainLimit + 20
		arrivals := []dlq.Arrival{dlqtest.Arrival()}
		for len(arrivals) < length {
			arrivals = append(arrivals, cameBackFrom(arrivals[len(arrivals)-1].ID))
		}
		_, err := f.StoreArrivals(t.Context(), arrivals)
		require.NoError(t, err)
		for from, want := range map[int][]dlq.Arrival{0: arrivals[:dlq.ChainLimit], length - 1: arrivals[20:]} {
			chain, err := f.Chain(t.Context(), arrivals[from].ID)
			require.NoError(t, err)
			require.True(t, chain.Truncated)
			require.Equal(t, arrivalIDs(want), hopIDs(chain.Hops))
		}
		require.NoError(t, f.Delete(t.Context(), nil, arrivals[dlq.ChainLimit].ID))
		chain, err := f.Chain(t.Context(), arrivals[0].ID)
		require.NoError(t, err)
		require.Len(t, chain.Hops, dlq.ChainLimit)
		require.False(t, chain.Truncated, "the rest has nothing to do with it any more")
	},
}
