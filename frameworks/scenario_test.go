//go:build frameworks

package frameworks_test

import (
	"bytes"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
)

// scenario is one way in which a framework writes dead letters. Each sample becomes a file of
// the corpus, whose name is those of framework, scenario and sample.
type scenario struct {
	framework string
	name      string
	note      string // for the file
	program   program
	samples   []sample
	// second is the program of the second hop, if it is not the same.
	second *program
	// topics are the source and its dead-letter topic. If there are more, each is the
	// dead-letter topic of the one before, and the program runs once for each hop.
	topics []string
	// deadLetterPartitions is 1 unless it is set.
	deadLetterPartitions int32
	deadLetterConfig     map[string]string
	// environment has settings for the program, beside BROKERS, SOURCE, DEAD_LETTERS and GROUP.
	environment []string
	// brokers are those of the shared Kafka unless they are set.
	brokers []string
	// lost are the headers of the original that the framework removes or changes. The note
	// says why.
	lost []string
	// lostKey and lostValue say that the dead letter has another one, and lostOrder that its
	// headers are in any order.
	lostKey, lostValue, lostOrder bool
	// lostRecord says that the dead letter has neither key nor value of the original.
	lostRecord bool
	// expect returns the facts that a dead letter tells about the original.
	expect func(original, deadLetter message) facts
}

// group is the consumer group of a hop.
func (s scenario) group(hop int) string {
	return s.framework + "-" + s.name + "-group-" + strconv.Itoa(hop+1)
}

// run runs the program and compares its dead letters with the corpus, or writes the corpus.
func (s scenario) run(t *testing.T) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		if s.brokers == nil {
			s.brokers = kafkatest.SharedCluster(t).Brokers()
		}
		originals, deadLetters := s.deadLetters(t)
		for i, sample := range s.samples {
			t.Run(sample.name, func(t *testing.T) {
				s.check(t, s.framework+"-"+s.name+"-"+sample.name, originals[i], deadLetters[i])
			})
		}
	})
}

func (s scenario) deadLetters(t *testing.T) (originals, deadLetters []message) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	createTopic(t, admin, s.topics[0], partitions, nil)
	for _, topic := range s.topics[1:] {
		createTopic(t, admin, topic, max(1, s.deadLetterPartitions), s.deadLetterConfig)
	}
	produceSamples(t, client, s.topics[0], s.samples)
	originals = read(t, s.brokers, s.topics[0], len(s.samples), nil)
	for hop := range len(s.topics) - 1 {
		program := s.program
		if hop > 0 && s.second != nil {
			program = *s.second
		}
		run := program.start(t, append([]string{
			"BROKERS=" + s.brokers[0], "GROUP=" + s.group(hop), "SOURCE=" + s.topics[hop], "DEAD_LETTERS=" + s.topics[hop+1],
		}, s.environment...))
		deadLetters = read(t, s.brokers, s.topics[hop+1], len(s.samples), run)
		run.stop()
	}
	return originals, deadLetters
}

func (s scenario) check(t *testing.T, name string, original, deadLetter message) {
	t.Helper()
	requireKeptOrLost(t, original.Key, deadLetter.Key, s.lostRecord || s.lostKey)
	requireKeptOrLost(t, original.Value, deadLetter.Value, s.lostRecord || s.lostValue)
	s.requireHeaders(t, original.Headers, deadLetter.Headers)
	now := entry{
		Framework: s.framework, Version: s.program.version, Recorded: true, Note: s.note,
		DeadLetter: deadLetter, Original: original, Lost: s.lost, LostRecord: s.lostRecord,
		LostKey: s.lostKey && original.Key != nil, LostValue: s.lostValue && original.Value != nil, LostOrder: s.lostOrder,
		Expect: s.expect(original, deadLetter),
	}
	if *record {
		writeEntry(t, name, now)
		return
	}
	requireSameShape(t, name, now)
}

func requireKeptOrLost(t *testing.T, original, deadLetter []byte, lost bool) {
	t.Helper()
	if !lost || original == nil { // a null cannot be lost
		require.Equal(t, original, deadLetter)
		return
	}
	require.NotEqual(t, original, deadLetter)
}

// requireHeaders requires the original's headers in the dead letter, but for the lost.
func (s scenario) requireHeaders(t *testing.T, original, deadLetter []header) {
	t.Helper()
	for _, h := range original {
		if slices.Contains(s.lost, h.Key) {
			require.NotEqual(t, named(original, h.Key), named(deadLetter, h.Key), "%s is not lost", h.Key)
			continue
		}
		at := slices.IndexFunc(deadLetter, func(other header) bool {
			return h.Key == other.Key && (h.Value == nil) == (other.Value == nil) && bytes.Equal(h.Value, other.Value)
		})
		require.GreaterOrEqual(t, at, 0, "%s is lost, or not in order", h.Key)
		if !s.lostOrder {
			deadLetter = deadLetter[at+1:]
		}
	}
}

func named(headers []header, name string) []header {
	return slices.DeleteFunc(slices.Clone(headers), func(h header) bool { return h.Key != name })
}

// origin returns facts with the place and the time of the original.
func origin(family string, original message) facts {
	return facts{
		Family: family, Topic: original.Topic, Partition: &original.Partition, Offset: &original.Offset,
		TimestampMS: &original.TimestampMS,
	}
}
