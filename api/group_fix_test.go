package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

// ends has the end offsets of topics, or returns an error.
type ends struct {
	offsets map[string][]int64
	err     error
	asked   []string
}

func (e *ends) EndOffsets(_ context.Context, topics []string) (found []dlq.EndOffset, err error) {
	e.asked = topics
	for _, topic := range topics {
		for partition, offset := range e.offsets[topic] {
			found = append(found, dlq.EndOffset{Topic: topic, Partition: int32(partition), Offset: offset})
		}
	}
	return found, e.err
}

func startWithEnds(t *testing.T, e *ends, change ...func(*api.Options)) *world {
	t.Helper()
	return start(t, append(change, func(o *api.Options) { o.Ends = e })...)
}

// at sets the offset of an arrival's origin, and the time at which the record was written.
func at(partition int32, offset int64, written time.Time) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) {
		a.Origin.Partition, a.Origin.Offset, a.Origin.Timestamp = &partition, &offset, written
	}
}

func TestAFixStoresTheEndsOfTheOriginalTopics(t *testing.T) {
	t.Parallel()
	e := &ends{offsets: map[string][]int64{"orders.v1": {100, 7}, "elsewhere": {5}}}
	w := startWithEnds(t, e)
	path := w.addGroup(2, noPrice, at(0, 5, time.Time{}))
	w.add(1, noPrice, inStock, at(1, 5, time.Time{}))
	got := w.json(http.MethodPost, path+"/fixed", `{"reason":"release 42","ticket":"https://tickets.example.com/1"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, []string{"orders.v1", "stock"}, e.asked, "the most frequent first")
	require.Equal(t, []any{map[string]any{"topic": "orders.v1", "partitions": 2.0, "ends": []any{
		map[string]any{"partition": 0.0, "offset": 100.0}, map[string]any{"partition": 1.0, "offset": 7.0}}}}, got.field(t, "marks"))
	require.Equal(t, []any{map[string]any{"topic": "stock", "reason": "it does not exist in Kafka, or the manager may not read it"}}, got.field(t, "unmarked"))
	require.Equal(t, "fixed", got.field(t, "group", "state"))
	require.Equal(t, "https://tickets.example.com/1", got.field(t, "group", "ticket"))
	require.Equal(t, got.field(t, "fixed_at"), got.field(t, "group", "state_at"))
	require.Contains(t, got.field(t, "note"), "at or beyond the end of its partition")
	require.NotContains(t, got.field(t, "note"), "has no origin offset")
	operation := w.operations()[0]
	require.Equal(t, "release 42", operation["reason"])
	require.Equal(t, map[string]any{"state": "fixed", "ticket": "https://tickets.example.com/1", "partitions": 2.0}, operation["detail"])

	w.add(1, noPrice, at(0, 99, time.Now().Add(time.Minute)))
	require.Equal(t, "fixed", w.call(http.MethodGet, path).field(t, "state"), "it was written before the fix")
	newer := w.add(1, noPrice, at(0, 100, time.Time{}))[0]
	again := w.call(http.MethodGet, path)
	require.Equal(t, "open", again.field(t, "state"))
	require.Equal(t, newer.String(), again.field(t, "regressed_by"))
	require.Equal(t, dlq.RegressionReason, again.field(t, "state_reason"))
}

func TestAFixWithoutOffsetsSaysThatTheTimeDecides(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{"Kafka is not configured": start(t), "no such topic": startWithEnds(t, &ends{})} {
		path := w.addGroup(1, noPrice)
		got := w.call(http.MethodPost, path+"/fixed")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Empty(t, got.field(t, "marks"), name)
		require.Len(t, got.field(t, "unmarked"), 1, name)
		require.Contains(t, got.field(t, "note"), "the time of writing decides", name)
		w.add(1, noPrice, at(0, 1_000_000, time.Now().Add(-time.Hour)))
		require.Equal(t, "fixed", w.call(http.MethodGet, path).field(t, "state"), name)
		w.add(1, noPrice, at(0, 1, time.Now().Add(time.Hour)))
		require.Equal(t, "open", w.call(http.MethodGet, path).field(t, "state"), name)
	}
}

func TestAFixSaysThatTheOffsetsOfItsMessagesAreUnknown(t *testing.T) {
	t.Parallel()
	w := startWithEnds(t, &ends{offsets: map[string][]int64{"orders.v1": {100}}})
	got := w.call(http.MethodPost, w.addGroup(1, noPrice)+"/fixed")
	require.Contains(t, got.field(t, "note"), "The newest message of the group has no origin offset.")
	require.Equal(t, "group", w.operations()[0]["target"])
}

func TestAFixChangesNothingWhileKafkaIsUnavailable(t *testing.T) {
	t.Parallel()
	w := startWithEnds(t, &ends{err: fmt.Errorf("10.0.0.7:9092 refuses: %w", dlq.ErrUnavailable)})
	path := w.addGroup(1, noPrice)
	before := w.call(http.MethodGet, path).body
	message, _ := requireError(t, w.call(http.MethodPost, path+"/fixed"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "nothing was changed")
	require.NotContains(t, message, "10.0.0.7")
	require.Equal(t, before, w.call(http.MethodGet, path).body)
	require.Equal(t, "failed", w.operations()[0]["outcome"])
}

func TestAFixReadsABoundedNumberOfTopics(t *testing.T) {
	t.Parallel()
	e := &ends{}
	w := startWithEnds(t, e)
	path := w.addGroup(2, noPrice)
	for i := range 110 {
		w.add(1, noPrice, func(a *dlq.Arrival) { a.Origin.Topic = fmt.Sprint("hostile-", i) })
	}
	got := w.call(http.MethodPost, path+"/fixed")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Len(t, e.asked, 100)
	require.Equal(t, "orders.v1", e.asked[0])
	require.Len(t, got.field(t, "unmarked"), 111)
}

func TestAnInvalidFixChangesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	path := w.addGroup(1, noPrice)
	for body, field := range map[string]string{`{"ticket":"x"}`: "ticket", `{"at":"2026-02-20T10:00:00Z"}`: "at", `{"reason":7}`: "reason", `[]`: "body"} {
		_, fields := requireError(t, w.json(http.MethodPost, path+"/fixed", body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, body)
	}
	require.Equal(t, "open", w.call(http.MethodGet, path).field(t, "state"))
}
