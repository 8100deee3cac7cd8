package dlq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/dlq/fingerprint"
	"dlqmanager/internal/dlqtest"
)

func failed(class, message string, headers ...dlq.Header) *dlq.Arrival {
	a := dlqtest.Arrival()
	a.ErrorClass, a.ErrorMessage, a.Record.Headers = class, message, headers
	return &a
}

func TestAHeaderNamesTheGroup(t *testing.T) {
	t.Parallel()
	var grouping *dlq.Grouping
	named := grouping.Fingerprint(failed("A", "x", dlq.Header{Key: dlq.DefaultGroupHeader, Value: []byte("no price")}))
	require.Equal(t, fingerprint.RuleExplicit, named.Rule)
	same := grouping.Fingerprint(failed("B", "y", dlq.Header{Key: dlq.DefaultGroupHeader, Value: []byte("old")},
		dlq.Header{Key: dlq.DefaultGroupHeader, Value: []byte("no price")}))
	require.Equal(t, named.Key, same.Key, "the last header counts")
	empty := grouping.Fingerprint(failed("A", "x", dlq.Header{Key: dlq.DefaultGroupHeader}))
	require.Equal(t, grouping.Fingerprint(failed("A", "x")).Key, empty.Key)

	none, err := dlq.NewGrouping("", nil)
	require.NoError(t, err)
	require.NotEqual(t, fingerprint.RuleExplicit,
		none.Fingerprint(failed("A", "x", dlq.Header{Key: dlq.DefaultGroupHeader, Value: []byte("no price")})).Rule)
}

func TestTheLongestRuleThatMatchesNamesTheGroup(t *testing.T) {
	t.Parallel()
	grouping, err := dlq.NewGrouping("", map[string]string{
		"*Timeout*":             "slow",
		"*Timeout*: *pricing*":  "pricing is slow",
		"shop.Odd$Error(1): ?x": "odd",
	})
	require.NoError(t, err)
	keyOf := func(class, cause, message string) [16]byte {
		a := failed(class, message)
		a.CauseClass = cause
		return grouping.Fingerprint(a).Key
	}
	slow, pricing := keyOf("a.TimeoutException", "", "x"), keyOf("a.TimeoutException", "", "call\nof pricing:8080")
	require.NotEqual(t, slow, pricing)
	require.Equal(t, slow, keyOf("Wrapper", "b.SocketTimeout", "y"), "the cause counts too")
	require.Equal(t, keyOf("shop.Odd$Error(1)", "", "1x"), keyOf("shop.Odd$Error(1)", "", "2x"))
	require.NotEqual(t, keyOf("shop.Odd$Error(1)", "", "1x"), keyOf("shop.Odd$Error(1)", "", "12x"))
}

func TestRulesThatAreRefused(t *testing.T) {
	t.Parallel()
	for glob, name := range map[string]string{"": "a", "**": "a", "?": "a", "a": ""} {
		_, err := dlq.NewGrouping("", map[string]string{glob: name})
		require.Error(t, err, glob)
	}
}

func TestAHugeMessageIsGrouped(t *testing.T) {
	t.Parallel()
	grouping, err := dlq.NewGrouping("", map[string]string{"*a*a*a*a*a*b": "never"})
	require.NoError(t, err)
	f := grouping.Fingerprint(failed("A", strings.Repeat("a", 10<<20)))
	require.NotEqual(t, fingerprint.RuleExplicit, f.Rule)
	require.False(t, dlq.GroupID(&f).IsZero())
}

func TestAFixPrecedesFailuresByOffset(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 20, 12, 0, 0, 0, time.UTC)
	fix := dlq.GroupFix{At: at, Ends: []dlq.EndOffset{{Topic: "orders", Partition: 0, Offset: 100}}}
	zero, seven, offset, end := int32(0), int32(7), int64(99), int64(100)
	for name, c := range map[string]struct {
		origin   dlq.Origin
		written  time.Time // of the dead letter
		precedes bool
	}{
		"before the end, stored later":          {dlq.Origin{Topic: "orders", Partition: &zero, Offset: &offset}, at.Add(time.Hour), false},
		"at the end":                            {dlq.Origin{Topic: "orders", Partition: &zero, Offset: &end}, at.Add(-time.Hour), true},
		"in a new partition":                    {dlq.Origin{Topic: "orders", Partition: &seven, Offset: &offset}, at.Add(-time.Hour), true},
		"in another topic, before":              {dlq.Origin{Topic: "shop", Partition: &zero, Offset: &end}, at.Add(-time.Hour), false},
		"in another topic, after":               {dlq.Origin{Topic: "shop", Partition: &zero, Offset: &end}, at.Add(time.Hour), true},
		"in a topic that was created again":     {dlq.Origin{Topic: "orders", Partition: &zero, Offset: &offset, Timestamp: at.Add(2 * time.Hour)}, at, true},
		"with a clock that is a little ahead":   {dlq.Origin{Topic: "orders", Partition: &zero, Offset: &offset, Timestamp: at.Add(time.Minute)}, at, false},
		"without an offset, written before":     {dlq.Origin{Topic: "orders"}, at.Add(-time.Hour), false},
		"without an offset, written after":      {dlq.Origin{Topic: "orders"}, at.Add(time.Hour), true},
		"without an offset, with an old origin": {dlq.Origin{Topic: "orders", Timestamp: at.Add(-time.Hour)}, at.Add(time.Hour), false},
	} {
		a := dlqtest.Arrival()
		a.Origin, a.Record.Timestamp = c.origin, c.written
		require.Equal(t, c.precedes, fix.Precedes(&a), name)
	}
}
