package postgres_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// exhaustedByHand inserts a message with only the documented columns, as a statement by hand would,
// and puts the message into the outbox.
func exhaustedByHand(t *testing.T, pool *pgxpool.Pool, payload string) (id dlq.ID) {
	t.Helper()
	id = dlq.NewID()
	_, err := pool.Exec(t.Context(), `WITH m AS (
			INSERT INTO dlq.dlq_messages (id, dlq_topic, original_topic, error_message, status, payload)
			VALUES ($1, 'orders.dlq', 'orders', 'e', 'DEAD', $2) RETURNING dlq_topic, seq, id)
		INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
		SELECT dlq_topic, seq, id, 3, 3, 'e' FROM m`, [16]byte(id), payload)
	require.NoError(t, err)
	return id
}

// publishPage publishes the first page of the outbox of orders.dlq.
func publishPage(t *testing.T, p *postgres.Store, done bool) []dlq.Exhausted {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	page, err := p.PublishExhausted(ctx, "orders.dlq", dlq.Exhausted{Seq: math.MinInt64}, func(page []dlq.Exhausted) []bool {
		results := make([]bool, len(page))
		for i := range results {
			results[i] = done
		}
		return results
	})
	require.NoError(t, err)
	return page
}

func TestDamagedHeadersDoNotHideOtherExhaustedMessages(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	damaged, sound := exhaustedByHand(t, pool, `{}`), exhaustedByHand(t, pool, `{"sound": true}`)
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_message_bodies (message_id, headers) VALUES ($1, '\x0400')`, [16]byte(damaged))
	require.NoError(t, err)
	page := publishPage(t, p, false)
	require.Equal(t, []dlq.ID{damaged, sound}, []dlq.ID{page[0].ID, page[1].ID})
	require.ErrorContains(t, page[0].Unreadable, "stored headers are damaged")
	require.NoError(t, page[1].Unreadable)
	require.JSONEq(t, `{"sound": true}`, string(page[1].Record.Value))
}

func TestAPageToPublishIsBoundedAlsoForHandWrittenMessages(t *testing.T) {
	t.Parallel()
	const large = `repeat('x', 3 << 20)`
	for name, body := range map[string]string{
		"without a body":     `UPDATE dlq.dlq_messages SET payload = to_jsonb(` + large + `)`,
		"with large headers": `INSERT INTO dlq.dlq_message_bodies (message_id, headers) SELECT id, convert_to(` + large + `, 'UTF8') FROM dlq.dlq_messages`,
		"with large keys":    `INSERT INTO dlq.dlq_message_bodies (message_id, key, headers) SELECT id, convert_to(` + large + `, 'UTF8'), '' FROM dlq.dlq_messages`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			for range 3 {
				exhaustedByHand(t, pool, `{}`)
			}
			_, err := pool.Exec(t.Context(), body)
			require.NoError(t, err)
			messages := len(publishPage(t, postgres.New(pool, dlqtest.Topics(t)), false))
			require.Equal(t, 1, messages)
		})
	}
}

// The publisher waits for no row, so it cannot be part of a deadlock.
func TestAMessageThatEndsAgainWhileItIsPublishedStays(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	exhaustedByHand(t, pool, `{}`)
	again := exhaustedByHand(t, pool, `{}`)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `UPDATE dlq.dlq_exhausted_outbox SET ended_at = now() WHERE message_id = $1`, [16]byte(again))
	require.NoError(t, err)
	require.Len(t, publishPage(t, p, true), 2)
	require.NoError(t, tx.Commit(t.Context()))
	page := publishPage(t, p, true)
	require.Len(t, page, 1)
	require.Equal(t, again, page[0].ID)
	require.Empty(t, publishPage(t, p, true))
}

func TestAMessageThatIsDeletedByHandIsNotPublished(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	exhaustedByHand(t, pool, `{}`)
	_, err := pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages`)
	require.NoError(t, err)
	page := publishPage(t, p, true)
	require.Len(t, page, 1)
	require.True(t, page[0].Deleted)
	require.Empty(t, publishPage(t, p, true))
}

func TestTheCountOfUnpublishedMessagesIsBounded(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
		SELECT CASE WHEN n > 3 THEN 'orders.dlq' ELSE 'a.dlq' END, n, gen_random_uuid(), 3, 3, 'e' FROM generate_series(1, 10100) AS n`)
	require.NoError(t, err)
	counts, err := postgres.New(pool, dlqtest.Topics(t)).Unpublished(t.Context())
	require.NoError(t, err)
	require.Equal(t, []dlq.TopicCount{{DLQTopic: "a.dlq", Messages: 3}, {DLQTopic: "orders.dlq", Messages: dlq.CountLimit}}, counts)
}
