package dlqtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTheSameSeedMakesTheSameDeadLetters(t *testing.T) {
	t.Parallel()
	seed := Seed(t)
	one, other := NewRandom(seed), NewRandom(seed)
	for range 200 {
		letter, same := one.Letter(), other.Letter()
		require.Empty(t, Difference(&letter.Own, &same.Own))
		dead, by := one.Fail(&letter, letter.Own, "orders", "orders.dlq", "")
		again, sameBy := other.Fail(&same, same.Own, "orders", "orders.dlq", "")
		require.Equal(t, by, sameBy)
		require.Empty(t, Difference(&dead, &again))
		require.Equal(t, one.Timestamp(), other.Timestamp())
	}
}

func TestDifferenceTellsNullFromEmpty(t *testing.T) {
	t.Parallel()
	record := func(change func(*dlq.Record)) *dlq.Record {
		r := &dlq.Record{Key: []byte{}, Value: []byte("v"), Headers: []dlq.Header{{Key: "a", Value: []byte{}}, {Key: "b"}}}
		change(r)
		return r
	}
	want := record(func(*dlq.Record) {})
	require.Empty(t, Difference(want, want))
	for difference, other := range map[string]*dlq.Record{
		"key: null, not 0 bytes ":           record(func(r *dlq.Record) { r.Key = nil }),
		"value: 1 bytes 77, not 1 bytes 76": record(func(r *dlq.Record) { r.Value = []byte("w") }),
		`header 0, "a": null, not 0 bytes `: record(func(r *dlq.Record) { r.Headers[0].Value = nil }),
		`header 1, "b": 0 bytes , not null`: record(func(r *dlq.Record) { r.Headers[1].Value = []byte{} }),
		`header 1: named "c", not "b"`:      record(func(r *dlq.Record) { r.Headers[1].Key = "c" }),
		"1 headers, not 2":                  record(func(r *dlq.Record) { r.Headers = r.Headers[:1] }),
	} {
		require.Equal(t, difference, Difference(want, other))
	}
}
