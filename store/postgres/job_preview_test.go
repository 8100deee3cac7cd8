package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// A plan may count millions of messages, and each column of GROUP BY takes time for each message.
func TestAPlanOfAChangeReadsOnlyWhatDecidesAboutTheChange(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	spec := dlq.JobSpec{Kind: dlq.KindDelete, Filter: dlq.Filter{Topic: "orders.dlq"}}
	spec.Within = "^orders"
	sql, args := s.previewOf(&spec, dlq.Scope{UpperBound: 1 << 40, SnapshotAt: time.Now()})
	plan := explain(t, pool, "force_custom_plan", sql, args)
	require.Contains(t, plan, "group_id")
	require.NotContains(t, plan, "in_reach")
	require.NotContains(t, plan, "dlq_message_bodies")
}
