package kafka

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
)

// specimen is a file of the corpus: a dead letter that a framework wrote, and the record
// on which its consumer failed. See frameworks/README.md.
type specimen struct {
	Framework, Version, Note string
	Recorded                 bool
	DeadLetter               corpusRecord `json:"dead_letter"`
	Original                 corpusRecord `json:"original"`
	// Lost are headers of the original that the framework has removed or changed for good.
	// LostKey, LostValue and LostOrder say that it has also lost the key, the value, or the order
	// of the headers.
	Lost      []string
	LostKey   bool `json:"lost_key"`
	LostValue bool `json:"lost_value"`
	LostOrder bool `json:"lost_order"`
	Expect    struct {
		Family           string `json:"family"`
		Topic            string `json:"topic"`
		Partition        *int32 `json:"partition"`
		Offset           *int64 `json:"offset"`
		TimestampMS      int64  `json:"timestamp_ms"`
		ConsumerGroup    string `json:"consumer_group"`
		ErrorClass       string `json:"error_class"`
		CauseClass       string `json:"cause_class"`
		ErrorMessage     string `json:"error_message"`
		StackTraceStarts string `json:"stack_trace_starts"`
		Attempts         int    `json:"attempts"`
	} `json:"expect"`
}

type corpusRecord struct {
	Topic       string
	Partition   int32
	Offset      int64
	TimestampMS int64 `json:"timestamp_ms"`
	Key, Value  []byte
	Headers     []struct {
		Key   string
		Value []byte
	}
}

func (r *corpusRecord) record() *kgo.Record {
	k := &kgo.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: time.UnixMilli(r.TimestampMS), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return k
}

func corpus(t *testing.T) map[string]*specimen {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	all := map[string]*specimen{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		s := &specimen{}
		require.NoError(t, json.Unmarshal(text, s), file)
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = s
	}
	return all
}

func corpusArrival(t *testing.T, s *specimen) dlq.Arrival {
	t.Helper()
	topics, err := dlq.NewTopics([]string{"*.dlq", "*-dlt", "*.DLT", "error.*", s.DeadLetter.Topic}, nil)
	require.NoError(t, err)
	a := ArrivalOf(topics, nil, 3, [16]byte{1}, s.DeadLetter.record())
	return a.Storable()
}

func TestTheOriginAndTheErrorOfEveryFrameworkAreRead(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name, s := range corpus(t) {
		seen[s.Expect.Family] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := s.Expect, corpusArrival(t, s).Failure
			require.Equal(t, want.Family, got.Origin.Family)
			require.Equal(t, want.Topic, got.Origin.Topic)
			require.Equal(t, want.Partition, got.Origin.Partition)
			require.Equal(t, want.Offset, got.Origin.Offset)
			if want.TimestampMS == 0 {
				require.Zero(t, got.Origin.Timestamp)
			} else {
				require.Equal(t, want.TimestampMS, got.Origin.Timestamp.UnixMilli())
			}
			require.Equal(t, want.ConsumerGroup, got.Origin.ConsumerGroup)
			require.Equal(t, want.ErrorClass, got.ErrorClass)
			require.Equal(t, want.CauseClass, got.CauseClass)
			if want.ErrorMessage == "" {
				want.ErrorMessage = dlq.UnknownError
			}
			require.Equal(t, want.ErrorMessage, got.ErrorMessage)
			firstLine, _, _ := strings.Cut(got.StackTrace, "\n")
			require.Equal(t, want.StackTraceStarts, firstLine)
			require.Equal(t, want.Attempts, got.Attempts)
			require.Equal(t, s.LostValue, got.Suspicion != "", got.Suspicion)
		})
	}
	for i := range families {
		require.True(t, seen[families[i].name], "no dead letter of %s", families[i].name)
	}
	require.True(t, seen[familyThisSystem] && seen[familyTopicName])
}

func TestWhatIsSentBackIsTheRecordThatTheConsumerFailedOn(t *testing.T) {
	t.Parallel()
	for name, s := range corpus(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := corpusArrival(t, s)
			envelope := dlq.Envelope{ID: a.ID, OriginalTopic: a.Origin.Topic, RetryCount: 1, Record: a.Record}
			sent := outgoing(&envelope, ownRecord(&envelope.Record), "original")
			if pointedBy(&envelope) != nil {
				original := recordOf(s.Original.record())
				sent = outgoing(&envelope, ownPointed(original), "original")
			}
			want, isLost := s.Original.record(), func(h kgo.RecordHeader) bool { return slices.Contains(s.Lost, h.Key) }
			want.Headers, sent.Headers = slices.DeleteFunc(want.Headers, isLost), slices.DeleteFunc(sent.Headers, isLost)
			if s.LostKey {
				want.Key = nil
			}
			want.Headers = append(want.Headers, kgo.RecordHeader{Key: "dlq-message-id", Value: []byte(a.ID.String())},
				kgo.RecordHeader{Key: "dlq-retry-count", Value: []byte("1")})
			require.Equal(t, s.Expect.Topic, sent.Topic)
			require.Equal(t, want.Key, sent.Key)
			if !s.LostValue {
				require.Equal(t, want.Value, sent.Value)
			}
			if s.LostOrder {
				require.ElementsMatch(t, want.Headers, sent.Headers)
			} else {
				require.Equal(t, want.Headers, sent.Headers)
			}
		})
	}
}
