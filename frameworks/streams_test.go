//go:build frameworks

package frameworks_test

import "testing"

const streams = "4.3.1" // 4.2 is the first with errors.dead.letter.queue.topic.name

// streamsScenario is an application whose handlers log and continue.
func streamsScenario(name, note, failure string, samples ...sample) scenario {
	return scenario{
		framework: "kafka-streams", name: name, note: note, program: maven("streams", streams, "Application"), samples: samples,
		topics:      []string{"shop.streams." + name, "shop.streams." + name + ".dlq"},
		environment: []string{"FAILURE=" + failure},
		expect: func(original, deadLetter message) facts {
			f := origin("kafka-streams", original)
			f.TimestampMS = nil
			f.ErrorClass = deadLetter.text("__streams.errors.exception")
			f.ErrorMessage = deadLetter.text("__streams.errors.message")
			f.StackTrace = deadLetter.firstLine("__streams.errors.stacktrace")
			return f
		},
	}
}

func TestKafkaStreams(t *testing.T) {
	streamsScenario("processing", "errors.dead.letter.queue.topic.name with the handlers that log and continue; a processor throws",
		"processing", allSamples()...).run(t)
	streamsScenario("deserialization", "errors.dead.letter.queue.topic.name with the handlers that log and continue; "+
		"IntegerDeserializer throws", "deserialization", plainJSON, binary, nullKey).run(t)
	streamsScenario("no-message", "the exception has no message, so the header is null", "no-message", plainJSON).run(t)
}

func TestKafkaStreamsSecondHop(t *testing.T) {
	s := streamsScenario("second-hop", "an application that reads the dead-letter topic fails too: the headers of the second hop "+
		"are appended; expect has the first origin and the last error", "processing", plainJSON, binary)
	s.topics = append(s.topics, s.topics[1]+".dlq")
	s.run(t)
}
