package kafka

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestRepublishedTopicsHaveABoundedNumberOfLabels(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m := NewPublishMetrics(registry)
	for i := range 1500 {
		m.Count(fmt.Sprint("topic-", i), resultDelivered)
	}
	m.Count("topic-7", resultDelivered) // known, so still by its name
	m.Count("topic-1400", "auth")
	got := map[string]float64{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "dlq_republished_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			got[labels["topic"]+" "+labels["result"]] = metric.GetCounter().GetValue()
		}
	}
	require.Len(t, got, 1002)
	require.InDelta(t, 2, got["topic-7 delivered"], 0)
	require.InDelta(t, 500, got["other delivered"], 0)
	require.InDelta(t, 1, got["other auth"], 0)
}
