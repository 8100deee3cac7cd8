//go:build frameworks

package frameworks_test

import "testing"

const smallrye = "4.36.0"

// smallryeScenario is a channel that refuses all messages, with a failure-strategy.
func smallryeScenario(name, note string, environment []string, samples ...sample) scenario {
	return scenario{
		framework: "smallrye", name: name, note: note, program: maven("smallrye", smallrye, "Orders"), samples: samples,
		topics: []string{"shop.smallrye." + name, "shop.smallrye." + name + ".dlq"}, environment: environment,
	}
}

func (s scenario) smallryeFacts(class, cause, text string) scenario {
	s.expect = func(original, _ message) facts {
		f := origin("smallrye", original)
		f.TimestampMS = nil
		f.ErrorClass, f.CauseClass, f.ErrorMessage = class, cause, text
		return f
	}
	return s
}

func TestSmallRyeDeadLetterQueue(t *testing.T) {
	smallryeScenario("cause", "failure-strategy dead-letter-queue; the exception has a cause", nil,
		allSamples()...).smallryeFacts("java.lang.IllegalStateException", "java.lang.IllegalArgumentException", "order refused").run(t)
	smallryeScenario("no-cause", "failure-strategy dead-letter-queue; the exception has no cause", []string{"CAUSE=none"},
		plainJSON).smallryeFacts("java.lang.IllegalStateException", "", "order refused").run(t)
}

func TestSmallRyeDeserializationFailure(t *testing.T) {
	const (
		note      = "failure-strategy dead-letter-queue, fail-on-deserialization-failure=false, IntegerDeserializer of "
		class     = "org.apache.kafka.common.errors.RecordDeserializationException"
		text      = "Size of data received by IntegerDeserializer is not 4"
		ofKeys    = "KEY=org.apache.kafka.common.serialization.IntegerDeserializer"
		ofValues  = "VALUE=org.apache.kafka.common.serialization.IntegerDeserializer"
		overwrite = ": when only the key cannot be deserialised, SmallRye writes the bytes of the key into the value, and the value is lost"
	)
	smallryeScenario("value", note+"values", []string{ofValues}, plainJSON, binary).smallryeFacts(class, "", text).run(t)
	smallryeScenario("both", note+"keys and of values", []string{ofKeys, ofValues}, plainJSON, binary).smallryeFacts(class, "", text).run(t)
	key := smallryeScenario("key", note+"keys"+overwrite, []string{ofKeys}, plainJSON, binary).smallryeFacts(class, "", text)
	key.lostValue = true
	key.run(t)
}

func TestSmallRyeSecondHop(t *testing.T) {
	s := smallryeScenario("second-hop", "failure-strategy dead-letter-queue; the dead letter fails again, without a cause, in a consumer of "+
		"the dead-letter topic: the headers of the second hop come before those of the first; expect has the first origin and the last error, "+
		"which has no cause", nil, plainJSON, binary, nullKey).smallryeFacts("java.lang.IllegalStateException", "", "order refused again")
	s.topics = append(s.topics, s.topics[1]+".dlq")
	s.run(t)
}

func TestSmallRyeDelayedRetry(t *testing.T) {
	s := smallryeScenario("delayed-retry", "failure-strategy delayed-retry-topic with two retry topics: delayed-retry-count is 2 after three "+
		"attempts; the first failure has a cause, the last has none", []string{"STRATEGY=delayed-retry-topic"},
		allSamples()...).smallryeFacts("java.lang.IllegalStateException", "", "order refused again")
	s.deadLetterPartitions = partitions
	expect, attempts := s.expect, 3
	s.expect = func(original, deadLetter message) facts {
		f := expect(original, deadLetter)
		f.TimestampMS, f.Attempts = &original.TimestampMS, &attempts
		return f
	}
	s.run(t)
}
