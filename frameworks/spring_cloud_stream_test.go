//go:build frameworks

package frameworks_test

import "testing"

const springCloudStream = "5.0.2"

// streamScenario is a function whose binding has enableDlq and the default name of its topic.
func streamScenario(name, note string, hops int, samples ...sample) scenario {
	s := scenario{
		framework: "spring-cloud-stream", name: name, note: note,
		program: maven("spring-cloud-stream", springCloudStream, "Binder"), samples: samples, deadLetterPartitions: partitions,
		topics: []string{"shop.stream." + name},
	}
	for hop := range hops {
		s.topics = append(s.topics, "error."+s.topics[hop]+"."+s.group(hop))
	}
	s.expect = func(original, deadLetter message) facts {
		f := origin("spring-cloud-stream", original)
		f.ErrorClass = deadLetter.text("x-exception-fqcn")
		f.ErrorMessage = deadLetter.text("x-exception-message")
		f.StackTrace = deadLetter.firstLine("x-exception-stacktrace")
		return f
	}
	return s
}

func TestSpringCloudStream(t *testing.T) {
	streamScenario("listener", "enableDlq of the Kafka binder; the function throws each of three times", 1, allSamples()...).run(t)
	streamScenario("second-hop", "enableDlq of a function that reads the dead-letter topic; "+
		"expect has the first origin and the last error", 2, plainJSON, binary).run(t)
}
