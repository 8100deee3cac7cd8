//go:build frameworks

package frameworks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

const corpus = "../kafka/testdata/corpus"

// entry is a file of the corpus: one dead letter, the record that failed, and the facts
// that its headers tell.
type entry struct {
	Framework  string   `json:"framework"`
	Version    string   `json:"version"`
	Recorded   bool     `json:"recorded"`
	Note       string   `json:"note"`
	DeadLetter message  `json:"dead_letter"`
	Original   message  `json:"original"`
	Lost       []string `json:"lost,omitempty"`
	LostRecord bool     `json:"lost_record,omitempty"` // neither key nor value is in the dead letter
	LostKey    bool     `json:"lost_key,omitempty"`    // the dead letter has another key
	LostValue  bool     `json:"lost_value,omitempty"`  // the dead letter has another value
	LostOrder  bool     `json:"lost_order,omitempty"`  // its headers are in any order
	Expect     facts    `json:"expect"`
}

// message is a record of Kafka, byte for byte.
type message struct {
	Topic       string   `json:"topic"`
	Partition   int32    `json:"partition"`
	Offset      int64    `json:"offset"`
	TimestampMS int64    `json:"timestamp_ms"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []header `json:"headers"`
}

type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// facts are read from the headers of a dead letter. An absent fact is unknown.
type facts struct {
	Family        string `json:"family"`
	Topic         string `json:"topic,omitempty"`
	Partition     *int32 `json:"partition,omitempty"`
	Offset        *int64 `json:"offset,omitempty"`
	TimestampMS   *int64 `json:"timestamp_ms,omitempty"`
	ConsumerGroup string `json:"consumer_group,omitempty"`
	ErrorClass    string `json:"error_class,omitempty"`
	CauseClass    string `json:"cause_class,omitempty"`
	ErrorMessage  string `json:"error_message,omitempty"`
	StackTrace    string `json:"stack_trace_starts,omitempty"`
	Attempts      *int   `json:"attempts,omitempty"`
}

func messageOf(r *kgo.Record) message {
	m := message{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TimestampMS: r.Timestamp.UnixMilli(),
		Key: r.Key, Value: r.Value, Headers: []header{},
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, header(h))
	}
	return m
}

// text returns the value of the last header with this name as text.
func (m message) text(name string) string {
	text := ""
	for _, h := range m.Headers {
		if h.Key == name {
			text = string(h.Value)
		}
	}
	return text
}

// firstLine returns the first line of that text.
func (m message) firstLine(name string) string {
	line, _, _ := strings.Cut(m.text(name), "\n")
	return strings.TrimSuffix(line, "\r")
}

func fileOf(name string) string { return filepath.Join(corpus, name+".json") }

func writeEntry(t *testing.T, name string, e entry) {
	t.Helper()
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(e))
	require.NoError(t, os.MkdirAll(corpus, 0o755))
	require.NoError(t, os.WriteFile(fileOf(name), []byte(text.String()), 0o644))
}

// requireSameShape compares with the committed entry.
func requireSameShape(t *testing.T, name string, now entry) {
	t.Helper()
	text, err := os.ReadFile(fileOf(name))
	require.NoError(t, err, "record it with -record")
	var committed entry
	require.NoError(t, json.Unmarshal(text, &committed))
	require.True(t, committed.Recorded)
	require.Equal(t, committed.Lost, now.Lost)
	require.Equal(t, committed.LostRecord, now.LostRecord)
	require.Equal(t, committed.LostKey, now.LostKey)
	require.Equal(t, committed.LostValue, now.LostValue)
	require.Equal(t, committed.LostOrder, now.LostOrder)
	require.Equal(t, committed.Framework, now.Framework)
	require.Equal(t, committed.Original, now.Original)
	want, got := shapeOf(committed.DeadLetter), shapeOf(now.DeadLetter)
	if now.LostOrder {
		slices.Sort(want)
		slices.Sort(got)
	}
	require.Equal(t, want, got)
	require.Equal(t, maskFacts(committed.Expect), maskFacts(now.Expect))
}

// shapeOf describes a record in lines that are the same in every run.
func shapeOf(m message) []string {
	lines := []string{"topic: " + m.Topic, "key: " + shape(m.Key), "value: " + shape(m.Value)}
	for _, h := range m.Headers {
		lines = append(lines, h.Key+": "+shape(h.Value))
	}
	return lines
}

func shape(value []byte) string {
	switch text := string(value); {
	case value == nil:
		return "null"
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Sprintf("%d bytes", len(value))
	case strings.Contains(text, "\n\tat "):
		return "stack trace: " + mask(text[:strings.IndexByte(text, '\n')])
	default:
		return fmt.Sprintf("text: %q", mask(text))
	}
}

var (
	lambda   = regexp.MustCompile(`\$\$Lambda[$/0-9a-fx]*`)
	objectID = regexp.MustCompile(`@[0-9a-f]{5,8}\b`) // of Java's Object.toString
	kafkaID  = regexp.MustCompile(`\b[0-9A-Za-z_-]{22}\b`)
	number   = regexp.MustCompile(`[0-9]+`)
)

// mask replaces the parts of a text that differ from run to run.
func mask(text string) string {
	text = lambda.ReplaceAllString(text, "$$$$Lambda")
	text = objectID.ReplaceAllString(text, "@#")
	text = kafkaID.ReplaceAllStringFunc(text, func(id string) string {
		if strings.ContainsAny(id, "0123456789") {
			return "<id>"
		}
		return id
	})
	return number.ReplaceAllString(text, "#")
}

func maskFacts(f facts) facts {
	f.ErrorMessage, f.StackTrace = mask(f.ErrorMessage), mask(f.StackTrace)
	return f
}
