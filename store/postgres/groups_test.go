package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

func TestGroupsAreCreatedAgainAfterARestore(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	partition := dlq.Partition{TopicID: dlqtest.TopicID}
	positions, err := s.Positions(t.Context(), []dlq.Partition{partition})
	require.NoError(t, err)
	advance := dlq.Advance{Partition: partition, Topic: "orders.dlq", From: positions[0], To: dlq.Position{Next: 1}}
	_, err = s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("x"))}, []dlq.Advance{advance})
	require.NoError(t, err)
	for _, sql := range []string{`DELETE FROM dlq.dlq_messages`, `DELETE FROM dlq.dlq_groups`, `UPDATE dlq.dlq_ingest_offsets SET next_offset = -1`} {
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	again := dlqtest.Arrival(dlqtest.Cause("x"))
	_, err = s.Ingest(t.Context(), []dlq.Arrival{again}, []dlq.Advance{{Partition: partition, Topic: "orders.dlq", From: advance.To, To: dlq.Position{Next: 2}}})
	require.ErrorIs(t, err, dlq.ErrPositionMoved)
	_, err = s.Ingest(t.Context(), []dlq.Arrival{again}, []dlq.Advance{advance})
	require.NoError(t, err)
	_, err = s.Group(t.Context(), dlq.GroupID(&again.Fingerprint), "")
	require.NoError(t, err)
}

func TestConcurrentWritersShareTheirGroups(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	var writers sync.WaitGroup
	for range 8 {
		s := postgres.New(pool, dlqtest.Topics(t)) // another process
		var arrivals []dlq.Arrival
		for cause := range 40 {
			arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Cause(fmt.Sprint(cause))))
		}
		writers.Go(func() {
			for from := 0; from < len(arrivals); from += 10 {
				_, err := s.StoreArrivals(t.Context(), arrivals[from:from+10])
				require.NoError(t, err)
			}
			require.NoError(t, s.FoldCounts(t.Context()))
		})
	}
	writers.Wait()
	page, err := postgres.New(pool, dlqtest.Topics(t)).Groups(t.Context(), dlq.GroupQuery{PageSize: 100})
	require.NoError(t, err)
	require.Len(t, page.Groups, 40)
	for i := range page.Groups {
		require.EqualValues(t, 8, page.Groups[i].Arrived)
		require.EqualValues(t, 8, page.Groups[i].Pending())
	}
}
