package kafka

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// Headers of a republished record, which identify it when it comes back.
const (
	headerMessageID  = "dlq-message-id"
	headerRetryCount = "dlq-retry-count"
)

// maxHeaderRetryCount is greater than any count that this system writes.
const maxHeaderRetryCount = 10_000

// ArrivalOf is a record of a dead-letter topic as it is stored. It never fails: undecodable
// headers and values are stored as bytes only.
func ArrivalOf(topics *dlq.Topics, grouping *dlq.Grouping, maxRetries int, topicID [16]byte, r *kgo.Record) dlq.Arrival {
	record := recordOf(r)
	previous, count := previousRetry(record.Headers)
	source := dlq.Source{TopicID: topicID, Partition: r.Partition, Offset: r.Offset}
	arrival := dlq.Arrival{
		ID:         dlq.RecordID(source, r.Timestamp),
		DLQTopic:   r.Topic,
		Source:     source,
		Failure:    failureOf(topics, r.Topic, record.Headers),
		Record:     record,
		Payload:    dlq.PayloadOf(r.Value),
		MaxRetries: maxRetries,
		RetryCount: min(count, maxRetries),
		PreviousID: previous,
	}
	arrival.Fingerprint = grouping.Fingerprint(&arrival)
	return arrival
}

// previousRetry reads the two headers that Publisher adds. Anyone can write headers, so
// an invalid value counts as absent. One invalid header does not affect the other.
func previousRetry(headers []dlq.Header) (previous dlq.ID, count int) {
	if id, err := dlq.ParseID(string(valueOf(headers, []string{headerMessageID}, true))); err == nil {
		previous = id
	}
	if n, err := strconv.Atoi(string(valueOf(headers, []string{headerRetryCount}, true))); err == nil && 0 <= n && n <= maxHeaderRetryCount {
		count = n
	}
	return previous, count
}
