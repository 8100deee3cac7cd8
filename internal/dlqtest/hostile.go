package dlqtest

import (
	"bytes"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// Hostile are dead letters that break careless software, by the kind of their fault. All of
// them must be stored byte for byte.
func Hostile() map[string]dlq.Arrival {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	record := func(change func(*dlq.Record)) func(*dlq.Arrival) {
		return func(a *dlq.Arrival) {
			change(&a.Record)
			a.Payload = dlq.PayloadOf(a.Record.Value)
		}
	}
	value := func(v []byte) dlq.Arrival {
		return Arrival(record(func(r *dlq.Record) { r.Value = v }))
	}
	return map[string]dlq.Arrival{
		"null key":            Arrival(NoKey),
		"empty key":           Arrival(Key("")),
		"every byte as a key": Arrival(Key(string(everyByte))),
		"long key":            Arrival(Key(strings.Repeat("k", 100_000))),
		"null value":          value(nil),
		"empty value":         value([]byte{}),
		"every byte":          value(everyByte),
		"invalid UTF-8":       value([]byte("\xff\xfe{}")),
		"a megabyte":          value(bytes.Repeat(everyByte, 4096)),
		"a megabyte of JSON":  value([]byte(`{"pad":"` + strings.Repeat("x", 1<<20) + `"}`)),
		"JSON null":           value([]byte("null")),
		"JSON with NUL":       value([]byte(`{"a":"\u0000"}`)),
		"half a surrogate":    value([]byte(`{"a":"\ud800"}`)),
		"deep JSON":           value([]byte(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000))),
		"zero bytes":          value(make([]byte, 100)),
		"NUL in JSON":         value([]byte("{\"a\":\"\x00\"}")),
		"the other half":      value([]byte(`{"a":"\udc00\ud800"}`)),
		"half in a name":      value([]byte(`{"\udfff":1}`)),
		"10,000 levels":       value([]byte(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))),
		"512 levels":          value([]byte(strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512))),
		"400 digits":          value([]byte(`{"n":` + strings.Repeat("9", 400) + `}`)),
		"huge number":         value([]byte(`{"n":1e400000}`)),
		"duplicate JSON keys": value([]byte(`{"a":1,  "a":2}`)),
		"null record":         Arrival(record(func(r *dlq.Record) { *r = dlq.Record{} })),
		"before 1970":         Arrival(record(func(r *dlq.Record) { r.Timestamp = time.Date(1965, 3, 18, 8, 30, 0, 0, time.UTC) })),
		"strange headers": Arrival(Headers(
			dlq.Header{Key: "twice", Value: []byte("1")}, dlq.Header{Key: "once", Value: everyByte},
			dlq.Header{Key: "twice", Value: []byte("2")}, dlq.Header{Key: "null"}, dlq.Header{Key: "empty", Value: []byte{}},
			dlq.Header{Key: "", Value: []byte("no name")}, dlq.Header{Key: "\xff\x00", Value: []byte("bad name")})),
		"bad text": Arrival(Error("a\x00b\xff"), func(a *dlq.Arrival) {
			a.ErrorClass, a.StackTrace, a.Origin.Family = "\xff", "\x00", "\x00"
		}),
		// These payloads come from a program that does not know JSONB's limits.
		"payload that JSONB refuses": Arrival(Payload(`{"a":"\u0000"}`)),
		"payload that is not JSON":   Arrival(Payload(`{`)),
		"payload that is not UTF-8":  Arrival(Payload("\"\xff\"")),
		"payload with a huge number": Arrival(Payload(`1e400000`)),
		"payload too deep":           Arrival(Payload(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000))),
	}
}
