//go:build frameworks

package frameworks_test

import "testing"

const bakdata = "2.1.2"

// bakdataScenario is an application that captures errors and describes them in headers, with
// names that differ from those of Kafka Streams itself.
func bakdataScenario(name, note string, samples ...sample) scenario {
	return scenario{
		framework: "bakdata", name: name, note: note, program: maven("bakdata", bakdata, "Application"), samples: samples,
		topics: []string{"shop.bakdata." + name, "shop.bakdata." + name + ".dlq"},
	}
}

// bakdataFacts has the place that the last hop read, because later headers replace earlier ones.
func (s scenario) bakdataFacts() scenario {
	s.expect = func(original, deadLetter message) facts {
		f := origin("kafka-streams", original)
		f.TimestampMS = nil
		f.ErrorClass = "java.lang.IllegalStateException"
		f.ErrorMessage = deadLetter.text("__streams.errors.exception.message")
		f.StackTrace = deadLetter.firstLine("__streams.errors.exception.stack_trace")
		return f
	}
	return s
}

func TestBakdataErrorHandling(t *testing.T) {
	bakdataScenario("captured", "ErrorHeaderProcessor of com.bakdata.kafka:error-handling-core: the prefix is that of Kafka Streams, but "+
		"the class is in exception.class.name, the stack trace in exception.stack_trace, and there is a description",
		allSamples()...).bakdataFacts().run(t)
}

func TestBakdataSecondHop(t *testing.T) {
	s := bakdataScenario("second-hop", "ErrorHeaderProcessor of com.bakdata.kafka:error-handling-core; the dead letter fails again in an "+
		"application that reads the dead-letter topic, whose headers replace the first ones: no header names the first origin",
		plainJSON).bakdataFacts()
	s.topics = append(s.topics, s.topics[1]+".dlq")
	expect := s.expect
	s.expect = func(original, deadLetter message) facts {
		original.Topic, original.Partition, original.Offset = s.topics[1], 0, 0
		return expect(original, deadLetter)
	}
	s.run(t)
}
