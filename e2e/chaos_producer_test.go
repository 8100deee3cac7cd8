package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// backlog is the number of messages of a burst. Three bursts are produced before the first fault.
	backlog = 15_000
	// arrivalsPerSecond is the rate of a short run. A long run has a lower rate, since the
	// proof keeps all messages in memory.
	arrivalsPerSecond, arrivalsPerSecondLong = 300, 80

	chaosKeys = 40

	// One of largeEvery values has a megabyte.
	largeEvery = 2_000
)

// deadLetters produces dead letters, and records which are acknowledged.
type deadLetters struct {
	client *kgo.Client
	serial map[string]int
	// acknowledged has the values of acknowledged records. A value is produced again if
	// its acknowledgement was lost.
	acknowledged map[string]bool
	padding      string
	large        string
}

func (c *chaos) newProducer() *deadLetters {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.broker.Brokers()...),
		// The embedded broker forgets sequence numbers in a restart. Instead, one request
		// at a time keeps the order.
		kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.RecordDeliveryTimeout(3*time.Second), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerBatchMaxBytes(1_040_000), // slightly less than the brokers' limit
	)
	require.NoError(c.t, err)
	c.t.Cleanup(client.Close)
	return &deadLetters{client: client, serial: map[string]int{}, acknowledged: map[string]bool{}, padding: strings.Repeat("x", 200),
		large: strings.Repeat("x", 1_000_000)}
}

// keepProducing produces bursts until ctx ends, even during outages.
func (c *chaos) keepProducing(ctx context.Context) {
	rate := arrivalsPerSecond
	if c.duration > chaosLong {
		rate = arrivalsPerSecondLong
	}
	for ctx.Err() == nil {
		rest := between(c.producerDice, 50*time.Millisecond, 350*time.Millisecond)
		c.produceBurst(ctx, max(int(float64(rate)*rest.Seconds()), 1))
		pause(ctx, rest)
	}
}

// produceBurst produces records until every record is acknowledged, or ctx ends. It produces unacknowledged
// records again, so the topic may have a record twice. Then both records are dead letters.
func (c *chaos) produceBurst(ctx context.Context, n int) {
	p := c.producer
	records := make([]*kgo.Record, n)
	for i := range records {
		topic := chaosTopics[c.producerDice.IntN(len(chaosTopics))]
		number := c.producerDice.IntN(chaosKeys)
		key := fmt.Sprintf("key-%02d", number)
		var bytes []byte
		if c.producerDice.IntN(12) == 0 {
			key = "none"
		} else {
			bytes = []byte(key)
		}
		p.serial[topic.dlq+key]++
		padding := p.padding
		if c.producerDice.IntN(largeEvery) == 0 {
			padding = p.large
		}
		records[i] = &kgo.Record{
			Topic: topic.dlq, Key: bytes,
			Value: fmt.Appendf(nil, `{"topic":%q,"key":%q,"n":%d,"padding":%q}`, topic.dlq, key, p.serial[topic.dlq+key], padding),
			Headers: []kgo.RecordHeader{
				{Key: "original_topic", Value: []byte(topic.targets[number%2])}, {Key: "error", Value: []byte("payment service timed out")},
			},
		}
	}
	for len(records) > 0 && ctx.Err() == nil {
		var again []*kgo.Record
		for _, result := range p.client.ProduceSync(ctx, records...) {
			if result.Err == nil {
				p.acknowledged[string(result.Record.Value)] = true
				continue
			}
			r := result.Record
			again = append(again, &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
		if len(again) > 0 {
			c.journal.note("%d of %d dead letters were not acknowledged and are sent again", len(again), len(records))
			pause(ctx, 200*time.Millisecond)
		}
		records = again
	}
}
