package telemetry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func TestGroupsAreShownByTopicAndState(t *testing.T) {
	t.Parallel()
	arrived := time.Now().Add(-time.Hour)
	collector := telemetry.NewGroupCollector(func(context.Context) ([]dlq.GroupBacklog, error) {
		return []dlq.GroupBacklog{
			{DLQTopic: "orders.dlq", State: "held", Groups: 1, Pending: 600, OldestPending: &arrived},
			{DLQTopic: "shop.dlq", State: dlq.BacklogNew, Groups: 2, Pending: 3},
		}, nil
	}, zap.NewNop())
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP dlq_group_pending_messages PENDING messages of these groups. Messages without a group are only in dlq_messages.
# TYPE dlq_group_pending_messages gauge
dlq_group_pending_messages{state="held",topic="orders.dlq"} 600
dlq_group_pending_messages{state="new",topic="shop.dlq"} 3
`), "dlq_group_pending_messages"))
	require.Equal(t, 2, testutil.CollectAndCount(collector, "dlq_groups"))
	require.Equal(t, 1, testutil.CollectAndCount(collector, "dlq_group_oldest_pending_age_seconds"))
}

func TestTopicsBeyondTheLimitShareALabelAndNothingIsLost(t *testing.T) {
	t.Parallel()
	var summaries []dlq.TopicSummary
	for i := range 1500 {
		arrived := time.Now()
		summaries = append(summaries, dlq.TopicSummary{
			DLQTopic: fmt.Sprintf("%04d.dlq", i), Counts: map[dlq.Status]int64{dlq.StatusPending: 1}, OldestPending: &arrived,
		})
	}
	collector := telemetry.NewBacklogCollector(func(context.Context) ([]dlq.TopicSummary, error) { return summaries, nil }, zap.NewNop())
	require.Equal(t, 1001, testutil.CollectAndCount(collector, "dlq_oldest_pending_age_seconds"))
	require.Equal(t, 1001*len(dlq.Statuses), testutil.CollectAndCount(collector, "dlq_messages"))
	text, err := testutil.CollectAndFormat(collector, "text/plain", "dlq_messages")
	require.NoError(t, err)
	require.Contains(t, string(text), `dlq_messages{status="PENDING",topic="other"} 500`)
}
