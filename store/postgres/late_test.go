package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
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

// The retry that ends waits for the message until the delivery is committed.
func TestADeliveryThatIsRecordedWhileAnotherRetryFailsIsSeen(t *testing.T) {
	t.Parallel()
	// record records a delivery of the message, which is committed when end waits for the message.
	record := func(t *testing.T, pool *pgxpool.Pool, id dlq.ID, end func() error) {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		for _, sql := range []string{`SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`,
			`INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
			VALUES ($1, 1, 'earlier', 'token', now(), 'delivered', '', '')`} {
			_, err = tx.Exec(t.Context(), sql, [16]byte(id))
			require.NoError(t, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- end() }()
		waitForLocks(t, pool, 1)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, <-ended)
	}
	start := func(t *testing.T) (*pgxpool.Pool, *postgres.Store, dlq.ID) {
		t.Helper()
		pool := dbtest.New(t)
		s := postgres.New(pool, dlqtest.Topics(t))
		s.Outbox = true
		a := dlqtest.Arrival(dlqtest.Retries(0, 1))
		_, err := s.Ingest(t.Context(), []dlq.Arrival{a}, nil)
		require.NoError(t, err)
		return pool, s, a.ID
	}

	t.Run("a single retry", func(t *testing.T) {
		t.Parallel()
		pool, s, id := start(t)
		owner := dlqtest.Owner()
		_, err := s.Claim(t.Context(), id, owner, dlq.ID{})
		require.NoError(t, err)
		var m dlq.Message
		record(t, pool, id, func() (err error) {
			m, _, err = s.Finalize(t.Context(), owner, dlq.Outcome{ID: id, Result: dlq.ResultFailed, Category: dlq.CategoryTransient})
			return err
		})
		require.Equal(t, dlq.StatusResolved, m.Status)
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_exhausted_outbox`))
	})

	t.Run("a page", func(t *testing.T) {
		t.Parallel()
		pool, s, id := start(t)
		b, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		claim, _, err := s.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
		require.NoError(t, err)
		var result dlq.PageResult
		record(t, pool, id, func() (err error) {
			result, err = s.FinalizePage(t.Context(), dlqtest.Lane(b, 0), dlqtest.Outcomes(claim.Page, dlq.ResultFailed))
			return err
		})
		require.Zero(t, result.Counts)
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_blocked_keys`))
	})
}
