package demo

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// failure describes why a service could not process a record.
type failure struct {
	// class and cause are exception types, as the JVM frameworks name them.
	class, cause string
	message      string
	frame        string // of the shop's code
	// permanent failures remain after the shop's bug is fixed.
	permanent bool
}

// family is the headers of one framework that describe the origin of a dead letter.
// Names, encodings and order are the framework's own.
type family struct {
	name string
	// first is true if the framework puts its headers before those of the record.
	first bool
	// pointer is true if the dead letter has neither the record's key nor its value nor
	// its headers.
	pointer bool
	headers func(r *kgo.Record, f failure, group string) []kgo.RecordHeader
}

// families has the frameworks of each topic's service. The frameworks of one service give the
// same details, so that all failures with one cause are in one group.
var families = map[string][]family{
	orders.topic: { // the consumer group and a stack trace
		{name: "Spring Kafka", headers: springHeaders},
		{name: "Spring @RetryableTopic", headers: springRetryHeaders},
		{name: "Spring Kafka, two hops", headers: springTwoHopHeaders},
		{name: "Spring Kafka, bad key", headers: springKeyHeaders},
	},
	payments.topic: { // the message, which is all that some of them have
		{name: "dlq-manager", headers: ownHeaders},
		{name: "Quarkus (SmallRye)", first: true, headers: smallRyeHeaders},
		{name: "Micronaut", headers: micronautHeaders},
		{name: "Watermill", headers: watermillHeaders},
		{name: "share group", headers: shareGroupHeaders}, // a consumer group of its own
		{name: "share group, without the record", pointer: true, headers: shareGroupHeaders},
	},
	shipments.topic: { // a stack trace
		{name: "Spring Cloud Stream", headers: springCloudHeaders},
		{name: "Kafka Connect", headers: connectHeaders},
		{name: "Kafka Streams", headers: streamsHeaders},
		{name: "Karafka", headers: karafkaHeaders}, // no error at all
	},
}

// familyOf returns the family of the n-th event.
func familyOf(topic string, n int) family {
	of := families[topic]
	return of[(n/len(routes)+n/12)%len(of)]
}

func text(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

func number[T int | int32 | int64](key string, value T) kgo.RecordHeader {
	return text(key, strconv.FormatInt(int64(value), 10))
}

// int32BE and int64BE encode an int and a long like Java's ByteBuffer.
func int32BE(key string, value int32) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: binary.BigEndian.AppendUint32(nil, uint32(value))}
}

func int64BE(key string, value int64) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: binary.BigEndian.AppendUint64(nil, uint64(value))}
}

// bigInteger encodes a positive number like Java's BigInteger.toByteArray: in the
// fewest bytes that also have room for a sign bit.
func bigInteger(key string, value int64) kgo.RecordHeader {
	b := big.NewInt(value).Bytes()
	if len(b) == 0 || b[0] >= 0x80 {
		b = append([]byte{0}, b...)
	}
	return kgo.RecordHeader{Key: key, Value: b}
}

func ownHeaders(r *kgo.Record, f failure, _ string) []kgo.RecordHeader {
	return []kgo.RecordHeader{text("original_topic", r.Topic), text("error", f.message)}
}

// springOrigin has the headers that Spring's recoverer writes under a prefix.
func springOrigin(prefix, topic string, partition int32, offset int64, timestamp time.Time) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text(prefix+"topic", topic),
		int32BE(prefix+"partition", partition),
		int64BE(prefix+"offset", offset),
		int64BE(prefix+"timestamp", timestamp.UnixMilli()),
		text(prefix+"timestamp-type", "CREATE_TIME"),
	}
}

// listenerFailed is the exception that Spring wraps around every other exception.
const listenerFailed = "org.springframework.kafka.listener.ListenerExecutionFailedException"

func springException(prefix string, f failure) []kgo.RecordHeader {
	message := "Listener failed; " + f.message
	return []kgo.RecordHeader{
		text(prefix+"fqcn", listenerFailed),
		text(prefix+"cause-fqcn", f.class),
		text(prefix+"message", message),
		text(prefix+"stacktrace", stackTrace(listenerFailed, message, f)),
	}
}

func springHeaders(r *kgo.Record, f failure, group string) []kgo.RecordHeader {
	headers := springOrigin("kafka_dlt-original-", r.Topic, r.Partition, r.Offset, r.Timestamp)
	headers = append(headers, text("kafka_dlt-original-consumer-group", group))
	return append(headers, springException("kafka_dlt-exception-", f)...)
}

// springTwoHopHeaders belong to a record that also failed in a retry topic. Spring
// appends, so the first of each header is the origin.
func springTwoHopHeaders(r *kgo.Record, f failure, group string) []kgo.RecordHeader {
	headers := springOrigin("kafka_dlt-original-", r.Topic, r.Partition, r.Offset, r.Timestamp)
	headers = append(headers, text("kafka_dlt-original-consumer-group", group))
	headers = append(headers, springOrigin("kafka_dlt-original-", r.Topic+".retry", 0, r.Offset+7, r.Timestamp.Add(time.Second))...)
	headers = append(headers, text("kafka_dlt-original-consumer-group", group+"-retry"))
	return append(headers, springException("kafka_dlt-exception-", f)...)
}

