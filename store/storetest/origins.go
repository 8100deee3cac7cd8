package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// origins has the cases of original topics that a stranger has written into a dead letter.
var origins = map[string]func(*testing.T, fixture){
	"nothing is sent to an internal topic unless it is allowed by its name": func(t *testing.T, f fixture) {
		stored := f.store(
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "_schemas")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "__consumer_offsets")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", dlqtest.AllowedInternal+"2")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", dlqtest.AllowedInternal)), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "_schemas2")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders__")))
		for _, m := range stored[:3] {
			var refused *dlq.NotRetryableError
			_, err := f.Claim(t.Context(), m.ID, dlqtest.Owner(), dlq.ID{})
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Error(), "is an internal topic")
			_, err = f.Replace(t.Context(), nil, m.ID, dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", m.OriginalTopic)))
			require.ErrorAs(t, err, &refused)
		}
		preview, err := f.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq"}})
		require.NoError(t, err)
		require.Equal(t, []dlq.PreviewCount{{Name: dlq.SkipNoOrigin, Count: 3}}, preview.SkipReasons)
		for topic, want := range map[string][]dlq.Message{"orders.dlq": stored[3:], "_schemas": nil} {
			f.requireSends(dlq.Filter{Topic: topic}, want)
		}
		for _, m := range stored[:3] {
			require.Equal(t, m, f.message(m.ID))
		}
	},

	"a limited job sends only to origins that follow from the topic's name or are within its limits": func(t *testing.T, f fixture) {
		pointer := func(a *dlq.Arrival) {
			a.Origin.Family, a.Record.Key, a.Record.Value, a.Payload = dlq.FamilyShareGroup, nil, nil, nil
		}
		twoFamilies := func(a *dlq.Arrival) { a.Origin.Family = "spring-kafka" }
		stored := f.store(
			dlqtest.Arrival(), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders-eu")),
			dlqtest.Arrival(dlqtest.FromTopic("orders.eu.dlq.v1", "orders.eu.v1")),
			dlqtest.Arrival(pointer),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "payments")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders-eu"), pointer),
			dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders-eu"), pointer, twoFamilies),
			dlqtest.Arrival(dlqtest.FromTopic("orders.eu.dlq.v1", "orders")), dlqtest.Arrival(dlqtest.FromTopic("stock.dlq", "payments")))
		const within = `^(orders\.dlq|orders\.eu\..*|orders-.*)$`
		for topic, c := range map[string]struct {
			sent    []dlq.Message
			foreign int64
		}{
			"orders.dlq":       {[]dlq.Message{stored[0], stored[1], stored[3]}, 3},
			"orders.eu.dlq.v1": {stored[2:3], 1},
			"orders":           {[]dlq.Message{stored[0], stored[3]}, 1},
			"payments":         {nil, 1},
		} {
			spec := dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: topic, Within: within}}
			preview, err := f.PreviewJob(t.Context(), spec)
			require.NoError(t, err)
			require.EqualValues(t, len(c.sent), preview.Matched, topic)
			require.Equal(t, []dlq.PreviewCount{{Name: dlq.SkipForeign, Count: c.foreign}}, preview.SkipReasons, topic)
			require.Equal(t, append([]dlq.Message(nil), c.sent...), append([]dlq.Message(nil), preview.Sample...), topic)
		}
		f.requireSends(dlq.Filter{Topic: "payments", Within: within}, nil)
		f.requireSends(dlq.Filter{Topic: "orders.dlq", Within: within}, []dlq.Message{stored[0], stored[1], stored[3]})
		f.requireSends(dlq.Filter{Topic: "orders.eu.dlq.v1", Within: within}, stored[2:3])
		for _, m := range stored[4:] {
			require.Equal(t, m, f.message(m.ID), "it stays PENDING and uncounted")
		}
		f.requireSends(dlq.Filter{Topic: "payments"}, []dlq.Message{stored[4], stored[8]})
	},
}

// requireSends checks which messages a bulk retry counts and sends.
func (f fixture) requireSends(filter dlq.Filter, want []dlq.Message) {
	f.t.Helper()
	b := f.startBulk(dlqtest.Bulk("", 1, func(s *dlq.JobSpec) { s.Filter = filter }))
	require.EqualValues(f.t, len(want), b.Matched)
	require.Equal(f.t, append([]dlq.ID(nil), ids(want)...), f.drain(f.openLane(dlqtest.Lane(b, 0))))
	f.end(b.ID, dlq.JobCompleted)
}
