package dlqtest

import (
	"bytes"
	"fmt"

	"dlqmanager/dlq"
)

// Difference says where the key, the value or the headers of a record differ from the wanted
// record, or returns "". A null value differs from an empty value.
func Difference(want, got *dlq.Record) string {
	if d := difference(want.Key, got.Key); d != "" {
		return "key: " + d
	}
	if d := difference(want.Value, got.Value); d != "" {
		return "value: " + d
	}
	for i := range min(len(want.Headers), len(got.Headers)) {
		w, g := want.Headers[i], got.Headers[i]
		if w.Key != g.Key {
			return fmt.Sprintf("header %d: named %.100q, not %.100q", i, g.Key, w.Key)
		}
		if d := difference(w.Value, g.Value); d != "" {
			return fmt.Sprintf("header %d, %.100q: %s", i, w.Key, d)
		}
	}
	if len(want.Headers) != len(got.Headers) {
		return fmt.Sprintf("%d headers, not %d", len(got.Headers), len(want.Headers))
	}
	return ""
}

func difference(want, got []byte) string {
	if bytes.Equal(want, got) && (want == nil) == (got == nil) {
		return ""
	}
	describe := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%d bytes %.40x", len(b), b)
	}
	return describe(got) + ", not " + describe(want)
}