// springKeyHeaders belong to a record whose key could not be deserialized.
func springKeyHeaders(r *kgo.Record, f failure, group string) []kgo.RecordHeader {
	const class = "org.springframework.kafka.support.serializer.DeserializationException"
	headers := springOrigin("kafka_dlt-original-", r.Topic, r.Partition, r.Offset, r.Timestamp)
	return append(headers,
		text("kafka_dlt-original-consumer-group", group),
		text("kafka_dlt-key-exception-fqcn", class),
		text("kafka_dlt-key-exception-message", "failed to deserialize; "+f.message),
		text("kafka_dlt-key-exception-stacktrace", stackTrace(class, "failed to deserialize", f)),
	)
}

func springRetryHeaders(r *kgo.Record, f failure, group string) []kgo.RecordHeader {
	headers := springOrigin("kafka_original-", r.Topic, r.Partition, r.Offset, r.Timestamp)
	headers = append(headers, text("kafka_dlt-original-consumer-group", group)) // this framework has no header of its own for it
	headers = append(headers, springException("kafka_exception-", f)...)
	return append(headers,
		int32BE("retry_topic-attempts", 4),
		bigInteger("retry_topic-original-timestamp", r.Timestamp.UnixMilli()),
		bigInteger("retry_topic-backoff-timestamp", r.Timestamp.Add(8*time.Second).UnixMilli()),
	)
}

func springCloudHeaders(r *kgo.Record, f failure, _ string) []kgo.RecordHeader {
	headers := springOrigin("x-original-", r.Topic, r.Partition, r.Offset, r.Timestamp)
	return append(headers,
		text("x-exception-fqcn", f.class),
		text("x-exception-message", f.message),
		text("x-exception-stacktrace", stackTrace("org.springframework.messaging.MessageHandlingException",
			"error occurred in message handler", f)),
	)
}

func connectHeaders(r *kgo.Record, f failure, _ string) []kgo.RecordHeader {
	const class = "org.apache.kafka.connect.errors.DataException"
	return []kgo.RecordHeader{
		text("__connect.errors.topic", r.Topic),
		number("__connect.errors.partition", r.Partition),
		number("__connect.errors.offset", r.Offset),
		text("__connect.errors.connector.name", "warehouse-sink"),
		number("__connect.errors.task.id", 0),
		text("__connect.errors.stage", "VALUE_CONVERTER"),
		text("__connect.errors.class.name", "io.confluent.connect.avro.AvroConverter"),
		text("__connect.errors.exception.class.name", class),
		text("__connect.errors.exception.message", f.message),
		text("__connect.errors.exception.stacktrace", stackTrace(class, f.message, f)),
	}
}

func streamsHeaders(r *kgo.Record, f failure, _ string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text("__streams.errors.exception", f.class),
		text("__streams.errors.message", f.message),
		text("__streams.errors.stacktrace", stackTrace(f.class, f.message, f)),
		text("__streams.errors.topic", r.Topic),
		number("__streams.errors.partition", r.Partition),
		number("__streams.errors.offset", r.Offset),
	}
}

func shareGroupHeaders(r *kgo.Record, f failure, group string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text("__dlq.errors.topic", r.Topic),
		number("__dlq.errors.partition", r.Partition),
		number("__dlq.errors.offset", r.Offset),
		text("__dlq.errors.group", group+"-share"),
		number("__dlq.errors.delivery.count", 5),
		text("__dlq.errors.message", f.message),
	}
}

func smallRyeHeaders(r *kgo.Record, f failure, _ string) []kgo.RecordHeader {
	headers := []kgo.RecordHeader{text("dead-letter-exception-class-name", f.class), text("dead-letter-reason", f.message)}
	if f.cause != "" {
		headers = append(headers, text("dead-letter-cause-class-name", f.cause), text("dead-letter-cause", f.message))
	}
	return append(headers,
		text("dead-letter-topic", r.Topic),
		number("dead-letter-partition", r.Partition),
		number("dead-letter-offset", r.Offset),
	)
}

func watermillHeaders(r *kgo.Record, f failure, group string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text("reason_poisoned", f.message),
		text("topic_poisoned", r.Topic),
		text("handler_poisoned", group+"-handler"),
		text("subscriber_poisoned", "kafka.Subscriber"),
	}
}

func micronautHeaders(r *kgo.Record, f failure, _ string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text("micronaut-kafka-exception-class", f.class),
		text("micronaut-kafka-exception-message", f.message),
		text("micronaut-kafka-original-topic", r.Topic),
		number("micronaut-kafka-original-partition", r.Partition),
		number("micronaut-kafka-original-offset", r.Offset),
	}
}

func karafkaHeaders(r *kgo.Record, _ failure, group string) []kgo.RecordHeader {
	return []kgo.RecordHeader{
		text("source_topic", r.Topic),
		number("source_partition", r.Partition),
		number("source_offset", r.Offset),
		text("source_consumer_group", group),
		number("source_attempts", 3),
	}
}

// stackTrace formats a JVM stack trace of an exception around f.
func stackTrace(class, message string, f failure) string {
	const dispatcher = "\tat shop.platform.RecordDispatcher.dispatch(RecordDispatcher.java:131)\n" +
		"\tat java.base/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1144)\n" +
		"\tat java.base/java.lang.Thread.run(Thread.java:1583)\n"
	trace := fmt.Sprintf("%s: %s\n", class, message)
	if class != f.class {
		trace += dispatcher + fmt.Sprintf("Caused by: %s: %s\n", f.class, f.message)
	}
	trace += "\tat " + f.frame + "\n" + dispatcher
	if f.cause != "" {
		trace += fmt.Sprintf("Caused by: %s\n\t... 14 more\n", f.cause)
	}
	return trace
}
