package telemetry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/internal/certtest"
	"dlqmanager/telemetry"
)

func TestGroupsAreShownByTopicAndState(t *testing.T) {
	t.Parallel()
	arrived := time.Now().Add(-time.Hour)
	collector := telemetry.NewGroupCollector(func(context.Context) ([]dlq.GroupBacklog, error) {
		return []dlq.GroupBacklog{
			{DLQTopic: "orders.dlq", State: "held", Groups: 1, Pending: 600, OldestPending: &arrived},
			{DLQTopic: "shop.dlq", State: dlq.BacklogNew, Groups: 3, Pending: 30,
				Causes: []dlq.BacklogCause{{Title: "no price: \"\\\n", Pending: 3}, {Title: "no stock", Pending: 20}}},
		}, nil
	}, zap.NewNop())
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP dlq_group_pending_messages PENDING messages of these groups. Messages without a group are only in dlq_messages.
# TYPE dlq_group_pending_messages gauge
dlq_group_pending_messages{state="held",topic="orders.dlq"} 600
dlq_group_pending_messages{state="new",topic="shop.dlq"} 30
`), "dlq_group_pending_messages"))
	require.NoError(t, testutil.CollectAndCompare(collector, strings.NewReader(`
# HELP dlq_cause_pending_messages PENDING messages of each group that is new, regressed or open. cause is its title. Groups beyond ten of a topic and a state share the cause other: the latest ones, and of open groups the smallest.
# TYPE dlq_cause_pending_messages gauge
dlq_cause_pending_messages{cause="no price: \"\\\n",state="new",topic="shop.dlq"} 3
dlq_cause_pending_messages{cause="no stock",state="new",topic="shop.dlq"} 20
dlq_cause_pending_messages{cause="other",state="new",topic="shop.dlq"} 7
`), "dlq_cause_pending_messages"))
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
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	for _, metric := range gather(t, registry)["dlq_messages"].GetMetric() {
		if of := labels(metric); of["topic"] == "other" && of["status"] == "PENDING" {
			require.InDelta(t, 500, metric.GetGauge().GetValue(), 0)
		}
	}
}

func TestCertificatesShowWhenTheFirstOfThemExpires(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	files := certtest.Write(t, authority.Issue(t, "kafka"))
	expired, _ := certtest.PEM(t, authority.Issue(t, "old", certtest.Expired()))
	both := certtest.File(t, append(authority.PEM(), expired...))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(telemetry.NewCertificateCollector(map[string]string{"kafka": files.Cert, "client_ca": both}, zap.NewNop()))
	now, expiries := float64(time.Now().Unix()), map[string]float64{}
	for _, metric := range gather(t, registry)["dlq_certificate_expiry_timestamp_seconds"].GetMetric() {
		expiries[labels(metric)["use"]] = metric.GetGauge().GetValue()
	}
	require.Len(t, expiries, 2)
	require.Greater(t, expiries["kafka"], now)
	require.Less(t, expiries["client_ca"], now)
}

func TestABrokenCertificateDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	files := certtest.Write(t, certtest.NewAuthority(t).Issue(t, "kafka"))
	collector := telemetry.NewCertificateCollector(map[string]string{"kafka": files.Cert, "server": certtest.File(t, nil)}, zap.NewNop())
	require.Equal(t, 1, testutil.CollectAndCount(collector))
}
