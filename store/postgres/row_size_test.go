package postgres_test

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// sizesSQL returns the sizes of the rows of messages, of their payloads stored out of line,
// and of their bodies.
const sizesSQL = `SELECT pg_relation_size('dlq.dlq_messages'), pg_relation_size(c.reltoastrelid), pg_relation_size('dlq.dlq_message_bodies')
	FROM pg_class c WHERE c.oid = 'dlq.dlq_messages'::regclass`

func TestAChangeOfStatusCopiesNeitherPayloadNorBody(t *testing.T) {
	t.Parallel()
	const messages, length = 400, 1200
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	digits := make([]byte, length/2) // random, so that they cannot be compressed
	_, err := rand.NewChaCha8([32]byte{}).Read(digits)
	require.NoError(t, err)
	value := `{"text":"` + hex.EncodeToString(digits) + `"}`
	_, err = p.Ingest(t.Context(), dlqtest.Arrivals(messages, dlqtest.Value(value)), nil)
	require.NoError(t, err)

	var rows, payloads, bodies [2]int64
	require.NoError(t, pool.QueryRow(t.Context(), sizesSQL).Scan(&rows[0], &payloads[0], &bodies[0]))
	bulk, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", 1))
	require.NoError(t, err)
	for sent := 0; sent < messages; sent += dlq.PageSize {
		lane, err := p.OpenLane(t.Context(), bulk.ID, 0, dlq.LaneAttempt{})
		require.NoError(t, err)
		claim, _, err := p.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err)
		require.Len(t, claim.Page, dlq.PageSize)
		_, err = p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, err)
	}
	require.NoError(t, pool.QueryRow(t.Context(), sizesSQL).Scan(&rows[1], &payloads[1], &bodies[1]))
	require.Equal(t, bodies[0], bodies[1], "bodies are written once")
	require.Equal(t, payloads[0], payloads[1], "payloads are written once")
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE ballast IS NOT NULL`), "nor the ballast")
	require.Less(t, rows[1], int64(messages*length), "three versions of each row take less than the payloads alone")
	require.EqualValues(t, messages, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RESOLVED' AND payload->>'text' = $1`, hex.EncodeToString(digits)))
}
