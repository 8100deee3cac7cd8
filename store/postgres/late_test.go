package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// The claim may be old when the message is marked: a retry makes ten attempts in eight minutes.
func TestAMessageIsNotRevivedWhileItsRetryMayStillSendIt(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	exec := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	revived := func() int64 {
		return finishAction(t, s, startAction(t, s, dlq.KindRevive, dlq.Filter{Topic: "orders"})).Counts.Changed
	}
	for name, mark := range map[string]func(dlq.ID){
		"one": func(id dlq.ID) {
			_, err := s.MarkDead(t.Context(), nil, id)
			require.NoError(t, err)
		},
		"many": func(dlq.ID) {
			require.EqualValues(t, 1, finishAction(t, s, startAction(t, s, dlq.KindDead, dlq.Filter{Topic: "orders"})).Counts.Changed)
		},
	} {
		a := dlqtest.Arrival()
		_, err := s.Ingest(t.Context(), []dlq.Arrival{a}, nil)
		require.NoError(t, err)
		owner := dlqtest.Owner()
		_, err = s.Claim(t.Context(), a.ID, owner, dlq.ID{})
		require.NoError(t, err)
		exec(`UPDATE dlq.dlq_messages SET last_retry_at = now() - interval '1 hour' WHERE status = 'RETRYING'`)
		mark(a.ID)
		_, err = s.Revive(t.Context(), nil, a.ID)
		require.EqualError(t, err, "message is not retryable: it was marked dead while a retry was sending it; revive it 1m0s after it was marked", name)
		require.Zero(t, revived(), name)

		exec(`UPDATE dlq.dlq_messages SET updated_at = now() - interval '61 seconds' WHERE status = 'DEAD'`)
		if name == "one" {
			_, err = s.Revive(t.Context(), nil, a.ID)
			require.NoError(t, err)
		} else {
			require.EqualValues(t, 1, revived(), name)
		}
		m, err := s.Message(t.Context(), a.ID)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusPending, m.Status, name)
		m, ended, err := s.Finalize(t.Context(), owner, dlqtest.Delivered(a.ID))
		require.NoError(t, err)
		require.True(t, ended, name)
		require.Equal(t, dlq.StatusResolved, m.Status, name)
	}
}
