package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// fail stores a dead letter of a cause, and returns it.
func fail(t *testing.T, s *postgres.Store, cause string) dlq.Message {
	t.Helper()
	a := dlqtest.Arrival(dlqtest.Cause(cause))
	_, err := s.Ingest(t.Context(), []dlq.Arrival{a}, nil)
	require.NoError(t, err)
	require.NoError(t, s.FoldCounts(t.Context()))
	m, err := s.Message(t.Context(), a.ID)
	require.NoError(t, err)
	return m
}

// failAndGo stores a dead letter of a cause, and deletes it again.
func failAndGo(t *testing.T, s *postgres.Store, cause string) dlq.ID {
	t.Helper()
	m := fail(t, s, cause)
	require.NoError(t, s.Delete(t.Context(), nil, m.ID))
	require.NoError(t, s.FoldCounts(t.Context()))
	return m.GroupID
}

// causesOf are the causes that have a group, sorted.
func causesOf(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	causes := []string{}
	rows, err := pool.Query(t.Context(), `SELECT CASE WHEN rule = 'overflow' THEN rule ELSE message END FROM dlq.dlq_groups ORDER BY 1`)
	require.NoError(t, err)
	for rows.Next() {
		var cause string
		require.NoError(t, rows.Scan(&cause))
		causes = append(causes, cause)
	}
	require.NoError(t, rows.Err())
	return causes
}

// requireNoTrace checks that no table has rows about removed groups.
func requireNoTrace(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for _, table := range []string{"dlq_group_count_sums", "dlq_group_arrivals", "dlq_group_signatures", "dlq_group_fixes", "dlq_messages", "dlq_messages_archive"} {
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.`+table+` WHERE group_id NOT IN (SELECT id FROM dlq.dlq_groups)`), table)
	}
}

func TestANewCauseTakesThePlaceOfTheOldestGroupWithoutMessages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	s.MaxGroups = 3
	failAndGo(t, s, "oldest")
	failAndGo(t, s, "older")
	fail(t, s, "has a message")
	fail(t, s, "new")
	require.Equal(t, []string{"has a message", "new", "older"}, causesOf(t, pool))
	fail(t, s, "newer")
	fail(t, s, "one too many")
	require.Equal(t, []string{"has a message", "new", "newer", "overflow"}, causesOf(t, pool))
	requireNoTrace(t, pool)
}

func TestAFullTopicIsFreeAgainOnceItsMessagesAreGone(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	s.MaxGroups = 2
	for _, cause := range []string{"a", "b", "c", "d"} {
		fail(t, s, cause)
	}
	require.Equal(t, []string{"a", "b", "overflow"}, causesOf(t, pool))
	_, err := pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages`)
	require.NoError(t, err)
	require.NoError(t, s.FoldCounts(t.Context()))
	fail(t, s, "e")
	fail(t, s, "f")
	require.Equal(t, []string{"e", "f", "overflow"}, causesOf(t, pool))
	requireNoTrace(t, pool)
}

func TestGroupsThatSomebodyNeedsDoNotGiveWay(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	change := func(c dlq.GroupChange) func(dlq.ID) {
		return func(id dlq.ID) { require.NoError(t, s.ChangeGroup(t.Context(), nil, id, c)) }
	}
	held := dlq.GroupHeld
	for name, need := range map[string]func(dlq.ID){
		"owner":  change(dlq.GroupChange{Owner: new("ann")}),
		"ticket": change(dlq.GroupChange{Ticket: new("https://example.com/1")}),
		"note":   change(dlq.GroupChange{Note: new("known")}),
		"held":   change(dlq.GroupChange{State: &held, Hold: dlq.Hold{Count: 5}}),
		"fixed":  func(id dlq.ID) { require.NoError(t, s.FixGroup(t.Context(), nil, id, dlq.GroupFix{At: time.Now()})) },
	} {
		need(failAndGo(t, s, name))
	}
	archived := fail(t, s, "archived")
	_, err := s.MarkDead(t.Context(), nil, archived.ID)
	require.NoError(t, err)
	_, err = s.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	retrying := fail(t, s, "retrying")
	_, err = s.Claim(t.Context(), retrying.ID, dlqtest.Owner(), dlq.ID{})
	require.NoError(t, err)
	uncounted := dlqtest.Arrival(dlqtest.Cause("uncounted"))
	_, err = s.Ingest(t.Context(), []dlq.Arrival{uncounted}, nil)
	require.NoError(t, err)

	needed := causesOf(t, pool)
	require.Len(t, needed, 8)
	failAndGo(t, s, "unused")
	removed, err := s.PurgeGroups(t.Context(), 0, 100)
	require.NoError(t, err)
	require.EqualValues(t, 1, removed)
	require.Equal(t, needed, causesOf(t, pool))
	requireNoTrace(t, pool)

	purged, err := s.PurgeBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	require.EqualValues(t, 1, purged)
	removed, err = s.PurgeGroups(t.Context(), 0, 100)
	require.NoError(t, err)
	require.EqualValues(t, 1, removed, "its archived message is gone")
	require.NotContains(t, causesOf(t, pool), "archived")
}

