package fingerprint_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/fingerprint"
)

// labelled is a failure of a corpus with the cause that a person gave it.
type labelled struct {
	Cause         string `json:"cause"`
	Why           string `json:"why"` // why it is a cause of its own, at its first failure
	Language      string `json:"language"`
	ConsumerGroup string `json:"consumer_group"`
	DLQTopic      string `json:"dlq_topic"`
	ErrorClass    string `json:"error_class"`
	CauseClass    string `json:"cause_class"`
	ErrorMessage  string `json:"error_message"`
	StackTrace    string `json:"stack_trace"`
}

func (l *labelled) fingerprint() fingerprint.Fingerprint {
	return fingerprint.Of(fingerprint.Failure{
		ConsumerGroup: l.ConsumerGroup, DLQTopic: l.DLQTopic, ErrorClass: l.ErrorClass, CauseClass: l.CauseClass,
		Message: l.ErrorMessage, StackTrace: l.StackTrace,
	})
}

// The precision was 0.99 while the JVM's texts about a null counted. docs/groups.md says why they no longer count.
func TestFailuresOfOneCauseShareAKey(t *testing.T) {
	t.Parallel()
	measureCorpus(t, "corpus", 0.96, 0.99)
}

// These failures were labelled by people who had not seen the rules. Since then, the rules were changed to fit them.
func TestFailuresThatOtherPeopleLabelledShareAKey(t *testing.T) {
	t.Parallel()
	measureCorpus(t, "development", 0.97, 0.97)
}

// The people who labelled these failures had not seen the rules, and the rules were never changed to fit these failures. So
// the results show the precision and recall to expect for other people's failures.
func TestUnseenFailuresShareAKey(t *testing.T) {
	t.Parallel()
	measureCorpus(t, "unseen", 0.95, 0.95)
}

func TestLineEndsAndLineNumbersDoNotMatter(t *testing.T) {
	t.Parallel()
	numbers := regexp.MustCompile(`(\.(?:java|kt|go|py|cs|rb):|, line |:(?:line|Zeile|ligne) )[0-9]+`)
	for _, l := range readCorpus(t, "corpus") {
		before := l.fingerprint()
		stack := strings.ReplaceAll(numbers.ReplaceAllString(l.StackTrace, "${1}7"), "\r\n", "\n")
		l.StackTrace = strings.ReplaceAll(stack, "\n", "\r\n")
		l.ErrorMessage = numbers.ReplaceAllString(l.ErrorMessage, "${1}7")
		after := l.fingerprint()
		require.Equal(t, describe(&before), describe(&after), "%s: %s", l.Cause, l.StackTrace)
	}
}

func TestOneMoreWrapperDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, l := range readCorpus(t, "corpus") {
		if l.Language != "java" || !strings.HasPrefix(l.StackTrace, wrapper) {
			continue
		}
		before := l.fingerprint()
		l.ErrorClass, l.CauseClass, l.ErrorMessage = "org.springframework.kafka.KafkaException", wrapper, "Seek to current after exception"
		l.StackTrace = l.ErrorClass + ": " + l.ErrorMessage + "\n\tat org.springframework.kafka.listener.SeekUtils.seekOrRecover(SeekUtils.java:1)\nCaused by: " + l.StackTrace
		after := l.fingerprint()
		if !strings.Contains(l.Cause, "script") { // its message looks like a stack trace, and no header has it now
			require.Equal(t, describe(&before), describe(&after), "%s: %s", l.Cause, l.StackTrace)
		}
	}
}

// measureCorpus requires a precision and a recall over the pairs of failures in a folder
// below testdata. Recall is the share of the pairs with one cause that share a key.
// Precision is the share of the pairs with one key that have one cause.
func measureCorpus(t *testing.T, folder string, leastPrecision, leastRecall float64) {
	t.Helper()
	failures := readCorpus(t, folder)
	keys := make([]fingerprint.Fingerprint, len(failures))
	byCause := map[string][]int{}
	for i := range failures {
		keys[i] = failures[i].fingerprint()
		byCause[failures[i].Cause] = append(byCause[failures[i].Cause], i)
	}
	require.GreaterOrEqual(t, len(byCause), 30)
	require.GreaterOrEqual(t, len(failures), 150)

	var sameCause, sameKey, both float64
	merged := map[string]bool{}
	for i := range failures {
		for j := range i {
			cause, key := failures[i].Cause == failures[j].Cause, keys[i].Key == keys[j].Key
			switch {
			case cause && key:
				sameCause, sameKey, both = sameCause+1, sameKey+1, both+1
			case cause:
				sameCause++
			case key:
				sameKey++
				merged[fmt.Sprintf("merged: %s and %s by %s", failures[j].Cause, failures[i].Cause, describe(&keys[i]))] = true
			}
		}
	}
	for m := range merged {
		t.Log(m)
	}
	logSplit(t, byCause, keys)
	precision, recall := both/sameKey, both/sameCause
	t.Logf("%s: %d failures, %d causes, precision %.4f, recall %.4f", folder, len(failures), len(byCause), precision, recall)
	require.GreaterOrEqual(t, precision, leastPrecision, "precision")
	require.GreaterOrEqual(t, recall, leastRecall, "recall")

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "groups.md"))
	require.NoError(t, err)
	row := regexp.MustCompile("(?m)^\\| `" + folder + "`, .* \\|$").FindString(string(page))
	want := fmt.Sprintf(" | %d | %d | %.2f | %.2f |", len(failures), len(byCause), precision, recall)
	require.True(t, strings.HasSuffix(row, want), "docs/groups.md has %q: let it end with %q", row, want)
}

func logSplit(t *testing.T, byCause map[string][]int, keys []fingerprint.Fingerprint) {
	t.Helper()
	for cause, members := range byCause {
		groups := map[[16]byte]string{}
		for _, i := range members {
			groups[keys[i].Key] = describe(&keys[i])
		}
		if len(groups) > 1 {
			t.Logf("split: %s", cause)
			for _, g := range groups {
				t.Logf("    %s", g)
			}
		}
	}
}

func describe(fp *fingerprint.Fingerprint) string {
	return fmt.Sprintf("%s[%s | %s | %s | %q]", fp.Rule, fp.Scope, fp.Class, fp.Frame, fp.Message)
}

func readCorpus(t *testing.T, folder string) []labelled {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.jsonl"))
	require.NoError(t, err)
	var failures []labelled
	for _, path := range paths {
		file, err := os.Open(path)
		require.NoError(t, err)
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var l labelled
			require.NoError(t, json.Unmarshal(lines.Bytes(), &l), path)
			failures = append(failures, l)
		}
		require.NoError(t, lines.Err())
		require.NoError(t, file.Close())
	}
	return failures
}
