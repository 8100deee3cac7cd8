package dlqtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// Random makes random records and the dead letters that frameworks make of them. The same
// seed makes the same records. Random is not safe for concurrent use.
type Random struct {
	*rand.Rand
	source *rand.ChaCha8
}

// NewRandom starts a sequence.
func NewRandom(seed uint64) *Random {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	source := rand.NewChaCha8(key)
	return &Random{Rand: rand.New(source), source: source}
}

// EnvSeed is the environment variable with the seed of the tests of random records.
const EnvSeed = "DLQ_ROUND_TRIP_SEED"

// Seed returns the seed in EnvSeed, or a new seed for each call. A failing test prints its seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(EnvSeed); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, EnvSeed)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d", EnvSeed, seed)
		}
	})
	return seed
}

// Letter is a record as its producer wrote it. All its headers must come back. So no header has a
// name that identifies a framework in mayFail.
type Letter struct {
	Own     dlq.Record
	mayFail []framework
}

func (l *Letter) exclude(names ...string) { l.mayFail = exceptFrameworks(l.mayFail, names...) }

// The largest records: bytes of a value, and number of headers.
const (
	LargestValue = 10 << 20
	MostHeaders  = 5000
)

// Letter makes a record. Most records are small. A few have up to LargestValue bytes or MostHeaders headers.
func (r *Random) Letter() Letter {
	size, headers := r.IntN(200), r.IntN(6)
	switch dice := r.IntN(1000); {
	case dice < 1:
		size = r.IntN(LargestValue)
	case dice < 10:
		size = r.IntN(1 << 20)
	case dice < 50:
		size = r.IntN(64 << 10)
	case dice < 200:
		size = r.IntN(4 << 10)
	}
	switch dice := r.IntN(1000); {
	case dice < 2:
		headers = r.IntN(MostHeaders)
	case dice < 50:
		headers = r.IntN(200)
	case dice < 400:
		headers = r.IntN(20)
	}
	return r.LetterOf(size, headers)
}

// LetterOf makes a record with this many headers and a value of about size bytes. A small value may be null or empty instead.
func (r *Random) LetterOf(size, headers int) Letter {
	l := Letter{Own: dlq.Record{Key: r.key(), Value: r.value(size)}, mayFail: frameworks}
	names := slices.Clone(nearMisses)
	switch r.IntN(10) {
	case 0: // names of this system, which count only when no framework is recognised
		l.exclude("this-system", "topic-name", "karafka-2.4")
		names = append(names, "error", "original_topic", "error", "original_topic")
	case 1: // two of the three names that show Karafka only together
		l.exclude("karafka", "karafka-2.4")
		names = append(names, "source_topic", "source_offset", "source_key", "source_attempts", "source_trace_id", "original_offset", "original_key")
	case 2: // names of SmallRye without the header of the reason, which SmallRye always writes
		l.exclude("smallrye", "smallrye-retry-topic")
		names = append(names, "dead-letter-topic", "dead-letter-cause", "deserialization-failure-key-data")
	}
	switch {
	case l.Own.Key == nil && l.Own.Value == nil: // a share group would write only a pointer to the record
		l.exclude("kafka-share-group")
	case l.Own.Key != nil && len(l.Own.Key) == 0: // Karafka 2.4 cannot tell an empty key from null
		l.exclude("karafka-2.4")
	}
	for range headers {
		l.Own.Headers = append(l.Own.Headers, dlq.Header{Key: r.headerName(names), Value: r.headerValue()})
	}
	return l
}

// Timestamp is a time of a producer's clock, which is sometimes wrong by decades.
func (r *Random) Timestamp() time.Time {
	if r.IntN(20) == 0 {
		return time.UnixMilli(r.Int64N(9_000_000_000_000)) // to the year 2255
	}
	return time.UnixMilli(1_767_225_600_000 + r.Int64N(1_000_000_000)) // January 2026
}

