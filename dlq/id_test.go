package dlq_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestNewIDsGrowAndAreVersion7UUIDs(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMilli()
	last := ""
	for range 10_000 {
		s := dlq.NewID().String()
		require.Greater(t, s, last)
		require.Equal(t, byte('7'), s[14])
		require.Contains(t, "89ab", string(s[19]))
		last = s
	}
	id, err := dlq.ParseID(last)
	require.NoError(t, err)
	millis := int64(0)
	for _, b := range id[:6] {
		millis = millis<<8 | int64(b)
	}
	require.GreaterOrEqual(t, millis, before)
	require.LessOrEqual(t, millis, time.Now().UnixMilli()+10)
}

func TestNewIDsAreUniqueAcrossGoroutines(t *testing.T) {
	t.Parallel()
	var seen sync.Map
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 2000 {
				_, twice := seen.LoadOrStore(dlq.NewID(), true)
				if twice {
					t.Error("the same id twice")
				}
			}
		})
	}
	group.Wait()
}

func TestParseIDAcceptsOnlyTheCanonicalForm(t *testing.T) {
	t.Parallel()
	const canonical = "550e8400-e29b-41d4-a716-446655440000"
	id, err := dlq.ParseID(strings.ToUpper(canonical))
	require.NoError(t, err)
	require.Equal(t, canonical, id.String())
	for _, bad := range []string{
		"", "not-a-uuid", "550e8400e29b41d4a716446655440000", "{" + canonical + "}", "urn:uuid:" + canonical,
		canonical + " ", canonical[:35], "550e8400-e29b-41d4-a716-44665544000g", "550e8400-e29b-41d4-a7164-46655440000",
	} {
		_, err := dlq.ParseID(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestIDIsItsCanonicalFormInJSON(t *testing.T) {
	t.Parallel()
	id := dlq.NewID()
	text, err := json.Marshal(id)
	require.NoError(t, err)
	require.Equal(t, `"`+id.String()+`"`, string(text))
	var back dlq.ID
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, id, back)
	require.Error(t, json.Unmarshal([]byte(`"nope"`), &back))
}

func TestTheIDOfARecordFollowsFromItsSourceAndItsTimestamp(t *testing.T) {
	t.Parallel()
	source := dlq.Source{TopicID: [16]byte{1, 2}, Partition: 3, Offset: 1 << 40}
	at := time.UnixMilli(1_700_000_000_123)
	id := dlq.RecordID(source, at)
	// If this id changed, every record of every topic would be stored a second time.
	require.Equal(t, "018bcfe5-687b-8b96-a90a-9e925ebec9a6", id.String())
	parsed, err := dlq.ParseID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, parsed)
	require.Equal(t, id, dlq.RecordID(source, at.UTC().Add(999*time.Microsecond)), "Kafka counts in milliseconds")

	others := map[dlq.ID]bool{id: true}
	for _, other := range []dlq.Source{
		{TopicID: [16]byte{1, 3}, Partition: 3, Offset: 1 << 40},
		{TopicID: [16]byte{1, 2}, Partition: 4, Offset: 1 << 40},
		{TopicID: [16]byte{1, 2}, Partition: 3, Offset: 1<<40 + 1},
	} {
		others[dlq.RecordID(other, at)] = true
	}
	for _, other := range []time.Time{at.Add(time.Millisecond), {}, time.UnixMilli(-1), time.UnixMilli(1 << 62)} {
		others[dlq.RecordID(source, other)] = true
	}
	require.Len(t, others, 8)
	require.Less(t, id.String(), dlq.RecordID(source, at.Add(time.Second)).String(), "ids grow with time")
}
