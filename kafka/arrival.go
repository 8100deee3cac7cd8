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

// arrivalOf never fails: undecodable records are stored as they are.
func arrivalOf(topics *dlq.Topics, maxRetries int, topicID [16]byte, r *kgo.Record) dlq.Arrival {
	headers := make([]dlq.Header, len(r.Headers))
	for i, header := range r.Headers {
		headers[i] = dlq.Header{Key: header.Key, Value: header.Value}
	}
	previous, count := comingBack(headers)
	source := dlq.Source{TopicID: topicID, Partition: r.Partition, Offset: r.Offset}
	return dlq.Arrival{
		ID:       dlq.RecordID(source, r.Timestamp),
		DLQTopic: r.Topic,
		Source:   source,
		Failure:  describe(topics, r.Topic, headers),
		Record: dlq.Record{
			Key:       r.Key,
			Value:     r.Value,
			Headers:   headers,
			Timestamp: r.Timestamp.UTC(),
		},
		Payload:    dlq.PayloadOf(r.Value),
		MaxRetries: maxRetries,
		RetryCount: min(count, maxRetries),
		PreviousID: previous,
	}
}

// comingBack reads what Publisher wrote. Each header stands for itself, and
// nonsense is as if it were not there: headers come from outside.
func comingBack(headers []dlq.Header) (previous dlq.ID, count int) {
	if id, err := dlq.ParseID(string(last(headers, headerMessageID))); err == nil {
		previous = id
	}
	if n, err := strconv.Atoi(string(last(headers, headerRetryCount))); err == nil && 0 <= n && n <= absurdRetryCount {
		count = n
	}
	return previous, count
}
