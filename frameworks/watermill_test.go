//go:build frameworks

package frameworks_test

import (
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	watermill     = "1.5.1"
	watermillNote = "Watermill's metadata is a map: the order of the headers, all but the last of a repeated header, and the null of a " +
		"null header are lost; DefaultMarshaler writes no key"
)

// watermillScenario is a router with the poison queue. Its version is in watermill/go.mod.
func watermillScenario(name, note string, samples ...sample) scenario {
	binary := filepath.Join("target", "watermill")
	return scenario{
		framework: "watermill", name: name, note: note + watermillNote,
		program: program{
			folder: "watermill", version: watermill,
			build: []string{"go", "build", "-o", binary, "."}, run: []string{binary},
		},
		samples: samples, topics: []string{"shop.watermill." + name, "shop.watermill." + name + ".poison"},
		lost: []string{"route", "nothing"}, lostKey: true, lostOrder: true,
	}
}

// watermillFacts has the topic that the last hop read, because the poison queue replaces its headers.
func (s scenario) watermillFacts() scenario {
	s.expect = func(_, deadLetter message) facts {
		return facts{Family: "watermill", Topic: s.topics[len(s.topics)-2], ErrorMessage: deadLetter.text("reason_poisoned")}
	}
	return s
}

func TestWatermill(t *testing.T) {
	watermillScenario("poison", "PoisonQueue; the producer does not use Watermill, so _watermill_message_uuid is added and empty; ",
		allSamples()...).watermillFacts().run(t)
	own := plainJSON
	own.headers = []kgo.RecordHeader{{Key: "_watermill_message_uuid", Value: []byte("4a2e6f0e-52c8-4d0f-9f3a-0f0f4f1f2a3b")}}
	watermillScenario("uuid", "PoisonQueue; the producer uses Watermill, so _watermill_message_uuid belongs to the original; ",
		own).watermillFacts().run(t)
}

func TestWatermillRequeuer(t *testing.T) {
	s := watermillScenario("requeuer", "the message failed, a Requeuer sent it back to its topic, and it failed for good; ",
		plainJSON).watermillFacts()
	s.environment = []string{"REQUEUE=true"}
	expect, attempts := s.expect, 2
	s.expect = func(original, deadLetter message) facts {
		f := expect(original, deadLetter)
		f.Attempts = &attempts // _watermill_requeuer_retries is 1
		return f
	}
	s.run(t)
}

func TestWatermillSecondHop(t *testing.T) {
	s := watermillScenario("second-hop", "the dead letter fails again in a consumer of the poison topic, and the poison queue replaces "+
		"its headers: no header names the first origin; ", plainJSON, binary)
	s.topics = append(s.topics, s.topics[1]+".poison")
	s.watermillFacts().run(t)
}
