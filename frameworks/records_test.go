//go:build frameworks

package frameworks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The originals are in a partition and at offsets that no header can name by accident.
const (
	partitions  = 3
	partition   = 1
	firstOffset = 300
)

// sample is a record that a framework fails on.
type sample struct {
	name       string
	key, value []byte
	headers    []kgo.RecordHeader // after hardHeaders
}

// Samples that are hard to preserve. All have the headers of hardHeaders.
var (
	plainJSON = sample{name: "json", key: []byte("order-1001"), value: []byte(`{"id":1001,"items":[{"sku":"A-1","price":12.50}],"note":"für Zoë"}`)}
	binary    = sample{name: "binary", key: []byte{0x00, 0xff, 0x10}, value: []byte{0xff, 0xfe, 0x00, 0x80, 0xc3, 0x28}}
	nullKey   = sample{name: "null-key", value: []byte(`{"id":1003}`)}
	nullValue = sample{name: "null-value", key: []byte("order-1004")}
	broken    = sample{name: "broken-json", key: []byte("order-1005"), value: []byte(`{"id":`)}
	empty     = sample{name: "empty", key: []byte{}, value: []byte{}}
)

// allSamples are for one case of each framework. The other cases need only a few.
func allSamples() []sample { return []sample{plainJSON, binary, nullKey, nullValue, empty} }

// hardHeaders has a repeated header, an empty one, a null one and a binary one.
func hardHeaders(number int) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		{Key: "traceparent", Value: fmt.Appendf(nil, "00-4bf92f3577b34da6a3ce929d0e0e47%02d-00f067aa0ba902b7-01", number)},
		{Key: "route", Value: []byte("eu")},
		{Key: "x-correlation-id", Value: fmt.Appendf(nil, "c0ffee%02d", number)},
		{Key: "route", Value: []byte("us")},
		{Key: "empty", Value: []byte{}},
		{Key: "nothing", Value: nil},
		{Key: "binary", Value: []byte{0xff, 0x00, 0xfe}},
	}
}

// createTopic creates a topic that keeps records of any age.
func createTopic(t *testing.T, client *kadm.Client, name string, partitions int32, config map[string]string) {
	t.Helper()
	configs := map[string]*string{"retention.ms": new("-1")}
	for key, value := range config {
		configs[key] = &value
	}
	_, err := client.CreateTopic(t.Context(), partitions, 1, configs, name)
	require.NoError(t, err)
}

// produceSamples writes the samples from firstOffset on, with timestamps that are the same
// in every run.
func produceSamples(t *testing.T, client *kgo.Client, topic string, samples []sample) {
	t.Helper()
	const before = firstOffset
	filler := make([]*kgo.Record, before)
	for i := range filler {
		filler[i] = &kgo.Record{Topic: topic, Partition: partition}
	}
	require.NoError(t, client.ProduceSync(t.Context(), filler...).FirstErr())
	upTo := kadm.Offsets{}
	upTo.AddOffset(topic, partition, before, -1)
	_, err := kadm.NewClient(client).DeleteRecords(t.Context(), upTo)
	require.NoError(t, err)
	start := time.UnixMilli(1_700_000_000_123)
	for i, s := range samples {
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{
			Topic: topic, Partition: partition, Timestamp: start.Add(time.Duration(i) * time.Second),
			Key: s.key, Value: s.value, Headers: append(hardHeaders(i), s.headers...),
		}).FirstErr())
	}
}

// read returns the first n records of a topic. It fails when the program ends before, or
// when they do not come in time.
func read(t *testing.T, brokers []string, topic string, n int, program *process) []message {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(250*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	var found []message
	for len(found) < n {
		attempt, stop := context.WithTimeout(ctx, time.Second)
		client.PollFetches(attempt).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				found = append(found, messageOf(r))
			}
		})
		stop()
		if ctx.Err() != nil || program != nil && program.ended() {
			require.Len(t, found, n, "records in %s", topic)
		}
	}
	require.Len(t, found, n, "records in %s", topic)
	for _, m := range found {
		require.Equal(t, found[0].Partition, m.Partition, "the records of %s are in order", topic)
	}
	return found
}
