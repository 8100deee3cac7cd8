//go:build frameworks

package frameworks_test

import (
	"cmp"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	springKafka    = "3.3.16"
	springKafka4   = "4.1.2"
	springListener = "org.springframework.kafka.listener.ListenerExecutionFailedException"
	springDecoding = "org.springframework.kafka.support.serializer.DeserializationException"
)

// springScenario is a listener whose dead letters a DeadLetterPublishingRecoverer writes.
func springScenario(name, note, failure string, samples ...sample) scenario {
	return scenario{
		framework: "spring-kafka", name: name, note: note,
		program: maven("spring-kafka", springKafka, "Recoverer"),
		samples: samples,
		topics:  []string{"shop.spring." + name, "shop.spring." + name + "-dlt"}, deadLetterPartitions: partitions,
		environment: []string{"FAILURE=" + failure},
	}
}

func (s scenario) springFacts(class, cause string) scenario {
	s.expect = func(original, deadLetter message) facts {
		f := origin("spring-kafka", original)
		f.ConsumerGroup = s.group(0)
		f.ErrorClass, f.CauseClass = class, cause
		// When only the key could not be deserialised, the exception has headers of its own.
		f.ErrorMessage = cmp.Or(deadLetter.text("kafka_dlt-exception-message"), deadLetter.text("kafka_dlt-key-exception-message"))
		f.StackTrace = cmp.Or(deadLetter.firstLine("kafka_dlt-exception-stacktrace"), deadLetter.firstLine("kafka_dlt-key-exception-stacktrace"))
		return f
	}
	return s
}

func TestSpringKafkaRecoverer(t *testing.T) {
	springScenario("listener", "DeadLetterPublishingRecoverer with default settings; the listener throws", "listener",
		allSamples()...).springFacts(springListener, "java.lang.IllegalStateException").run(t)

	springScenario("value", "ErrorHandlingDeserializer of values with default settings; JsonDeserializer throws", "value",
		binary, broken).springFacts(springDecoding, springDecoding).run(t)
	springScenario("key", "ErrorHandlingDeserializer of keys with default settings; IntegerDeserializer throws; the exception "+
		"has headers for keys, but that of its cause", "key",
		plainJSON, binary).springFacts(springDecoding, springDecoding).run(t)
	springScenario("both", "ErrorHandlingDeserializer of keys and of values; both deserializers throw", "both",
		binary, broken).springFacts(springDecoding, springDecoding).run(t)
}

func TestSpringKafkaRecovererSpecialCases(t *testing.T) {
	springScenario("no-message", "the exception has no message", "no-message", plainJSON).
		springFacts(springListener, "java.lang.IllegalStateException").run(t)

	attempts := springScenario("delivery-attempt", "deliveryAttemptHeader=true: the container adds kafka_deliveryAttempt to the "+
		"record", "delivery-attempt", plainJSON, binary).springFacts(springListener, "java.lang.IllegalStateException")
	known := attempts.expect
	attempts.expect = func(original, deadLetter message) facts {
		f, three := known(original, deadLetter), 3
		f.Attempts = &three
		return f
	}
	attempts.run(t)

	typed := sample{name: "json", key: []byte("order-1006"), value: []byte(`{"id":1006}`), headers: []kgo.RecordHeader{
		{Key: "x-priority", Value: []byte("5")},
		{Key: "spring_json_header_types", Value: []byte(`{"x-priority":"java.lang.Integer"}`)},
		{Key: "__TypeId__", Value: []byte("Recoverer$Order")},
	}}
	springScenario("types", "the source has type headers of a JSON producer; JsonDeserializer removes __TypeId__, and the "+
		"JsonSerializer of the recoverer adds it again behind all others", "types", typed).
		springFacts(springListener, "java.lang.IllegalStateException").run(t)
}

func TestSpringKafkaSecondHop(t *testing.T) {
	s := springScenario("second-hop", "the dead letter fails again in a consumer of the dead-letter topic: the headers of the "+
		"second origin are appended, those of the exception are replaced; expect has the first origin and the last error",
		"listener", plainJSON, binary, nullKey).springFacts(springListener, "java.lang.IllegalStateException")
	s.topics = append(s.topics, s.topics[1]+"-dlt")
	s.run(t)
}

func TestSpringKafka4Recoverer(t *testing.T) {
	s := springScenario("v4-listener", "DeadLetterPublishingRecoverer with default settings; the listener throws", "listener",
		plainJSON, binary).springFacts(springListener, "java.lang.IllegalStateException")
	s.program = maven("spring-kafka", springKafka4, "Recoverer")
	s.run(t)
	s = springScenario("v4-value", "ErrorHandlingDeserializer of values with default settings; JsonDeserializer throws", "value",
		binary, broken).springFacts(springDecoding, springDecoding)
	s.program = maven("spring-kafka", springKafka4, "Recoverer")
	s.run(t)
}

// retryScenario is a listener with two retry topics.
func retryScenario(name, note, version, failure string, attempts int, samples ...sample) scenario {
	s := springScenario(name, note, failure, samples...)
	s.framework = "spring-retryable-topic"
	s.program = maven("spring-kafka", version, "RetryTopics")
	s.expect = func(original, deadLetter message) facts {
		f := origin("spring-retryable-topic", original)
		f.ConsumerGroup, f.Attempts = s.group(0), &attempts
		f.ErrorClass, f.CauseClass = springListener, "java.lang.IllegalStateException"
		f.ErrorMessage = deadLetter.text("kafka_exception-message")
		f.StackTrace = deadLetter.firstLine("kafka_exception-stacktrace")
		return f
	}
	return s
}

func TestSpringKafkaRetryTopics(t *testing.T) {
	const note = "RetryTopicConfiguration with two retry topics; the listener throws each of three times; the last " +
		"retry_topic-attempts is 4, because it counts the delivery from the dead-letter topic too"
	retryScenario("topics", note, springKafka, "listener", 3, allSamples()...).run(t)
	retryScenario("v4-topics", note, springKafka4, "listener", 3, plainJSON, binary).run(t)

	fatal := retryScenario("fatal", "ErrorHandlingDeserializer in a RetryTopicConfiguration: a value that cannot be deserialised "+
		"goes to the dead-letter topic at once", springKafka, "value", 1, plainJSON, binary)
	known := fatal.expect
	fatal.expect = func(original, deadLetter message) facts {
		f := known(original, deadLetter)
		f.ErrorClass, f.CauseClass = springDecoding, springDecoding
		return f
	}
	fatal.run(t)
}

func TestSpringKafkaRetryTopicsThenRecoverer(t *testing.T) {
	s := retryScenario("then-recoverer", "a listener of the dead-letter topic fails, and a DeadLetterPublishingRecoverer with default "+
		"settings writes the second dead letter; expect has the first origin and the last error", springKafka, "listener", 3,
		plainJSON, binary)
	s.topics = append(s.topics, s.topics[1]+"-dlt")
	recoverer := maven("spring-kafka", springKafka, "Recoverer")
	s.second = &recoverer
	known := s.expect
	s.expect = func(original, deadLetter message) facts {
		f := known(original, deadLetter)
		f.ErrorMessage = deadLetter.text("kafka_dlt-exception-message")
		f.StackTrace = deadLetter.firstLine("kafka_dlt-exception-stacktrace")
		return f
	}
	s.run(t)
}
