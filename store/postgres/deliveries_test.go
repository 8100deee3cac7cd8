package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// targetsOfSQL are the targets of all messages, in the order of arrival.
const targetsOfSQL = `SELECT COALESCE(t.topic || ' ' || COALESCE(t.topic_id::text, '-'), '?')
	FROM dlq.dlq_messages m LEFT JOIN dlq.dlq_targets t ON t.id = m.target_id ORDER BY m.seq`

func TestEachDeliveryNamesItsTargetAlsoAfterTheTargetsWereLost(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(6), nil)
	require.NoError(t, err)
	list, err := p.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 6, OldestFirst: true})
	require.NoError(t, err)
	messages := list.Messages
	deliver := func(at int, a *dlq.Acknowledgement) {
		id, owner := messages[at].ID, dlqtest.Owner()
		_, err := p.Claim(t.Context(), id, owner, dlq.ID{})
		require.NoError(t, err)
		outcome := dlqtest.Delivered(id)
		outcome.Acknowledgement = a
		_, _, err = p.Finalize(t.Context(), owner, outcome)
		require.NoError(t, err)
	}
	first, again := dlq.NewID(), dlq.NewID()
	deliver(0, &dlq.Acknowledgement{Topic: "orders", TopicID: first, Offset: 1})
	deliver(1, &dlq.Acknowledgement{Topic: "orders", TopicID: first, Offset: 2})
	_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_targets`)
	require.NoError(t, err)
	deliver(2, &dlq.Acknowledgement{Topic: "orders", TopicID: again, Offset: 1})
	deliver(3, &dlq.Acknowledgement{Topic: "http:shop", Partition: dlq.AnyPartition, Offset: -1})
	deliver(4, nil)

	bulk, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", 1))
	require.NoError(t, err)
	lane, err := p.OpenLane(t.Context(), bulk.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	outcomes := dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)
	outcomes[0].Acknowledgement = &dlq.Acknowledgement{Topic: "orders", TopicID: first, Offset: 3}
	_, err = p.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)

	rows, err := pool.Query(t.Context(), targetsOfSQL)
	require.NoError(t, err)
	targets, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"?", "?", "orders " + again.String(), "http:shop -", "?", "orders " + first.String()}, targets)
	require.EqualValues(t, 1, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE target_id IS NOT NULL AND target_partition IS NULL`))
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET updated_at = now() - interval '1 year'`)
	require.NoError(t, err)
	_, err = p.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	require.EqualValues(t, 5, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE target_id IS NOT NULL`))
}

func TestALateDeliveryNamesATargetThatIsNew(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, lane, page := startPages(t, pool, 1)
	_, err := p.OpenLane(t.Context(), lane.Job, 0, dlq.LaneAttempt{Number: 1}) // fences lane
	require.NoError(t, err)
	outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
	outcomes[0].Acknowledgement = &dlq.Acknowledgement{Topic: "orders", Offset: 3}
	_, err = p.FinalizePage(t.Context(), lane, outcomes)
	require.ErrorIs(t, err, dlq.ErrFenced)
	var target string
	require.NoError(t, pool.QueryRow(t.Context(), targetsOfSQL).Scan(&target))
	require.Equal(t, "orders -", target)
}