// Bytes are n bytes of any value.
func (r *Random) Bytes(n int) []byte {
	b := make([]byte, n)
	_, _ = r.source.Read(b) // never fails
	return b
}

func pick[T any](r *Random, list []T) T { return list[r.IntN(len(list))] }

func (r *Random) key() []byte {
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return r.Bytes(r.IntN(40))
	case 3:
		if r.IntN(50) == 0 {
			return r.Bytes(r.IntN(1 << 20))
		}
		return []byte(strings.Repeat("\x00", 1+r.IntN(5)))
	default:
		return fmt.Appendf(nil, "order-%d", r.IntN(500))
	}
}

func (r *Random) value(size int) []byte {
	switch r.IntN(12) {
	case 0:
		if size < 4<<10 {
			return nil
		}
	case 1:
		if size < 4<<10 {
			return []byte{}
		}
	case 2, 3: // JSON, but not in the form in which PostgreSQL keeps it
		encoded, _ := json.Marshal(r.text(size)) // a string can always be encoded
		return fmt.Appendf(nil, "{ \"b\":1.00,\"a\" : %s, \"b\":%d }\n", encoded, r.IntN(1000))
	case 4: // JSON that JSONB refuses
		return fmt.Appendf(nil, `{"a":"%s%s"}`, strings.Repeat("x", size), pick(r, []string{`\u0000`, `\ud800`}))
	case 5:
		return bytes.Repeat([]byte{byte(r.IntN(256))}, size)
	case 6: // Confluent's wire format
		return append([]byte{0, 0, 0, 0, byte(r.IntN(256))}, r.Bytes(size)...)
	case 7:
		return []byte(r.text(size))
	}
	return r.Bytes(size)
}

// text is valid UTF-8 of about this many bytes.
func (r *Random) text(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(pick(r, []string{"order ", "größe ", "注文", "🧾", "\n\tat com.shop.Order.pay(Order.java:42)", "'; --", "\"", "\\u0041"}))
	}
	return b.String()
}

func (r *Random) headerValue() []byte {
	switch r.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return []byte(r.text(r.IntN(60)))
	case 3:
		if r.IntN(500) == 0 {
			return r.Bytes(r.IntN(200 << 10))
		}
	}
	return r.Bytes(r.IntN(24))
}

func (r *Random) headerName(known []string) string {
	switch r.IntN(6) {
	case 0:
		return string(r.Bytes(r.IntN(12))) // also the empty name, and invalid UTF-8
	case 1:
		return fmt.Sprint("x-", r.IntN(10))
	default:
		return pick(r, known)
	}
}

// nearMisses are names that a record's own headers may have: ordinary names, and names
// that are nearly the names of a framework.
var nearMisses = []string{
	"", " ", "\x00", "\xff\xfe", "traceparent", "content-type", "X-Correlation-ID", "spring_json_header_types", "größe", "__TypeId__",
	"kafka_dlt", "kafka_dlt_original-topic", "Kafka_dlt-original-topic", " kafka_dlt-original-topic", "kafka_original", "kafka_exception",
	"kafka_originaltopic", "kafka_key-exception", "kafka_receivedTopic", "x-original-topics", "x-original-url", "x-original", "x-exception",
	"X-Original-Topic", "__connect.errors", "__connect.error.topic", "__streams.errors", "__dlq.errors", "_dlq.errors.topic", "dead-letter",
	"dead_letter-topic", "Dead-Letter-Topic", "topic_poisoned\x00", "poisoned", "topic_poison", "micronaut-kafka", "source_", "source",
	"source_topics", "errors", "Error", "error ", "original-topic", "original_topics", "retry_topic", "retry_topics-attempts", "delayed-retry",
	"dlq-message-ids", "dlq-message_id", "DLQ-Message-Id", "dlq-retry-count ", "dlq-retry", "springDeserializerException", "kafka_deliveryattempt",
}
