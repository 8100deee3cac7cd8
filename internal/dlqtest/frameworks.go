package dlqtest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"dlqmanager/dlq"
)

// framework is a producer of dead letters: the headers that it adds, as docs/origins.md
// lists them.
type framework struct {
	name string
	// topic, partition and offset are the names of the headers with the origin. The names
	// partition and offset may be empty.
	topic, partition, offset string
	always, others, empty    []string
	// key is the name of the header with the record's key, if the dead letter has another key.
	key    string
	binary bool // big-endian numbers
	// prepends is set when the framework puts its headers before the headers of earlier hops.
	prepends bool
}

var frameworks = []framework{
	{name: "topic-name"},
	{name: "this-system", topic: "original_topic", others: []string{"error"}},
	{name: "spring-kafka", binary: true,
		topic: "kafka_dlt-original-topic", partition: "kafka_dlt-original-partition", offset: "kafka_dlt-original-offset",
		others: []string{"kafka_dlt-original-timestamp", "kafka_dlt-original-timestamp-type", "kafka_dlt-original-consumer-group",
			"kafka_dlt-exception-fqcn", "kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-message", "kafka_dlt-exception-stacktrace",
			"kafka_dlt-key-exception-fqcn", "kafka_dlt-key-exception-message", "kafka_dlt-key-exception-stacktrace"}},
	{name: "spring-retryable-topic", binary: true,
		topic: "kafka_original-topic", partition: "kafka_original-partition", offset: "kafka_original-offset",
		others: []string{"kafka_original-timestamp", "kafka_original-timestamp-type", "kafka_exception-fqcn", "kafka_exception-cause-fqcn",
			"kafka_exception-message", "kafka_exception-stacktrace", "kafka_key-exception-fqcn", "kafka_key-exception-message",
			"kafka_dlt-original-consumer-group"}},
	{name: "spring-cloud-stream", binary: true,
		topic: "x-original-topic", partition: "x-original-partition", offset: "x-original-offset",
		others: []string{"x-original-timestamp", "x-original-timestamp-type", "x-exception-fqcn", "x-exception-message", "x-exception-stacktrace"}},
	{name: "kafka-connect",
		topic: "__connect.errors.topic", partition: "__connect.errors.partition", offset: "__connect.errors.offset",
		others: []string{"__connect.errors.connector.name", "__connect.errors.task.id", "__connect.errors.stage", "__connect.errors.class.name",
			"__connect.errors.exception.class.name", "__connect.errors.exception.message", "__connect.errors.exception.stacktrace"}},
	{name: "kafka-streams",
		topic: "__streams.errors.topic", partition: "__streams.errors.partition", offset: "__streams.errors.offset",
		others: []string{"__streams.errors.exception", "__streams.errors.message", "__streams.errors.stacktrace"}},
	{name: "kafka-share-group",
		topic: "__dlq.errors.topic", partition: "__dlq.errors.partition", offset: "__dlq.errors.offset",
		others: []string{"__dlq.errors.group", "__dlq.errors.delivery.count", "__dlq.errors.message"}},
	{name: "smallrye", prepends: true,
		topic: "dead-letter-topic", partition: "dead-letter-partition", offset: "dead-letter-offset",
		always: []string{"dead-letter-reason"},
		others: []string{"dead-letter-cause", "dead-letter-exception-class-name", "dead-letter-cause-class-name",
			"deserialization-failure-reason", "deserialization-failure-key-data", "deserialization-failure-value-data"}},
	{name: "smallrye-retry-topic", prepends: true,
		topic: "delayed-retry-topic", partition: "delayed-retry-partition", offset: "delayed-retry-offset",
		always: []string{"delayed-retry-reason"},
		others: []string{"delayed-retry-count", "delayed-retry-original-timestamp", "delayed-retry-exception-class-name",
			"delayed-retry-cause-class-name"}},
	{name: "watermill", topic: "topic_poisoned", others: []string{"reason_poisoned", "handler_poisoned", "subscriber_poisoned"},
		empty: []string{"_watermill_message_uuid"}},
	{name: "micronaut",
		topic: "micronaut-kafka-original-topic", partition: "micronaut-kafka-original-partition", offset: "micronaut-kafka-original-offset",
		others: []string{"micronaut-kafka-exception-class", "micronaut-kafka-exception-message", "micronaut-kafka-retry-attempt"}},
	{name: "karafka",
		topic: "source_topic", partition: "source_partition", offset: "source_offset",
		others: []string{"source_key", "source_consumer_group", "source_attempts", "source_trace_id"}},
	{name: "karafka-2.4", key: "original_key",
		topic: "original_topic", partition: "original_partition", offset: "original_offset",
		others: []string{"original_consumer_group", "original_attempts"}},
	{name: "wolverine",
		topic: "original-destination", partition: "original-partition", offset: "original-offset",
		always: []string{"exception-type"},
		others: []string{"exception-message", "exception-stack", "failed-at", "attempts"}},
}

// retryHeaders are headers in which frameworks count their own retries, or keep the exception
// for the next consumer.
var retryHeaders = []string{
	"retry_topic-attempts", "retry_topic-backoff-timestamp", "retry_topic-original-timestamp", "retry_topic-exception",
	"delayed-retry-count", "delayed-retry-original-timestamp", "kafka_deliveryAttempt",
	"springDeserializerExceptionKey", "springDeserializerExceptionValue", "_watermill_requeuer_retries", "wolverine-kafka-retry-tier",
}

