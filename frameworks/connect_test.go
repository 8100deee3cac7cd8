//go:build frameworks

package frameworks_test

import "testing"

const (
	connect       = "4.3.1"
	jsonConverter = "org.apache.kafka.connect.json.JsonConverter"
	byteConverter = "org.apache.kafka.connect.converters.ByteArrayConverter"
)

// connectScenario is a sink connector in standalone mode, with errors.tolerance=all.
func connectScenario(name, note, converter, contextHeaders string, samples ...sample) scenario {
	p := maven("connect", connect, "org.apache.kafka.connect.cli.ConnectStandalone")
	p.run = append(p.run, "worker.properties", "sink.properties")
	return scenario{
		framework: "kafka-connect", name: name, note: note, program: p, samples: samples,
		topics:      []string{"shop.connect." + name, "shop.connect." + name + ".dlq"},
		environment: []string{"CONVERTER=" + converter, "CONTEXT_HEADERS=" + contextHeaders},
	}
}

func (s scenario) connectFacts() scenario {
	s.expect = func(original, deadLetter message) facts {
		f := origin("kafka-connect", original)
		f.TimestampMS = nil
		f.ErrorClass = deadLetter.text("__connect.errors.exception.class.name")
		f.ErrorMessage = deadLetter.text("__connect.errors.exception.message")
		f.StackTrace = deadLetter.firstLine("__connect.errors.exception.stacktrace")
		return f
	}
	return s
}

func TestKafkaConnect(t *testing.T) {
	connectScenario("converter", "errors.deadletterqueue.context.headers.enable=true; JsonConverter throws", jsonConverter, "true",
		plainJSON, binary, nullKey, broken).connectFacts().run(t)
	connectScenario("task", "errors.deadletterqueue.context.headers.enable=true; the task reports the record", byteConverter, "true",
		allSamples()...).connectFacts().run(t)

	bare := connectScenario("no-context", "errors.deadletterqueue.context.headers.enable=false, the default: no header names the origin",
		byteConverter, "false", plainJSON, binary)
	bare.expect = func(original, _ message) facts { return facts{Family: "topic-name", Topic: original.Topic} }
	bare.run(t)
}

func TestKafkaConnectSecondHop(t *testing.T) {
	s := connectScenario("second-hop", "a sink connector of the dead-letter topic fails too: the headers of the second hop "+
		"are added; expect has the first origin and the last error", byteConverter, "true", plainJSON, binary).connectFacts()
	s.topics = append(s.topics, s.topics[1]+".dlq")
	s.run(t)
}
