package demo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq/fingerprint"
)

func TestFailuresWithOneCauseAreOneGroup(t *testing.T) {
	t.Parallel()
	type cause struct{ topic, scope, class string }
	groups := map[cause]map[string]string{}
	for n := 1; n <= 240; n++ {
		r := newEvent(7, n)
		_, _, f := process(r)
		framework := familyOf(r.Topic, n)
		if f == nil || framework.name == "Karafka" { // no error
			continue
		}
		fp := fingerprint.Of(fingerprintFields(deadLetter(r, framework, *f, "shop")))
		c := cause{r.Topic, fp.Scope, f.class}
		if groups[c] == nil {
			groups[c] = map[string]string{}
		}
		groups[c][string(fp.Key[:])] = framework.name + ": " + fp.Class + " " + fp.Frame + " " + fp.Message
	}
	require.Len(t, groups, 10)
	keys := map[string]cause{}
	for c, members := range groups {
		require.Len(t, members, 1, "%v: %v", c, members)
		for key := range members {
			require.NotContains(t, keys, key, "%v", c)
			keys[key] = c
		}
	}
}

// fingerprintFields reads the headers of all families but Karafka, which has none.
func fingerprintFields(letter *kgo.Record) fingerprint.Failure {
	f := fingerprint.Failure{DLQTopic: letter.Topic}
	for _, h := range letter.Headers {
		value := string(h.Value)
		switch {
		case h.Key == "kafka_dlt-original-consumer-group" && f.ConsumerGroup == "", h.Key == "__dlq.errors.group":
			f.ConsumerGroup = value
		case strings.HasSuffix(h.Key, "cause-fqcn"), h.Key == "dead-letter-cause-class-name":
			f.CauseClass = value
		case strings.HasSuffix(h.Key, "-fqcn"), strings.HasSuffix(h.Key, "exception.class.name"), strings.HasSuffix(h.Key, "exception-class"),
			strings.HasSuffix(h.Key, "exception-class-name"), h.Key == "__streams.errors.exception":
			f.ErrorClass = value
		case strings.HasSuffix(h.Key, "stacktrace"):
			f.StackTrace = value
		case strings.HasSuffix(h.Key, "message"), h.Key == "dead-letter-reason", h.Key == "reason_poisoned", h.Key == "error":
			f.Message = value
		}
	}
	return f
}
