package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
)

func TestMetricsNameCausesOfMaskedTopicsWithoutTheirMessages(t *testing.T) {
	t.Parallel()
	masking, err := dlq.NewMasking([]dlq.MaskRule{{Topics: []string{"payments"}, Value: []string{"card"}, As: "mask"}}, nil)
	require.NoError(t, err)
	read := func(topic string) *dlq.GroupBacklog {
		b := &dlq.GroupBacklog{DLQTopic: topic}
		for _, f := range []fingerprint.Fingerprint{
			{Class: "shop.NoHolder", Message: "unknown holder alice"}, {Class: "shop.NoHolder", Frame: "shop.Billing.pay", Message: "alice"},
			{Class: "no holder alice", Frame: "shop.Billing.pay"}, {Message: "unknown holder alice"}, {Rule: dlq.RuleOverflow, Scope: "billing", Class: "x y"},
		} {
			b.Causes = append(b.Causes, dlq.BacklogCause{Title: dlq.GroupTitle(&f), Place: dlq.GroupPlace(&f)})
		}
		return b
	}
	titles := func(b *dlq.GroupBacklog) (titles []string) {
		for _, c := range b.Causes {
			titles = append(titles, c.Title)
		}
		return titles
	}
	hidden := read("payments.dlq")
	masking.HideCauses(hidden, "payments")
	require.Equal(t, []string{"shop.NoHolder", "shop.NoHolder: shop.Billing.pay", "shop.Billing.pay", "***", "all further failures in billing"}, titles(hidden))
	for _, m := range []*dlq.Masking{masking, nil} {
		open := read("orders.dlq")
		m.HideCauses(open, "orders")
		require.Equal(t, "shop.NoHolder: unknown holder alice", titles(open)[0])
	}
}
