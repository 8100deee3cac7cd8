package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"dlqmanager/dlq"
)

const (
	// sampleCount is how many different messages there are; the rest are
	// copies of them under other ids, and as many keys.
	sampleCount = 1000
	// rareSample is the sample whose key only one in rareEvery of its copies keeps.
	rareSample = 8
	rareEvery  = 100
	// valueBytes is the size of a message's value.
	valueBytes = 1024
	// rareError is part of the error of one message in ten.
	rareError = "deadlock"
)

// sampleTopic is where samples are from; seeding replaces it.
const sampleTopic = "sample"

var sampleErrors = []string{
	"payment service timed out after 30s", "connection refused by inventory-2", "deadlock detected in transaction",
	"order has no customer", "currency XTS is unknown", "stock is below zero", "schema 17 is not registered",
	"too many requests, try again later", "signature does not match", "unexpected end of JSON input",
}

// sampleArrivals are orders of a shop as JSON of valueBytes, each with a key and
// the headers that a consumer and its tracing leave behind. They are the same in
// every run of the program.
func sampleArrivals() []dlq.Arrival {
	random := rand.New(rand.NewPCG(1, 2)) // the same messages in every run
	arrivals := make([]dlq.Arrival, sampleCount)
	for i := range arrivals {
		reason := sampleErrors[i%len(sampleErrors)]
		arrivals[i] = dlq.Arrival{
			ID: dlq.NewID(), DLQTopic: sampleTopic + ".dlq", Source: dlq.Source{TopicID: [16]byte{1}, Offset: int64(i)},
			Failure: dlq.Failure{Origin: dlq.Origin{Topic: sampleTopic, Family: "this-system"}, ErrorMessage: reason},
			Record: dlq.Record{
				Key: fmt.Appendf(nil, "customer-%d", i), Value: sampleValue(random, i), Timestamp: time.Now(),
				Headers: []dlq.Header{
					{Key: "content-type", Value: []byte("application/json")},
					{Key: "traceparent", Value: fmt.Appendf(nil, "00-%016x%016x-%016x-01", random.Uint64(), random.Uint64(), random.Uint64())},
					{Key: "tenant", Value: fmt.Appendf(nil, "tenant-%d", i%20)},
					{Key: "original_topic", Value: []byte(sampleTopic)},
					{Key: "error", Value: []byte(reason)},
				},
			},
			MaxRetries: dlq.DefaultMaxRetries,
		}
		arrivals[i].Payload = dlq.PayloadOf(arrivals[i].Record.Value)
	}
	return arrivals
}

// sampleValue pads with text that compresses about as well as real text.
func sampleValue(random *rand.Rand, i int) []byte {
	type line struct {
		SKU   string  `json:"sku"`
		Count int     `json:"count"`
		Price float64 `json:"price"`
	}
	order := struct {
		OrderID  string `json:"order_id"`
		Customer string `json:"customer"`
		Lines    []line `json:"lines"`
		Note     string `json:"note"`
	}{OrderID: fmt.Sprintf("%016x", random.Uint64()), Customer: fmt.Sprintf("customer-%d", i)}
	for range 5 {
		order.Lines = append(order.Lines, line{fmt.Sprintf("sku-%06d", random.IntN(1e6)), 1 + random.IntN(9), float64(random.IntN(1e5)) / 100})
	}
	var note strings.Builder
	for note.Len() < valueBytes {
		fmt.Fprintf(&note, "%x ", random.Uint32())
	}
	value, _ := json.Marshal(order) // it has only what JSON has
	order.Note = note.String()[:valueBytes-len(value)]
	value, _ = json.Marshal(order)
	return value
}

// arrivals are n different ones, as the ingest would hand them to the store.
func (b *bench) arrivals(n int) []dlq.Arrival {
	arrivals := make([]dlq.Arrival, n)
	for i := range arrivals {
		arrivals[i] = b.samples[i%len(b.samples)]
		arrivals[i].ID = dlq.NewID()
		arrivals[i].DLQTopic, arrivals[i].Origin.Topic = "orders.dlq", "orders"
		arrivals[i].Source = dlq.Source{TopicID: [16]byte{2}, Partition: int32(i % partitions), Offset: int64(i / partitions)}
	}
	return arrivals
}
