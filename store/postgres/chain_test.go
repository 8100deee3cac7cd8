package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

func TestAChainEndsAtACycleWrittenByHand(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(3)
	_, err := s.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	for i := range arrivals {
		_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET previous_id = $2 WHERE id = $1`, uuid(arrivals[i].ID), uuid(arrivals[(i+1)%3].ID))
		require.NoError(t, err)
	}
	itself := dlqtest.Arrival(func(a *dlq.Arrival) { a.PreviousID = a.ID })
	_, err = s.Ingest(t.Context(), []dlq.Arrival{itself}, nil)
	require.NoError(t, err)
	for id, hops := range map[dlq.ID]int{arrivals[0].ID: 3, arrivals[2].ID: 3, itself.ID: 1} {
		chain, err := s.Chain(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, chain.Hops, hops)
	}
}

// By hand, somebody may make one message the previous message of many messages.
func TestAChainReadsNoFurtherThanItsLimit(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	root, alone := dlqtest.Arrival(), dlqtest.Arrival()
	_, err := s.Ingest(t.Context(), []dlq.Arrival{alone}, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET previous_id = $1 WHERE id <> $2`, uuid(root.ID), uuid(alone.ID))
	require.NoError(t, err)
	_, err = s.Ingest(t.Context(), []dlq.Arrival{root}, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `VACUUM ANALYZE dlq.dlq_messages`)
	require.NoError(t, err)

	chain, err := s.Chain(t.Context(), root.ID)
	require.NoError(t, err)
	require.True(t, chain.Truncated)
	require.Len(t, chain.Hops, dlq.ChainLimit)
	require.Equal(t, root.ID, chain.Hops[dlq.ChainLimit-1].ID, "the nearest messages stay")
	for _, mode := range planModes {
		plan, pages := cost(t, pool, mode, chainSQL, pgx.NamedArgs{"id": uuid(root.ID)}, byIndexSQL)
		require.Less(t, pages, 20*dlq.ChainLimit, plan)
		plan, pages = cost(t, pool, mode, chainSQL, pgx.NamedArgs{"id": uuid(alone.ID)}, byIndexSQL)
		require.Less(t, pages, 40, plan)
	}
}