func TestUnusedGroupsAreRemovedAfterTheirRetentionInBatches(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	for i := range 5 {
		failAndGo(t, s, fmt.Sprint(i))
	}
	_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_groups SET first_seen = now() - interval '1 year'`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_group_arrivals SET last_seen = now() - make_interval(secs => $1)
		WHERE group_id IN (SELECT id FROM dlq.dlq_groups WHERE message <> '3')`, (dlq.GroupRetention + time.Minute).Seconds())
	require.NoError(t, err)
	for _, want := range []int64{3, 1, 0} {
		removed, err := s.PurgeGroups(t.Context(), dlq.GroupRetention, 3)
		require.NoError(t, err)
		require.Equal(t, want, removed)
	}
	require.Equal(t, []string{"3"}, causesOf(t, pool))
	requireNoTrace(t, pool)
}

// The worker knew the group before the other worker removed it.
func TestAMessageOfARemovedGroupCreatesItAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	worker, other := postgres.New(pool, dlqtest.Topics(t)), postgres.New(pool, dlqtest.Topics(t))
	id := failAndGo(t, worker, "x")
	removed, err := other.PurgeGroups(t.Context(), 0, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, removed)
	_, err = worker.Group(t.Context(), id, "")
	require.ErrorIs(t, err, dlq.ErrNotFound)
	require.Equal(t, id, fail(t, worker, "x").GroupID)
	g, err := worker.Group(t.Context(), id, "")
	require.NoError(t, err)
	require.EqualValues(t, 1, g.Arrived)
	require.EqualValues(t, 1, dlqtest.Pending(&g))
}

// Workers store, delete and replace groups at the same time.
func TestNoMessageIsLeftWithoutItsGroup(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	sweeper := postgres.New(pool, dlqtest.Topics(t))
	done := make(chan struct{})
	var writers, sweepers sync.WaitGroup
	for range 3 {
		s := postgres.New(pool, dlqtest.Topics(t))
		s.MaxGroups = 4
		writers.Go(func() {
			for i := range 40 {
				var arrivals []dlq.Arrival
				for cause := range 3 {
					arrivals = append(arrivals, dlqtest.Arrival(dlqtest.Cause(fmt.Sprint((i+cause)%6))))
				}
				ids, err := s.Ingest(t.Context(), arrivals, nil)
				require.NoError(t, err)
				require.Len(t, ids, len(arrivals))
				for _, a := range slices.Concat(arrivals[1:], arrivals[:1])[:2] {
					require.NoError(t, s.Delete(t.Context(), nil, a.ID))
				}
			}
		})
	}
	sweepers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				require.NoError(t, sweeper.FoldCounts(t.Context()))
			}
		}
	})
	writers.Wait()
	close(done)
	sweepers.Wait()
	requireNoTrace(t, pool)
	require.Zero(t, count(t, pool, `SELECT count(*) FROM (
		SELECT group_id, count(*) AS n FROM dlq.dlq_messages GROUP BY group_id
		EXCEPT
		SELECT group_id, sum(messages) FROM (
			SELECT group_id, messages FROM dlq.dlq_group_count_sums UNION ALL SELECT group_id, messages FROM dlq.dlq_uncounted) AS c
		GROUP BY group_id) AS wrong`))
}
