package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// Groups are deleted by hand, or by a restore of the database.
func TestDeletedGroupsAreCreatedAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	for range 2 {
		a := dlqtest.Arrival(dlqtest.Cause("x"))
		_, err := s.Ingest(t.Context(), []dlq.Arrival{a}, nil)
		require.NoError(t, err)
		_, err = s.Group(t.Context(), dlq.GroupID(&a.Fingerprint), "")
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_groups`)
		require.NoError(t, err)
	}
}

func TestOfOpenGroupsTheLargestAreNamed(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	for _, cause := range []string{"no price", "no stock", "no stock"} {
		_, err := s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause(cause))}, nil)
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_groups SET first_seen = first_seen - interval '2 hours'`)
	require.NoError(t, err)
	backlogs, err := s.GroupBacklogs(t.Context())
	require.NoError(t, err)
	require.Len(t, backlogs, 1)
	require.Equal(t, dlq.BacklogOpen, backlogs[0].State)
	require.Equal(t, []dlq.BacklogCause{{Title: "no stock", Place: "***", Pending: 2}, {Title: "no price", Place: "***", Pending: 1}}, backlogs[0].Causes)
}

func TestConcurrentWritersKeepTheLimitOfGroups(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	pool := dbtest.Pool(t, url)
	waiting := func() int64 {
		return count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	}
	gate, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = gate.Exec(t.Context(), `LOCK TABLE dlq.dlq_groups IN SHARE ROW EXCLUSIVE MODE`)
	require.NoError(t, err)
	var writers sync.WaitGroup
	for writer := range 4 {
		s := postgres.New(dbtest.Pool(t, url), dlqtest.Topics(t)) // another process
		s.MaxGroups = 5
		var arrivals []dlq.Arrival
		for cause := range 3 {
			arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Cause(fmt.Sprint(writer, cause))))
		}
		writers.Go(func() {
			_, err := s.Ingest(t.Context(), arrivals, nil)
			require.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return waiting() == 4 }, 10*time.Second, time.Millisecond)
	require.NoError(t, gate.Rollback(t.Context()))
	writers.Wait()
	require.EqualValues(t, 5, count(t, pool, `SELECT count(*) FROM dlq.dlq_groups WHERE rule <> 'overflow'`))
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
				_, err := s.Ingest(t.Context(), arrivals[from:from+10], nil)
				require.NoError(t, err)
			}
			require.NoError(t, s.FoldCounts(t.Context()))
		})
	}
	writers.Wait()
	page, err := postgres.New(pool, dlqtest.Topics(t)).Groups(t.Context(), dlq.GroupQuery{PageSize: 100})
	require.NoError(t, err)
	require.Len(t, page.Entries, 40)
	for i := range page.Entries {
		require.EqualValues(t, 8, page.Entries[i].Arrived)
		require.EqualValues(t, 8, dlqtest.Pending(&page.Entries[i]))
	}
}

// The messages in the hidden topic were deleted, but the number of arrivals includes them.
func TestAGroupThatWasInAHiddenTopicStaysPartial(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	seen, hidden := dlqtest.Arrival(dlqtest.Cause("x")), dlqtest.Arrival(dlqtest.Cause("x"), dlqtest.FromTopic("shop.dlq", "shop"))
	for _, a := range []dlq.Arrival{seen, hidden} {
		_, err := s.Ingest(t.Context(), []dlq.Arrival{a}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, s.Delete(t.Context(), nil, hidden.ID))
	const within = "^(orders.*)$"
	for range 2 { // first with changes that are not in the sums, then with sums only
		g, err := s.Group(t.Context(), dlq.GroupID(&seen.Fingerprint), within)
		require.NoError(t, err)
		require.True(t, g.IsPartial)
		require.Equal(t, []dlq.GroupCount{{DLQTopic: "orders.dlq", OriginalTopic: "orders", Status: dlq.StatusPending, Messages: 1}}, g.Counts)
		require.NoError(t, s.FoldCounts(t.Context()))
	}
	for _, topic := range []string{"shop", "shop.dlq"} {
		page, err := s.Groups(t.Context(), dlq.GroupQuery{Topic: topic, PageSize: 1, Sort: dlq.GroupsByLastSeen})
		require.NoError(t, err)
		require.Empty(t, page.Entries)
	}
}
