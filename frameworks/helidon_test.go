//go:build frameworks

package frameworks_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

const helidon = "3.2.0" // version 4 needs Java 21

// helidonScenario is a channel that refuses all messages, with nack-dlq.
func helidonScenario(name, note string, samples ...sample) scenario {
	return scenario{
		framework: "helidon", name: name, note: note, program: maven("helidon", helidon, "Orders"), samples: samples,
		topics: []string{"shop.helidon." + name, "shop.helidon." + name + ".dlq"},
		expect: func(original, _ message) facts {
			f := origin("helidon", original)
			f.TimestampMS = nil
			f.ErrorClass, f.ErrorMessage = "java.lang.IllegalStateException", "order refused"
			return f
		},
	}
}

func TestHelidon(t *testing.T) {
	helidonScenario("nack", "nack-dlq; Helidon also adds a header topic, with the name of the dead-letter topic; it cannot read a null value",
		plainJSON, binary, nullKey, empty).run(t)
	own := plainJSON
	own.headers = []kgo.RecordHeader{{Key: "topic", Value: []byte("pets")}}
	s := helidonScenario("topic", "nack-dlq; Helidon replaces a header topic of the original", own)
	s.lost = []string{"topic"}
	s.run(t)
}

func TestHelidonSecondHop(t *testing.T) {
	s := helidonScenario("second-hop", "nack-dlq; the dead letter fails again in a consumer of the dead-letter topic: the headers of the second "+
		"hop are appended; expect has the first origin and the last error", plainJSON, binary)
	s.topics = append(s.topics, s.topics[1]+".dlq")
	s.run(t)
}
