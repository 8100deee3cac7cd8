package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

// fillSame does the same as fill. The later half of the messages then has the dead-letter topic as its
// original topic. Such messages are found by both topics, and cannot be sent.
func fillSame(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	fill(t, pool)
	for _, sql := range []string{`UPDATE dlq.dlq_messages SET original_topic = dlq_topic WHERE seq > 20000`, `VACUUM ANALYZE dlq.dlq_messages`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
}

func TestMessagesWhoseTopicsAreTheSameDoNotMakeAListExpensive(t *testing.T) {
	t.Parallel()
	pool := filledBy(t, "same topics", fillSame)
	for _, mode := range planModes {
		for _, seq := range []int64{planRows + 1, planRows * 3 / 4, planRows / 4} {
			for _, oldestFirst := range []bool{false, true} {
				after := dlq.Keyset{CreatedAt: filledFrom.Add(time.Duration(seq) * time.Second), Seq: seq}
				q := dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 20, After: &after, OldestFirst: oldestFirst}
				plan, pages := cost(t, pool, mode, listed(listSQL, &q), listArgs(&q), inOrderSQL)
				require.Less(t, pages, 400, plan)
			}
		}
	}
}

func TestAMessageWhoseTopicsAreTheSameIsListedOnce(t *testing.T) {
	t.Parallel()
	s := New(dbtest.New(t), dlqtest.Topics(t))
	_, err := s.Ingest(t.Context(), dlqtest.Arrivals(3, dlqtest.FromTopic("orders.dlq", "orders.dlq")), nil)
	require.NoError(t, err)
	page, err := s.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 10})
	require.NoError(t, err)
	require.Len(t, page.Messages, 3)
	require.EqualValues(t, 3, page.Total)
}

func TestAClaimDoesNotReadMessagesWhoseTopicsAreTheSameAgain(t *testing.T) {
	t.Parallel()
	s := New(dbtest.New(t), dlqtest.Topics(t))
	for _, filter := range []dlq.Filter{{}, {ErrorContains: "boom"}} {
		b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", 4, dlqtest.Filter(filter)))
		require.NoError(t, err)
		lane, err := s.OpenLane(t.Context(), b.ID, 2, dlq.LaneAttempt{Number: 1})
		require.NoError(t, err)
		batch := &pgx.Batch{}
		(&step{Store: s, lane: &lane, scans: true, args: s.laneArgs(&lane)}).queueScan(batch)
		require.Equal(t, 1, batch.Len(), "the messages are not listed by their original topic too")
		_, err = s.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "")
		require.NoError(t, err)
	}
}

func TestACountOfAKeyReadsThatKeyOnly(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1, dlqtest.Filter(dlq.Filter{Key: []byte("7")})))
	require.NoError(t, err)
	args := s.bulkArgs(&b.Spec)
	args["upper_bound"], args["snapshot_at"] = b.UpperBound, time.Now()
	for _, mode := range planModes {
		plan, pages := cost(t, pool, mode, filtered(sendableSQL, &b.Spec.Filter), args)
		require.Less(t, pages, 50, plan)
	}
}
