package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// damage overwrites the stored headers of a message, as an UPDATE by hand would.
func (l *laneTest) damage(t *testing.T, value string) *activities.Router {
	t.Helper()
	_, err := l.pool.Exec(t.Context(), `UPDATE dlq.dlq_message_bodies SET headers = '\x0404' WHERE message_id = $1`, [16]byte(l.ids[value]))
	require.NoError(t, err)
	return &activities.Router{Targets: dlqtest.Targets(t), Kafka: l.target}
}

func TestAnUnreadableMessageFailsAlone(t *testing.T) {
	t.Parallel()
	for order, want := range map[dlq.Order]struct {
		sent   []string
		counts dlq.JobCounts
	}{
		dlq.OrderKey:  {[]string{"before", "other", "keyless"}, dlq.JobCounts{Retried: 3, Dead: 1, Skipped: 1}},
		dlq.OrderNone: {[]string{"before", "other", "after", "keyless"}, dlq.JobCounts{Retried: 4, Dead: 1}},
	} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			keyless := message("orders", "", "keyless")
			keyless.Record.Key = nil
			l := newLaneTest(t, order, nil, message("orders", "a", "before"), message("orders", "a", "damaged"), message("orders", "b", "other"),
				message("orders", "a", "after"), keyless)
			require.Equal(t, activities.LaneResult{End: activities.LaneDone}, l.runTo(t, l.damage(t, "damaged")))
			require.Equal(t, want.counts, l.counts(t))
			require.Equal(t, want.sent, l.target.asked)
			var category, text string
			require.NoError(t, l.pool.QueryRow(t.Context(), `SELECT category, error FROM dlq.dlq_retry_attempts WHERE message_id = $1 AND result <> 'delivered'`,
				[16]byte(l.ids["damaged"])).Scan(&category, &text))
			require.Equal(t, string(dlq.CategoryBadData), category)
			require.Contains(t, text, "message "+l.ids["damaged"].String()+": stored headers are damaged")
		})
	}
}

func TestTheSingleRetryOfAnUnreadableMessageFails(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "damaged"))
	retry := &activities.Retry{Store: l.store, Publisher: l.damage(t, "damaged"), Log: zap.NewNop()}
	in := activities.RetryInput{MessageID: l.ids["damaged"], Owner: dlqtest.Owner()}
	_, err := retry.MarkRetrying(t.Context(), in)
	require.NoError(t, err)
	_, err = retry.Republish(t.Context(), in)
	var refused *temporal.ApplicationError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Type() == string(dlq.CategoryBadData) && refused.NonRetryable())
	require.ErrorContains(t, refused, "stored headers are damaged")
	require.Empty(t, l.target.asked)
}
