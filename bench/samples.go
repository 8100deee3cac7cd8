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
	// sampleCount is the number of different messages, and of keys. All other messages
	// are copies with other ids.
	sampleCount = 1000
	// rareSample is the sample whose key only one in rareEvery of its copies has.
	rareSample = 8
	rareEvery  = 100
	// valueBytes is the size of a message's value.
	valueBytes = 1024
	// rareError is a part of the error of one message in ten.
	rareError = "deadlock"
)

// sampleTopic is the topic of the samples; seeding replaces it.
const sampleTopic = "sample"

var sampleErrors = []string{
	"payment service timed out after 30s", "connection refused by inventory-2", "deadlock detected in transaction",
	"order has no customer", "currency XTS is unknown", "stock is below zero", "schema 17 is not registered",
	"too many requests, try again later", "signature does not match", "unexpected end of JSON input",
}

// sampleArrivals are a shop's orders as JSON of valueBytes, each with a key and the
// headers of a typical consumer and its tracing. They are the same in every run of the
// program.
func sampleArrivals() []dlq.Arrival {
	random := rand.New(rand.NewPCG(1, 2)) // a fixed seed
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
	value, _ := json.Marshal(order) // cannot fail
	order.Note = note.String()[:valueBytes-len(value)]
	value, _ = json.Marshal(order)
	return value
}

// arrivals returns n different messages, as the ingest would pass them to the store.
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
