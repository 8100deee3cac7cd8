package postgres

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

func searchMessages(t *testing.T, s *Store, text string) []dlq.Message {
	t.Helper()
	page, err := s.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", ErrorContains: text}, PageSize: 200})
	require.NoError(t, err)
	require.EqualValues(t, len(page.Messages), page.Total)
	return page.Messages
}

func errorsOf(messages []dlq.Message) (found []string) {
	for i := range messages {
		found = append(found, messages[i].ErrorMessage)
	}
	return found
}

// The words are short and similar, so that texts share trigrams.
func TestASearchInTheGroupsThatCanMatchFindsWhatAScanFinds(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	random := rand.New(rand.NewPCG(dlqtest.Seed(t), 0))
	words := []string{"order", "Order", "border", "1", "42", "042", "%", "_", `\`, " ", "é", "É", "K", "Zürich", "price", "PRICE?", ""}
	text := func(most int) string {
		var b strings.Builder
		for range random.IntN(most) {
			b.WriteString(words[random.IntN(len(words))])
		}
		return b.String()
	}
	var arrivals []dlq.Arrival
	for range 200 {
		class := words[random.IntN(len(words))]
		options := []func(*dlq.Arrival){dlqtest.Error(text(8)), func(a *dlq.Arrival) { a.ErrorClass = class }}
		if random.IntN(10) > 0 {
			options = append(options, dlqtest.Cause(words[random.IntN(len(words))]))
		}
		arrivals = append(arrivals, dlqtest.Arrival(options...))
	}
	for i := 0; i < len(arrivals); i += 50 { // later texts are added to the signatures
		_, err := s.Ingest(t.Context(), arrivals[i:i+50], nil)
		require.NoError(t, err)
	}
	require.Equal(t, len(words), number(t, pool, `SELECT count(*) FROM dlq.dlq_group_signatures`))
	for range 200 {
		part := text(4)
		if part == "" {
			continue
		}
		rows, err := pool.Query(t.Context(), `SELECT error_message FROM dlq.dlq_messages WHERE error_message`+asciiCollation(part)+
			` ILIKE $1 ORDER BY created_at DESC, seq DESC`, containing(part))
		require.NoError(t, err)
		var want []string
		for rows.Next() {
			var message string
			require.NoError(t, rows.Scan(&message))
			want = append(want, message)
		}
		require.NoError(t, rows.Err())
		all := searchMessages(t, s, part)
		require.Equal(t, want, errorsOf(all), "%q", part)
		class := words[random.IntN(len(words)-1)]
		filter := dlq.Filter{Topic: "orders", ErrorContains: part, Class: class}
		few, err := s.List(t.Context(), dlq.ListQuery{Filter: filter, PageSize: 200})
		require.NoError(t, err)
		many, err := s.listTopic(t.Context(), &dlq.ListQuery{Filter: filter, PageSize: 200})
		require.NoError(t, err)
		want = errorsOf(slices.DeleteFunc(all, func(m dlq.Message) bool { return m.ErrorClass != class }))
		require.Equal(t, want, errorsOf(many.Messages), "%q of %q", part, class)
		require.Equal(t, want, errorsOf(few.Messages), "%q of %q", part, class)
	}
}

// The messages are too many for listFewSQL. A quarter of them have the text.
func TestASearchInGroupsWithManyMessagesFindsWhatAScanFinds(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	_, err := s.Ingest(t.Context(), []dlq.Arrival{
		dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error("a needle"), func(a *dlq.Arrival) { a.ErrorClass = "shop.Late" }),
		dlqtest.Arrival(dlqtest.Cause("b"), dlqtest.Error("straw"))}, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		SELECT set_config('dlq.signed', 'on', true);
		INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, error_class, status, group_id, created_at)
		SELECT m.original_topic, m.dlq_topic, CASE WHEN n % 4 = 0 THEN 'A Needle' ELSE '' END, m.error_class,
			CASE WHEN n % 3 = 0 THEN 'DEAD' ELSE 'PENDING' END, m.group_id, m.created_at + n * interval '1 s'
		FROM dlq.dlq_messages m, generate_series(1, 21000) AS n
		WHERE m.error_message = 'a needle';
		INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message) VALUES ('orders', 'orders.dlq', 'no group, a needle');
		UPDATE dlq.dlq_messages SET status = 'RETRYING', workflow_id = 'w', owner_token = 'w' WHERE seq % 5000 = 0`)
	require.NoError(t, err)
	require.Equal(t, 2, number(t, pool, `SELECT count(*) FROM dlq.dlq_group_signatures`))
	for name, filter := range map[string]dlq.Filter{
		"error":             {ErrorContains: "needle"},
		"error and status":  {ErrorContains: "needle", Statuses: []dlq.Status{dlq.StatusDead, dlq.StatusRetrying}},
		"error in no group": {ErrorContains: "no group, a needle"},
		"class":             {Class: "Late"},
		"class and error":   {Class: "Late", ErrorContains: "needle"},
		"error of few":      {ErrorContains: "straw"},
		"error of none":     {ErrorContains: "leened"},
		"error and time":    {ErrorContains: "needle", CreatedTo: time.Now().Add(time.Hour)},
	} {
		for _, oldestFirst := range []bool{false, true} {
			filter.Topic = "orders"
			q := dlq.ListQuery{Filter: filter, PageSize: 7, OldestFirst: oldestFirst}
			for range 3 {
				found, err := s.List(t.Context(), q)
				require.NoError(t, err)
				scanned, err := s.listTopic(t.Context(), &q)
				require.NoError(t, err)
				require.Equal(t, min(scanned.Total, dlq.CountLimit), found.Total, name)
				require.Equal(t, scanned.Total <= dlq.CountLimit, found.TotalExact, name)
				require.Equal(t, append([]dlq.Message{}, scanned.Messages[:min(7, len(scanned.Messages))]...), append([]dlq.Message{}, found.Messages...), name)
				require.Equal(t, len(scanned.Messages) > 7, found.HasNext, name)
				if !found.HasNext {
					break
				}
				after := found.Messages[6].Keyset()
				q.After = &after
			}
		}
	}
}

