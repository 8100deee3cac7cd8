package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

// A transaction that is older than the step may delete a message that the step has listed. After the next statement of
// the step, a vacuum may free the place of the message in the table.
func TestAnotherMessageInThePlaceOfAListedOneIsNotClaimed(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	arrivals := dlqtest.Arrivals(3)
	_, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), arrivals)
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_job_queues (job_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
		SELECT id, -1, 'orders', 0, -1, true, 1, 'infinity', '', '' FROM dlq.dlq_jobs`) // so that the step reads the queues
	require.NoError(t, err)
	deletion, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = deletion.Rollback(context.Background()) })
	// A vacuum keeps the rows that the oldest transaction of the server may see. So the deletion must be the oldest.
	require.Eventually(t, func() bool {
		isOldest := false
		err := deletion.QueryRow(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot()) = pg_current_xact_id()`).Scan(&isOldest)
		return err == nil && isOldest
	}, 30*time.Second, 10*time.Millisecond, "older transactions of other tests run")
	var place, reused string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT ctid::text FROM dlq.dlq_messages WHERE id = $1`, [16]byte(arrivals[0].ID)).Scan(&place))
	tracer := &afterBatch{}
	tracer.do = func() {
		_, err := deletion.Exec(context.Background(), `DELETE FROM dlq.dlq_messages WHERE id = $1`, [16]byte(arrivals[0].ID))
		require.NoError(t, err)
		require.NoError(t, deletion.Commit(context.Background()))
		tracer.do = func() {
			_, err := pool.Exec(context.Background(), `VACUUM dlq.dlq_messages`)
			require.NoError(t, err)
			require.NoError(t, pool.QueryRow(context.Background(), `
				INSERT INTO dlq.dlq_messages (dlq_topic, original_topic, error_message, payload, updated_at)
				SELECT 'payments.dlq', 'payments', '', '{}', snapshot_at FROM dlq.dlq_jobs
				RETURNING ctid::text`).Scan(&reused))
		}
		tracer.done.Store(false)
	}
	claim, _, err := traced(t, pool, tracer).NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Equal(t, place, reused)
	require.Equal(t, []dlq.ID{arrivals[1].ID, arrivals[2].ID}, ids(claim.Page))
	require.EqualValues(t, 2, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`))
}
