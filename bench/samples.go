package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/kafka"
)

const (
	// sampleCount is the number of different messages, and of keys. All further messages
	// are copies with other ids.
	sampleCount = 1000
	// rareSample is a sample with a rare key: only one in rareEvery of its copies has the key.
	rareSample = 8
	rareEvery  = 100
	// rareClass and rareConsumer are the class and the consumer group of one message in sampleCount.
	rareClass    = "shop.payment.CardExpiredException"
	rareConsumer = "warehouse-audit"
	// valueBytes is the size of a message's value.
	valueBytes = 1024
	// rareError is a part of the error of one message in ten.
	rareError = "deadlock"
)

// sampleTopic is the topic of the samples. Copies and seeded messages have other topics.
const sampleTopic = "sample"

var sampleErrors = []string{
	"payment service timed out after 30s", "connection refused by inventory-2", "deadlock detected in transaction",
	"order has no customer", "currency XTS is unknown", "stock is below zero", "schema 17 is not registered",
	"too many requests, try again later", "signature does not match", "unexpected end of JSON input",
}

// sampleArrivals returns messages with a shop's orders as JSON of valueBytes bytes. Each message has a key,
// and the headers of a typical consumer and of its tracing. Their values are the same in every run of the
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

// copies returns n messages with different ids, as the ingest passes them to the store.
func copies(samples []dlq.Arrival, n int) []dlq.Arrival {
	arrivals := make([]dlq.Arrival, n)
	for i := range arrivals {
		arrivals[i] = samples[i%len(samples)]
		arrivals[i].ID = dlq.NewID()
		arrivals[i].DLQTopic, arrivals[i].Origin.Topic = "orders.dlq", "orders"
		arrivals[i].Source = dlq.Source{TopicID: [16]byte{2}, Partition: int32(i % partitions), Offset: int64(i / partitions)}
		arrivals[i].Origin.Partition, arrivals[i].Origin.Offset = &arrivals[i].Source.Partition, &arrivals[i].Source.Offset
		arrivals[i].TraceID = fmt.Sprintf("%x", sha256.Sum256(arrivals[i].ID[:]))[:32]
	}
	return arrivals
}

// springSamples returns the samples with the headers that the recoverer of Spring's retry topics writes.
func springSamples(samples []dlq.Arrival, topics *dlq.Topics) []dlq.Arrival {
	const class = "org.springframework.kafka.listener.ListenerExecutionFailedException"
	spring := make([]dlq.Arrival, len(samples))
	for i, s := range samples {
		var stack strings.Builder
		fmt.Fprintf(&stack, "%s: Listener failed; %s\n", class, s.ErrorMessage)
		for line := 0; stack.Len() < 4096; line++ {
			fmt.Fprintf(&stack, "\tat shop.orders.stage%d.Handler.handle(Handler.java:%d)\n", line%17, 31*line%977)
		}
		record := &kgo.Record{Topic: "orders.dlq", Offset: s.Source.Offset, Key: s.Record.Key, Value: s.Record.Value, Timestamp: s.Record.Timestamp}
		add := func(key string, value []byte) {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: key, Value: value})
		}
		for _, h := range s.Record.Headers[:3] {
			add(h.Key, h.Value)
		}
		millis := binary.BigEndian.AppendUint64(nil, uint64(s.Record.Timestamp.UnixMilli()))
		add("kafka_original-topic", []byte("orders"))
		add("kafka_original-partition", binary.BigEndian.AppendUint32(nil, uint32(i%partitions)))
		add("kafka_original-offset", binary.BigEndian.AppendUint64(nil, uint64(i)))
		add("kafka_original-timestamp", millis)
		add("kafka_original-timestamp-type", []byte("CreateTime"))
		add("kafka_dlt-original-consumer-group", []byte("billing"))
		add("kafka_exception-fqcn", []byte(class))
		add("kafka_exception-cause-fqcn", []byte("java.lang.IllegalStateException"))
		add("kafka_exception-message", []byte("Listener failed; "+s.ErrorMessage))
		add("kafka_exception-stacktrace", []byte(stack.String()))
		add("retry_topic-attempts", binary.BigEndian.AppendUint32(nil, 4))
		add("retry_topic-original-timestamp", millis[2:])
		add("retry_topic-backoff-timestamp", millis[2:])
		spring[i] = kafka.ArrivalOf(topics, nil, s.MaxRetries, s.Source.TopicID, record)
	}
	return spring
}
