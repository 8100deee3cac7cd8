package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

// Messages keep the id of a group that somebody deleted by hand.
func TestMessagesOfADeletedGroupAreFound(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"the group is gone": "", "the group is created again": "a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			s := New(pool, dlqtest.Topics(t))
			_, err := s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error("a needle"))}, nil)
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_groups`)
			require.NoError(t, err)
			if next != "" {
				_, err = s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause(next), dlqtest.Error("straw"))}, nil)
				require.NoError(t, err)
			}
			require.Len(t, searchMessages(t, s, "needle"), 1)
		})
	}
}

func TestAMessageInsertedWithAnUnknownGroupIsFound(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) VALUES ('orders', 'needle', gen_random_uuid())`)
	require.NoError(t, err)
	require.Len(t, searchMessages(t, s, "needle"), 1)
}

func TestASignatureThatAnotherWorkerCreatedAgainGetsTheTextsOfThisOne(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s, other := New(pool, dlqtest.Topics(t)), New(pool, dlqtest.Topics(t))
	store := func(s *Store, text string) {
		_, err := s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error(text))}, nil)
		require.NoError(t, err)
	}
	store(s, "a needle")
	_, err := pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_groups`)
	require.NoError(t, err)
	store(other, "straw")
	store(s, "a needle")
	require.Len(t, searchMessages(t, s, "needle"), 1)
}

// The worker keeps running while the database is restored.
func TestATextThatARestoreTookFromASignatureIsFoundWhenItIsStoredAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	arrival := dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error("a needle"))
	for range 2 {
		_, err := s.Ingest(t.Context(), []dlq.Arrival{arrival}, nil)
		require.NoError(t, err)
		require.Len(t, searchMessages(t, s, "needle"), 1)
		_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages; DELETE FROM dlq.dlq_message_bodies; UPDATE dlq.dlq_group_signatures SET bits = 0::bit(8192)`)
		require.NoError(t, err)
	}
}

func TestABodyThatWasReplacedByHandIsFound(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	_, err := s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("a"))}, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `CREATE TEMP TABLE kept AS SELECT * FROM dlq.dlq_message_bodies; DELETE FROM dlq.dlq_message_bodies;
		UPDATE kept SET consumer_group = 'billing'; INSERT INTO dlq.dlq_message_bodies SELECT * FROM kept`)
	require.NoError(t, err)
	page, err := s.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", ConsumerGroup: "billing"}, PageSize: 1})
	require.NoError(t, err)
	require.EqualValues(t, 1, page.Total)
}
