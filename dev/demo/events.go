package demo

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
)

// route is an original topic and its dead-letter topic. The routes below show both
// usual forms of the name of a dead-letter topic.
type route struct{ topic, dlq string }

var (
	orders    = route{"shop.orders.v1", "shop.orders.dlq.v1"}
	payments  = route{"shop.payments", "shop.payments.dlq"}
	shipments = route{"shop.shipments", "shop.shipments.dlq"}
	routes    = []route{orders, payments, shipments}
)

// processable reports whether the services can process the n-th event: they can process
// every fourth event. Since 3 topics take turns, each topic has such events.
func processable(n int) bool { return n%4 == 0 }

// newEvent returns the n-th event of a seed, n from 1.
func newEvent(seed uint64, n int) *kgo.Record {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	r := &kgo.Record{Key: fmt.Appendf(nil, "order-%d", n), Headers: eventHeaders(random)}
	switch n % len(routes) {
	case 0:
		r.Topic, r.Value = orders.topic, orderJSON(random, n)
	case 1:
		r.Topic, r.Value = payments.topic, paymentProtobuf(random, n)
	default:
		r.Topic, r.Value = shipments.topic, shipmentAvro(random, n)
		if r.Value != nil && random.IntN(4) == 0 {
			r.Key = nil
		}
	}
	return r
}

// eventHeaders are typical headers of an event. A retry must preserve their order,
// duplicates, and the difference between an empty value and null.
func eventHeaders(random *rand.Rand) []kgo.RecordHeader {
	headers := []kgo.RecordHeader{
		text("traceparent", fmt.Sprintf("00-%016x%016x-%016x-01", random.Uint64(), random.Uint64(), random.Uint64())),
		text("ce_source", "/shop/checkout"),
		text("x-hop", "gateway"),
		text("x-hop", "checkout"),
	}
	if random.IntN(3) == 0 {
		headers = append(headers, kgo.RecordHeader{Key: "x-experiment"}, text("x-campaign", ""))
	}
	return headers
}

type order struct {
	Order    int       `json:"order_id"`
	Customer string    `json:"customer"`
	Currency string    `json:"currency"`
	Cents    int       `json:"total_cents"`
	Lines    []article `json:"lines"`
	Note     string    `json:"note,omitempty"`
}

type article struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

func orderJSON(random *rand.Rand, n int) []byte {
	o := order{
		Order: n, Customer: fmt.Sprintf("c-%03d", random.IntN(400)),
		Currency: []string{"EUR", "USD", "JPY"}[random.IntN(3)], Cents: 500 + random.IntN(40_000),
		Note: []string{"", "ring twice", "注文を確認してください", "gift 🎁", "a\u0000b"}[random.IntN(5)],
	}
	for range 1 + random.IntN(3) {
		o.Lines = append(o.Lines, article{SKU: fmt.Sprintf("SKU-%05d", random.IntN(100_000)), Quantity: 1 + random.IntN(4)})
	}
	problem := random.IntN(8)
	switch {
	case processable(n):
	case problem == 0:
		o.Cents = -o.Cents
	default:
		o.Currency = []string{"XTS", "BTC", "ZWD"}[random.IntN(3)]
	}
	value, _ := json.Marshal(o) // strings and numbers always marshal
	if !processable(n) && problem == 1 {
		return value[:len(value)/2] // truncated
	}
	return value
}

// paymentProtobuf is message Payment { int64 payment_id = 1; int64 order_id = 2;
// int64 amount_cents = 3; string method = 4; string acquirer = 5; }.
func paymentProtobuf(random *rand.Rand, n int) []byte {
	amount, acquirer := uint64(500+random.IntN(40_000)), "acquirer-1"
	problem := random.IntN(8)
	switch {
	case processable(n):
	case problem == 0:
		amount = 0
	default:
		acquirer = "acquirer-3"
	}
	var b []byte
	for field, value := range []uint64{uint64(70_000 + n), uint64(n), amount} {
		b = protowire.AppendTag(b, protowire.Number(field+1), protowire.VarintType)
		b = protowire.AppendVarint(b, value)
	}
	for i, value := range []string{[]string{"card", "wallet"}[random.IntN(2)], acquirer} {
		b = protowire.AppendTag(b, protowire.Number(i+4), protowire.BytesType)
		b = protowire.AppendString(b, value)
	}
	return b
}

// shipmentAvro is the Avro record {order: long, grams: long, carrier: string, country:
// string} in the framing of a schema registry's serializer: a zero byte, the schema's
// id, the body. Sometimes it is nil, a tombstone.
func shipmentAvro(random *rand.Rand, n int) []byte {
	schema, country := uint32(12), []string{"DE", "JP", "US"}[random.IntN(3)]
	problem := random.IntN(8)
	switch {
	case processable(n):
	case problem == 0:
		country = "AQ"
	case problem == 1:
		return nil
	default:
		schema = 17
	}
	b := binary.BigEndian.AppendUint32([]byte{0}, schema)
	b = binary.AppendVarint(b, int64(n)) // zigzag, as Avro's long
	b = binary.AppendVarint(b, int64(200+random.IntN(5000)))
	for _, value := range []string{[]string{"northpost", "skyfreight"}[random.IntN(2)], country} {
		b = binary.AppendVarint(b, int64(len(value)))
		b = append(b, value...)
	}
	return b
}

// numberOf reads the order's number from a key; 0 if the key has none.
func numberOf(key []byte) int {
	var n int
	_, _ = fmt.Sscanf(strings.TrimSpace(string(key)), "order-%d", &n)
	return n
}
