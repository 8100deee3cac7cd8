//go:build frameworks

package frameworks_test

import (
	"strconv"
	"testing"

	"dlqmanager/internal/kafkatest"
)

// shareScenario is a share group with a dead-letter topic, which the broker writes to.
func shareScenario(name, note string, acknowledge string, copied bool, samples ...sample) scenario {
	s := scenario{
		framework: "kafka-share-group", name: name, note: note, program: maven("share-group", kafkatest.Newest, "ShareConsumer"),
		samples: samples, topics: []string{"shop.share." + name, "dlq.shop.share." + name},
		deadLetterConfig: map[string]string{"errors.deadletterqueue.group.enable": "true"},
		environment:      []string{"ACKNOWLEDGE=" + acknowledge, "COPY=" + strconv.FormatBool(copied)},
		lost:             []string{"traceparent", "route", "x-correlation-id", "empty", "nothing", "binary"},
		lostRecord:       !copied,
	}
	s.expect = func(original, deadLetter message) facts {
		f := origin("kafka-share-group", original)
		f.TimestampMS = nil
		f.ConsumerGroup = s.group(0)
		if attempts, err := strconv.Atoi(deadLetter.text("__dlq.errors.delivery.count")); err == nil {
			f.Attempts = &attempts
		}
		f.ErrorMessage = deadLetter.text("__dlq.errors.message")
		return f
	}
	return s
}

func TestKafkaShareGroup(t *testing.T) {
	server := kafkatest.RealClusterOfVersion(t, kafkatest.Newest,
		"share.coordinator.state.topic.num.partitions=1",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1")
	for _, s := range []scenario{
		shareScenario("rejected", "errors.deadletterqueue.copy.record.enable=false, the default: the broker copies neither headers nor key nor "+
			"value; the consumer rejects the record",
			"REJECT", false, plainJSON, binary),
		shareScenario("copied", "errors.deadletterqueue.copy.record.enable=true: the broker copies key and value, but no header; the consumer "+
			"rejects the record",
			"REJECT", true, allSamples()...),
		shareScenario("exhausted", "errors.deadletterqueue.copy.record.enable=true: the broker copies key and value, but no header; the "+
			"consumer releases the record until it was delivered five times", "RELEASE", true, plainJSON, binary),
	} {
		s.brokers = server.Brokers()
		s.run(t)
	}
}
