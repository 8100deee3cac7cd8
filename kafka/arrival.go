package kafka

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// Headers of a republished record, which identify a message that comes back.
const (
	headerMessageID  = "dlq-message-id"
	headerRetryCount = "dlq-retry-count"
)

// maxHeaderRetryCount is greater than any count that this system writes.
const maxHeaderRetryCount = 10_000

// ArrivalOf returns a record of a dead-letter topic in the form in which it is stored. There is no error:
// undecodable headers and values are stored as bytes only.
func ArrivalOf(topics *dlq.Topics, grouping *dlq.Grouping, maxRetries int, topicID [16]byte, r *kgo.Record) dlq.Arrival {
	record := recordOf(r)
	source := dlq.Source{TopicID: topicID, Partition: r.Partition, Offset: r.Offset}
	arrival := arrivalOf(topics, r.Topic, record, failureOf(topics, r.Topic, record.Headers), maxRetries)
	arrival.ID, arrival.Source = dlq.RecordID(source, r.Timestamp), source
	arrival.Fingerprint = grouping.Fingerprint(&arrival)
	return arrival
}

func arrivalOf(topics *dlq.Topics, dlqTopic string, record dlq.Record, failure dlq.Failure, maxRetries int) dlq.Arrival {
	previous, count := previousRetry(record.Headers)
	failure.Suspicion = cmp.Or(failure.Suspicion, topics.ForeignOrigin(dlqTopic, failure.Origin.Topic))
	return dlq.Arrival{
		DLQTopic:   dlqTopic,
		Failure:    failure,
		Record:     record,
		Payload:    dlq.PayloadOf(record.Value),
		MaxRetries: maxRetries,
		RetryCount: min(count, maxRetries),
		PreviousID: previous,
	}
}

// Intake makes a dlq.Arrival of each dead letter that does not come from Kafka, as if it were a record of
// a dead-letter topic.
type Intake struct {
	Topics     *dlq.Topics
	Grouping   *dlq.Grouping
	MaxRetries int
	Decoder    Decoder // may be nil
}

// Arrivals returns the arrivals of letters for a dead-letter topic, each with a new id.
func (i *Intake) Arrivals(ctx context.Context, dlqTopic string, letters []dlq.Letter) []dlq.Arrival {
	arrivals, decoded := make([]dlq.Arrival, len(letters)), make([]*dlq.Arrival, len(letters))
	for n, l := range letters {
		if l.Record.Timestamp.IsZero() {
			l.Record.Timestamp = time.Now().UTC().Truncate(time.Millisecond)
		}
		said := failureOf(i.Topics, dlqTopic, l.Record.Headers)
		a := arrivalOf(i.Topics, dlqTopic, l.Record, l.Failure.Over(said), i.MaxRetries)
		a.ID = dlq.NewID()
		a.Fingerprint = i.Grouping.Fingerprint(&a)
		arrivals[n], decoded[n] = a, &arrivals[n]
	}
	if i.Decoder != nil {
		i.Decoder.DecodeArrivals(ctx, decoded)
	}
	return arrivals
}

// previousRetry reads the two headers that Publisher adds. Anyone can write headers, so an invalid value
// counts as absent. A count without the id of a message is ignored.
func previousRetry(headers []dlq.Header) (previous dlq.ID, count int) {
	if id, err := dlq.ParseID(string(valueOf(headers, []string{headerMessageID}, true))); err == nil {
		previous = id
	}
	n, err := strconv.Atoi(string(valueOf(headers, []string{headerRetryCount}, true)))
	if err == nil && !previous.IsZero() && 0 <= n && n <= maxHeaderRetryCount {
		count = n
	}
	return previous, count
}
