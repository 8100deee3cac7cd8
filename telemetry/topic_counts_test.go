package telemetry_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

func TestUnpublishedMessagesAreShownByTopic(t *testing.T) {
	t.Parallel()
	collector := telemetry.NewUnpublishedCollector(func(context.Context) ([]dlq.TopicCount, error) {
		return []dlq.TopicCount{{DLQTopic: "orders.dlq", Messages: 7}}, nil
	}, zap.NewNop())
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP dlq_exhausted_unpublished Exhausted messages that are not in their archive topic yet, by dead-letter topic. 10000 means that many or more. Every replica has the same value.
# TYPE dlq_exhausted_unpublished gauge
dlq_exhausted_unpublished{topic="orders.dlq"} 7
`)))
}

func TestDeadMessagesOfHeldGroupsAreShownByTopic(t *testing.T) {
	t.Parallel()
	collector := telemetry.NewHeldDeadCollector(func(context.Context) ([]dlq.TopicCount, error) {
		return []dlq.TopicCount{{DLQTopic: "orders.dlq", Messages: 7}}, nil
	}, zap.NewNop())
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP dlq_held_dead_messages DEAD messages of held groups, by dead-letter topic. Every replica has the same value.
# TYPE dlq_held_dead_messages gauge
dlq_held_dead_messages{topic="orders.dlq"} 7
`)))
}
