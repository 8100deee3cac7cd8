package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTargetIsWrittenAsTopicAndPartition(t *testing.T) {
	t.Parallel()
	require.Equal(t, "orders[0]", dlq.Target{Topic: "orders"}.String())
	require.Equal(t, "orders[3]", dlq.Target{Topic: "orders", Partition: 3}.String())
	require.Equal(t, "orders", dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}.String())
}