// ownHeaders identify a message that this system has sent and that comes back.
var ownHeaders = []string{"dlq-message-id", "dlq-retry-count"}

func exceptFrameworks(list []framework, names ...string) []framework {
	return slices.DeleteFunc(slices.Clone(list), func(f framework) bool { return slices.Contains(names, f.name) })
}

// Fail makes the dead letter of a record that was consumed from topic. The headers of a framework,
// sometimes of several frameworks, come before, after or between the headers of the record. Fail
// also returns the name of the first framework, so that the next failure can exclude that framework.
//
// dlqTopic must contain the name of topic, because a framework may add no headers.
func (r *Random) Fail(l *Letter, record dlq.Record, topic, dlqTopic, except string) (dead dlq.Record, by string) {
	candidates := exceptFrameworks(l.mayFail, except)
	first := pick(r, candidates)
	dead = r.failedBy(&first, record, topic, dlqTopic)
	// The headers of this system count only without the headers of another framework.
	names := []string{first.name, "this-system", "topic-name"}
	for !slices.Contains(names[1:], first.name) && r.IntN(4) == 0 {
		another := pick(r, exceptFrameworks(candidates, names...))
		names = append(names, another.name)
		seen := pick(r, []string{topic, dlqTopic})
		dead = r.failedBy(&another, dead, seen, dlqTopic)
	}
	if r.IntN(3) == 0 {
		dead.Headers = r.mix(dead.Headers, r.bookkeeping(), false)
	}
	wasSent := slices.ContainsFunc(record.Headers, func(h dlq.Header) bool { return slices.Contains(ownHeaders, h.Key) })
	if !wasSent && r.IntN(10) == 0 { // from another installation, perhaps
		dead.Headers = r.mix(dead.Headers, []dlq.Header{{Key: pick(r, ownHeaders), Value: []byte(r.text(r.IntN(40)))}}, false)
	}
	return dead, first.name
}

// failedBy adds the headers of one or more hops. The oldest hop names topic, and the later hops name laterTopic.
func (r *Random) failedBy(f *framework, record dlq.Record, topic, laterTopic string) dlq.Record {
	if f.topic == "" {
		return record
	}
	added := r.hop(f, topic, record.Key)
	if f.key != "" {
		record.Key = []byte(strconv.Itoa(r.IntN(100)))
	}
	for r.IntN(4) == 0 {
		if later := r.hop(f, laterTopic, record.Key); f.prepends {
			added = slices.Concat(later, added)
		} else {
			added = slices.Concat(added, later)
		}
	}
	record.Headers = r.mix(record.Headers, added, f.prepends)
	return record
}

func (r *Random) hop(f *framework, topic string, key []byte) []dlq.Header {
	headers := []dlq.Header{{Key: f.topic, Value: []byte(topic)}}
	if f.key != "" {
		headers = append(headers, dlq.Header{Key: f.key, Value: append([]byte{}, key...)})
	}
	if f.partition != "" {
		headers = append(headers,
			dlq.Header{Key: f.partition, Value: r.number(f, 4)}, dlq.Header{Key: f.offset, Value: r.number(f, 8)})
	}
	for _, name := range f.always {
		headers = append(headers, dlq.Header{Key: name, Value: r.frameworkValue()})
	}
	for _, name := range f.empty {
		headers = append(headers, dlq.Header{Key: name, Value: []byte{}})
	}
	for _, name := range f.others {
		if r.IntN(4) > 0 {
			headers = append(headers, dlq.Header{Key: name, Value: r.frameworkValue()})
		}
	}
	return headers
}

// number returns a number in the encoding of the framework, and sometimes bytes that the framework never writes.
func (r *Random) number(f *framework, width int) []byte {
	switch {
	case r.IntN(10) == 0:
		return r.headerValue()
	case !f.binary:
		return []byte(strconv.Itoa(r.IntN(1 << 20)))
	case width == 4:
		return binary.BigEndian.AppendUint32(nil, r.Uint32N(100))
	default:
		return binary.BigEndian.AppendUint64(nil, r.Uint64N(1<<40))
	}
}

func (r *Random) frameworkValue() []byte {
	if r.IntN(4) == 0 {
		return r.headerValue()
	}
	return fmt.Appendf(nil, "com.shop.Failure%d: %s", r.IntN(10), r.text(r.IntN(400)))
}

func (r *Random) bookkeeping() (headers []dlq.Header) {
	for range 1 + r.IntN(4) {
		headers = append(headers, dlq.Header{Key: pick(r, retryHeaders), Value: r.headerValue()})
	}
	return headers
}

// mix adds headers before, after or between the record's headers. Both lists keep their order.
func (r *Random) mix(headers, added []dlq.Header, prepends bool) []dlq.Header {
	switch {
	case r.IntN(3) == 0: // as no framework does
		return r.interleave(headers, added)
	case prepends:
		return slices.Concat(added, headers)
	default:
		return slices.Concat(headers, added)
	}
}

func (r *Random) interleave(a, b []dlq.Header) []dlq.Header {
	mixed := make([]dlq.Header, 0, len(a)+len(b))
	for len(a)+len(b) > 0 {
		if r.IntN(len(a)+len(b)) < len(a) {
			mixed, a = append(mixed, a[0]), a[1:]
		} else {
			mixed, b = append(mixed, b[0]), b[1:]
		}
	}
	return mixed
}
