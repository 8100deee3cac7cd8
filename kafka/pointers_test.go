package kafka_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

// pointer is a dead letter of a share group whose broker does not copy records.
func pointer(topic string, partition int32, offset int64) dlq.Envelope {
	text := func(key, value string) dlq.Header { return dlq.Header{Key: key, Value: []byte(value)} }
	return dlq.Envelope{ID: dlq.NewID(), OriginalTopic: topic, RetryCount: 1, Record: dlq.Record{Headers: []dlq.Header{
		text("__dlq.errors.topic", topic), text("__dlq.errors.partition", strconv.Itoa(int(partition))),
		text("__dlq.errors.offset", strconv.FormatInt(offset, 10)), text("__dlq.errors.message", "rejected"),
	}}}
}

func originOf(topic string, partition int32, offset int64) dlq.Origin {
	return dlq.Origin{Topic: topic, Partition: &partition, Offset: &offset}
}

func TestRealPointersAreSentWithTheRecordThatTheyName(t *testing.T) {
	t.Parallel()
	brokers, s := kafkatest.SharedCluster(t).Brokers(), newScope(t)
	topic, a := s.topic("orders"), admin(t, brokers)
	createTopic(t, a, topic, 1)
	original := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("\xff\x00"), Timestamp: time.UnixMilli(1_700_000_000_000),
		Headers: []kgo.RecordHeader{{Key: "error", Value: []byte("of the application")}, {Key: "a"}, {Key: "a", Value: []byte{}}}}
	require.NoError(t, client(t, brokers).ProduceSync(deadline(t),
		&kgo.Record{Topic: topic, Value: []byte("before")}, original, &kgo.Record{Topic: topic, Value: []byte("after")}).FirstErr())

	o := s.options(brokers)
	fetched, err := kafka.NewLookup(o, testLog(t)).Fetch(deadline(t), originOf(topic, 0, 1), time.Time{})
	require.NoError(t, err)
	require.Equal(t, dlq.Record{Key: []byte("k"), Value: []byte("\xff\x00"), Timestamp: time.UnixMilli(1_700_000_000_000).UTC(), Headers: []dlq.Header{
		{Key: "error", Value: []byte("of the application")}, {Key: "a"}, {Key: "a", Value: []byte{}}}}, fetched)

	message := pointer(topic, 0, 1)
	errs := errorsOf(newPublisher(t, o).Publish(deadline(t), []dlq.Envelope{envelope(topic, "", "first"), message, envelope(topic, "", "last")}, dlq.OrderKey, nil))
	require.Equal(t, []error{nil, nil, nil}, errs)
	sent := read(t, brokers, topic, 6)
	require.Equal(t, "k", string(sent[4].Key))
	require.Equal(t, original.Value, sent[4].Value)
	require.Equal(t, append(original.Headers, kgo.RecordHeader{Key: "dlq-message-id", Value: []byte(message.ID.String())},
		kgo.RecordHeader{Key: "dlq-retry-count", Value: []byte("1")}), sent[4].Headers)
}

func TestRealPointersToRecordsThatAreGoneAreBadData(t *testing.T) {
	t.Parallel()
	brokers, s := kafkatest.SharedCluster(t).Brokers(), newScope(t)
	topic, a := s.topic("orders"), admin(t, brokers)
	createTopic(t, a, topic, 1)
	produce(t, brokers, topic, "v", 5)
	deleted := kadm.Offsets{}
	deleted.Add(kadm.Offset{Topic: topic, Partition: 0, At: 3})
	_, err := a.DeleteRecords(deadline(t), deleted)
	require.NoError(t, err)

	o := s.options(brokers)
	for _, offset := range []int64{0, 2, 1 << 40} {
		_, err = kafka.NewLookup(o, testLog(t)).Fetch(deadline(t), originOf(topic, 0, offset), time.Time{})
		require.ErrorIs(t, err, dlq.ErrGone, "offset %d", offset)
	}
	withoutOffset := pointer(topic, 0, 0)
	withoutOffset.Record.Headers = withoutOffset.Record.Headers[:1]
	for _, err := range errorsOf(newPublisher(t, o).Publish(deadline(t), []dlq.Envelope{pointer(topic, 0, 2), withoutOffset}, dlq.OrderNone, nil)) {
		var refused *dlq.DeliveryError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, dlq.CategoryBadData, refused.Category)
		require.ErrorIs(t, err, dlq.ErrGone)
	}
	require.Len(t, read(t, brokers, topic, 2), 2, "nothing was sent")

	_, err = kafka.NewLookup(o, testLog(t)).Fetch(deadline(t), originOf(topic, 7, 0), time.Time{})
	require.ErrorIs(t, err, dlq.ErrGone, "a partition disappears only with its topic")
	_, err = kafka.NewLookup(o, testLog(t)).Fetch(deadline(t), originOf(topic, 0, 4), time.UnixMilli(1))
	require.ErrorIs(t, err, dlq.ErrGone, "the record is later than the dead letter: the topic was re-created")
	_, err = kafka.NewLookup(o, testLog(t)).Fetch(deadline(t), originOf(s.topic("missing"), 0, 0), time.Time{})
	require.ErrorIs(t, err, kerr.UnknownTopicOrPartition)
}

// The messages of a key have an order, but no message waits for a pointer.
func TestRealPointersThatCannotBeReadDoNotStopOtherMessages(t *testing.T) {
	t.Parallel()
	brokers, s := kafkatest.SharedCluster(t).Brokers(), newScope(t)
	topic, other, a := s.topic("orders"), s.topic("other"), admin(t, brokers)
	createTopic(t, a, topic, 1)
	createTopic(t, a, other, 1)
	produce(t, brokers, topic, "v", 2)
	page := []dlq.Envelope{pointer(topic, 0, 9), pointer(topic, 0, 1), envelope(topic, "", "no key"), pointer(topic, 0, 99), envelope(topic, "k", "v")}
	elsewhere := pointer(topic, 0, 0)
	elsewhere.OriginalTopic = other // as if a header of another family named it
	page = append(page, elsewhere)
	errs := errorsOf(newPublisher(t, s.options(brokers)).Publish(deadline(t), page, dlq.OrderKey, nil))
	for i, gone := range []bool{true, false, false, true, false, false} {
		if !gone {
			require.NoError(t, errs[i], i)
			continue
		}
		var refused *dlq.DeliveryError
		require.ErrorAs(t, errs[i], &refused, i)
		require.True(t, refused.MessageOnly, "the target was not asked")
	}
	require.Nil(t, read(t, brokers, other, 1)[0].Value, "no record is copied into another topic")
}
