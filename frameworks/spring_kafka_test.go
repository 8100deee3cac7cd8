//go:build frameworks

package frameworks_test

import "testing"

const (
	springKafka    = "3.3.16"
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
		f.ErrorMessage = deadLetter.text("kafka_dlt-exception-message")
		f.StackTrace = deadLetter.firstLine("kafka_dlt-exception-stacktrace")
		return f
	}
	return s
}

func TestSpringKafkaRecoverer(t *testing.T) {
	springScenario("listener", "DeadLetterPublishingRecoverer with default settings; the listener throws", "listener",
		allSamples()...).springFacts(springListener, "java.lang.IllegalStateException").run(t)
}
