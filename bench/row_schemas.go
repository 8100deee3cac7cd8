package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/protowire"

	"dlqmanager/dlq"
	"dlqmanager/registry"
)

const avroOrder = `{"type": "record", "name": "Order", "fields": [{"name": "order_id", "type": "string"}, {"name": "customer", "type": "string"},
	{"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
		{"name": "sku", "type": "string"}, {"name": "count", "type": "long"}, {"name": "price", "type": "double"}]}}},
	{"name": "note", "type": "string"}]}`

const protobufOrder = `syntax = "proto3";
	message Order { string order_id = 1; string customer = 2; repeated Line lines = 3; string note = 4; }
	message Line { string sku = 1; int64 count = 2; double price = 3; }`

// The ids of the schemas.
const (
	avroID = iota + 1
	protobufID
)

// measureSchemas measures the ingest of values in the wire format of a Schema Registry. If the
// registry answers, the baseline is the ingest of the same orders as plain JSON. Otherwise the
// baseline is the ingest without a registry, which stores only bytes.
func (b *bench) measureSchemas(ctx context.Context) error {
	if err := b.template(ctx, "empty"); err != nil {
		return err
	}
	samples, err := encodedSamples(b.samples)
	if err != nil {
		return err
	}
	arrivals, plain := copies(samples, b.messages), copies(b.samples, b.messages)
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("avro-value", 1, avroID, sr.Schema{Schema: avroOrder})
	fake.SeedSchema("protobuf-value", 1, protobufID, sr.Schema{Schema: protobufOrder, Type: sr.TypeProtobuf})
	silent, err := silentServer(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = silent.Close() }()

	registries := []struct{ name, url string }{
		{"without a registry", ""},
		{"that answers, with its schemas in the cache", fake.URL()},
		{"that refuses connections", "http://127.0.0.1:1"},
		{"that never answers", "http://" + silent.Addr().String()},
	}
	rates := make([]spread, len(registries))
	var asJSON spread
	for run := range b.runs {
		b.step("ingest with schemas, run %d of %d", run+1, b.runs)
		for i, r := range registries {
			store := storeArrivals
			if r.url != "" {
				decoder, err := registry.New(registry.Options{URLs: []string{r.url}, Timeout: 2 * time.Second, IngestTimeout: 200 * time.Millisecond},
					zap.NewNop(), prometheus.NewRegistry())
				if err != nil {
					return err
				}
				if r.url == fake.URL() {
					decodeAll(ctx, decoder, samples[:2])
				}
				store = func(ctx context.Context, db *database, arrivals []dlq.Arrival) error {
					return storeArrivals(ctx, db, decodeAll(ctx, decoder, arrivals))
				}
			}
			took, err := b.ingestOnce(ctx, arrivals, ingestBatch, store)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate(len(arrivals), took))
		}
		took, err := b.ingestOnce(ctx, plain, ingestBatch, storeArrivals)
		if err != nil {
			return err
		}
		asJSON = append(asJSON, rate(len(plain), took))
	}
	for i, r := range registries[1:] {
		base, name, target := rates[0], "without a registry", goal{atMost: 1.1}
		if r.url == fake.URL() { // our side also decodes values and stores them as JSONB
			base, name, target = asJSON, "the same orders as plain JSON", goal{atMost: 1.5}
		}
		b.add(row{number: 20, label: "ingest with a registry " + r.name, ours: rates[i+1].show(perSecond), base: base.show(perSecond),
			title:  "time to ingest values of 1 KB, half Avro and half Protobuf, with a Schema Registry " + r.name + "; baseline: " + name,
			judged: base.over(rates[i+1]), goal: target})
	}
	return nil
}

// decodeAll decodes copies of arrivals with the same call as the ingest.
func decodeAll(ctx context.Context, decoder *registry.Decoder, arrivals []dlq.Arrival) []dlq.Arrival {
	decoded := slices.Clone(arrivals)
	pointers := make([]*dlq.Arrival, len(decoded))
	for i := range decoded {
		pointers[i] = &decoded[i]
	}
	decoder.DecodeArrivals(ctx, pointers)
	return decoded
}

// silentServer accepts connections and never answers.
func silentServer(ctx context.Context) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(listener) }() // Serve ends when the listener is closed
	return listener, nil
}

// encodedSamples are the samples in the wire format, alternately as Avro and as Protobuf.
func encodedSamples(samples []dlq.Arrival) ([]dlq.Arrival, error) {
	schema, err := avro.Parse(avroOrder)
	if err != nil {
		return nil, err
	}
	encoded := slices.Clone(samples)
	for i := range encoded {
		prefix := []byte{0, 0, 0, 0, avroID}
		if i%2 == 1 {
			prefix = []byte{0, 0, 0, 0, protobufID, 0}
		}
		content, err := encodeOrder(schema, encoded[i].Record.Value, i%2 == 1)
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
		encoded[i].Record.Value, encoded[i].Payload = slices.Concat(prefix, content), nil
	}
	return encoded, nil
}

func encodeOrder(schema *avro.Schema, value []byte, asProtobuf bool) ([]byte, error) {
	var order struct {
		OrderID  string `avro:"order_id" json:"order_id"`
		Customer string `avro:"customer" json:"customer"`
		Lines    []struct {
			SKU   string  `avro:"sku"   json:"sku"`
			Count int64   `avro:"count" json:"count"`
			Price float64 `avro:"price" json:"price"`
		} `avro:"lines" json:"lines"`
		Note string `avro:"note" json:"note"`
	}
	if err := json.Unmarshal(value, &order); err != nil {
		return nil, err
	}
	if !asProtobuf {
		return schema.Encode(&order)
	}
	text := func(to []byte, number protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), value)
	}
	out := text(text(nil, 1, order.OrderID), 2, order.Customer)
	for _, l := range order.Lines {
		line := protowire.AppendVarint(protowire.AppendTag(text(nil, 1, l.SKU), 2, protowire.VarintType), uint64(l.Count))
		line = protowire.AppendFixed64(protowire.AppendTag(line, 3, protowire.Fixed64Type), math.Float64bits(l.Price))
		out = text(out, 3, string(line))
	}
	return text(out, 4, order.Note), nil
}