func TestATextThatTheIngestDidNotWriteIsFound(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"an error is edited":    `UPDATE dlq.dlq_messages SET error_message = 'needle'`,
		"a group is edited":     `UPDATE dlq.dlq_messages m SET group_id = g.id FROM dlq.dlq_groups g WHERE m.error_message = 'a needle' AND g.message = 'b'`,
		"a message is inserted": `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) SELECT 'orders', 'needle', id FROM dlq.dlq_groups LIMIT 1`,
		"it has no group":       `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'needle')`,
		"a group is inserted": `WITH g AS (INSERT INTO dlq.dlq_groups (id, version, scope, rule, class, frame, message, dlq_topic)
			VALUES (gen_random_uuid(), 1, '', '', '', '', '', '') RETURNING id)
			INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) SELECT 'orders', 'needle', id FROM g`,
		"a signature is deleted":  `DELETE FROM dlq.dlq_group_signatures`,
		"nothing else was stored": `SELECT`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			s := New(pool, dlqtest.Topics(t))
			_, err := s.Ingest(t.Context(), []dlq.Arrival{
				dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error("a needle")), dlqtest.Arrival(dlqtest.Cause("b"), dlqtest.Error("straw"))}, nil)
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), sql)
			require.NoError(t, err)
			require.Len(t, searchMessages(t, s, "needle"), number(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE error_message LIKE '%needle%'`))

			_, err = s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error("another pin"))}, nil)
			require.NoError(t, err)
			require.Len(t, searchMessages(t, s, "another"), 1)
		})
	}
}

func TestAClassAndAConsumerGroupThatWereEditedAreFound(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	_, err := s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("a"))}, nil)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_message_bodies SET cause_class = 'shop.Late', consumer_group = 'billing'`)
	require.NoError(t, err)
	for _, filter := range []dlq.Filter{{Topic: "orders", Class: "Late"}, {Topic: "orders", ConsumerGroup: "billing"}} {
		page, err := s.List(t.Context(), dlq.ListQuery{Filter: filter, PageSize: 1})
		require.NoError(t, err)
		require.EqualValues(t, 1, page.Total)
	}
}

func TestTextsThatAGroupHasWriteNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	store := func(text string) string {
		_, err := s.Ingest(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Cause("a"), dlqtest.Error(text))}, nil)
		require.NoError(t, err)
		var version string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT xmin::text FROM dlq.dlq_group_signatures`).Scan(&version))
		return version
	}
	first := store("order 17 has no price")
	require.Equal(t, first, store("Order 48 has no PRICE"))
	require.Equal(t, first, store("order 99 has no"))
	require.NotEqual(t, first, store("order 17 has no customer"))
}

// A filter that is ignored would send the whole topic.
func TestALaneRefusesASpecificationWithAFieldThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := New(pool, dlqtest.Topics(t))
	bulk, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	for _, spec := range []string{`{"topic": "orders", "later_field": 1}`, `{"topic": "orders", "ramp": {"steps": [1], "later_field": 1}}`} {
		_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET spec = $1`, spec)
		require.NoError(t, err)
		_, err = s.OpenLane(t.Context(), bulk.ID, 0, dlq.LaneAttempt{})
		require.ErrorIs(t, err, dlq.ErrSpecUnreadable, spec)
	}
}

func number(t *testing.T, pool *pgxpool.Pool, sql string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
	return n
}
