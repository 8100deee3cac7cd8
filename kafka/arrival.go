package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// Headers on a republished record, by which it is known when it comes back.
const (
	headerMessageID  = "dlq-message-id"
	headerRetryCount = "dlq-retry-count"
)

// absurdRetryCount is beyond any count that this system wrote.
const absurdRetryCount = 10_000

// arrivalOf never fails: what cannot be decoded is stored as it is.
func arrivalOf(topics *dlq.Topics, maxRetries int, topicID [16]byte, r *kgo.Record) dlq.Arrival {
	headers := make([]dlq.Header, len(r.Headers))
	for i, header := range r.Headers {
		headers[i] = dlq.Header{Key: header.Key, Value: header.Value}
	}
	origin, why := describe(topics, r.Topic, headers)
	previous, count := comingBack(headers)
	return dlq.Arrival{
		ID:       dlq.NewID(),
		DLQTopic: r.Topic,
		Source:   dlq.Source{TopicID: topicID, Partition: r.Partition, Offset: r.Offset},
		Origin:   origin,
		Record: dlq.Record{
			Key:       r.Key,
			Value:     r.Value,
			Headers:   headers,
			Timestamp: r.Timestamp.UTC(),
		},
		Payload:      dlq.PayloadOf(r.Value),
		ErrorMessage: why.message,
		ErrorClass:   why.class,
		StackTrace:   why.stack,
		MaxRetries:   maxRetries,
		RetryCount:   min(count, maxRetries),
		PreviousID:   previous,
	}
}

// comingBack reads what Publisher wrote. Each header stands for itself, and
// nonsense is as if it were not there: headers come from outside.
func comingBack(headers []dlq.Header) (previous dlq.ID, count int) {
	if value, ok := find(headers, headerMessageID, lastCounts); ok {
		if id, err := dlq.ParseID(string(value)); err == nil {
			previous = id
		}
	}
	if value, ok := find(headers, headerRetryCount, lastCounts); ok {
		if n, err := strconv.Atoi(string(value)); err == nil && 0 <= n && n <= absurdRetryCount {
			count = n
		}
	}
	return previous, count
}
