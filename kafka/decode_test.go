package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

// upper decodes values that are not null as their upper case.
type upper struct{}

func (upper) DecodeArrivals(_ context.Context, arrivals []*dlq.Arrival) {
	for _, a := range arrivals {
		if a.Record.Value != nil {
			a.Payload, _ = json.Marshal(string(bytes.ToUpper(a.Record.Value)))
		}
	}
}

func TestValuesAreDecodedBeforeTheyAreStored(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	require.NoError(t, cluster.CreateTopic("orders.dlq", 1, nil))
	values := produce(t, cluster.ListenAddrs(), "orders.dlq", "value", 10)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders.dlq"}).FirstErr())

	store := newMemory()
	options := quickOptions(cluster.ListenAddrs())
	options.Decoder = upper{}
	startIngest(t, options, store)
	awaitValues(t, store, append(values, ""))
	for _, a := range store.all() {
		if a.Record.Value == nil {
			require.Nil(t, a.Payload)
		} else {
			require.JSONEq(t, `"`+string(bytes.ToUpper(a.Record.Value))+`"`, string(a.Payload))
		}
	}
}
