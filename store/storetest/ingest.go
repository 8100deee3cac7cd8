package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var ingest = map[string]func(*testing.T, fixture){
	"an empty batch stores nothing": func(t *testing.T, f fixture) {
		stored, err := f.StoreArrivals(t.Context(), nil)
		require.NoError(t, err)
		require.Zero(t, stored)
	},

	"the order of the batch is the order of arrival": func(t *testing.T, f fixture) {
		arrivals := dlqtest.Arrivals(300)
		// The order of arrival must follow neither ids nor offsets.
		for i := range arrivals[:150] {
			j := len(arrivals) - 1 - i
			arrivals[i], arrivals[j] = arrivals[j], arrivals[i]
		}
		stored, err := f.StoreArrivals(t.Context(), arrivals)
		require.NoError(t, err)
		require.Equal(t, 300, stored)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 300, OldestFirst: true})
		require.Equal(t, arrivalIDs(arrivals), ids(page.Messages))
	},

	"messages of a batch have the same time, the next batch has a later one": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(50)...)
		for _, m := range stored {
			require.Equal(t, stored[0].CreatedAt, m.CreatedAt)
		}
		require.True(t, f.store(dlqtest.Arrival())[0].CreatedAt.After(stored[0].CreatedAt))
	},

	"a known source is stored once": func(t *testing.T, f fixture) {
		first := dlqtest.Arrival()
		second := dlqtest.Arrival(dlqtest.Source(first.Source), dlqtest.Value("another"))
		f.store(first)
		stored, err := f.StoreArrivals(t.Context(), []dlq.Arrival{second, dlqtest.Arrival()})
		require.NoError(t, err)
		require.Equal(t, 1, stored)
		require.Equal(t, first.Record, f.detail(second.ID).Record)

		stored, err = f.StoreArrivals(t.Context(), []dlq.Arrival{first})
		require.NoError(t, err, "the same batch again, as after a lost response")
		require.Zero(t, stored)
	},

	"a source that is in a batch twice is stored once": func(t *testing.T, f fixture) {
		first := dlqtest.Arrival()
		stored, err := f.StoreArrivals(t.Context(), []dlq.Arrival{first, dlqtest.Arrival(dlqtest.Source(first.Source))})
		require.NoError(t, err)
		require.Equal(t, 1, stored)
		require.Equal(t, first.Record, f.detail(first.ID).Record)
	},

	"a topic that was created again is another source": func(_ *testing.T, f fixture) {
		first := dlqtest.Arrival()
		again := first.Source
		again.TopicID = [16]byte{0xff}
		f.store(first, dlqtest.Arrival(dlqtest.Source(again)))
	},

	"a source is stored once by concurrent writers": func(t *testing.T, f fixture) {
		const batch, writers = 50, 6
		sources := make([]dlq.Source, batch)
		for i, a := range dlqtest.Arrivals(batch) {
			sources[i] = a.Source
		}
		var group sync.WaitGroup
		var stored atomic.Int64
		failures := make([]error, writers)
		for w := range writers {
			group.Go(func() {
				arrivals := make([]dlq.Arrival, batch)
				for i := range arrivals {
					// Each writer has another order, since partitions come in any order.
					arrivals[i] = dlqtest.Arrival(dlqtest.Source(sources[(i*(2*w+1)+w*7)%batch]))
				}
				n, err := f.StoreArrivals(t.Context(), arrivals)
				stored.Add(int64(n))
				failures[w] = err
			})
		}
		group.Wait()
		for _, err := range failures {
			require.NoError(t, err)
		}
		require.EqualValues(t, batch, stored.Load())
		require.EqualValues(t, batch, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1}).Total)
	},

	"a source is known after its message was archived": func(t *testing.T, f fixture) {
		first := dlqtest.Arrival(dlqtest.Retries(3, 3))
		f.store(first)
		moved, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		require.EqualValues(t, 1, moved)
		stored, err := f.StoreArrivals(t.Context(), []dlq.Arrival{dlqtest.Arrival(dlqtest.Source(first.Source))})
		require.NoError(t, err)
		require.Zero(t, stored)
	},

	"positions move with the stored messages, and only from the position in the database": func(t *testing.T, f fixture) {
		zero, one := dlq.Partition{TopicID: dlqtest.TopicID, Number: 0}, dlq.Partition{TopicID: dlqtest.TopicID, Number: 1}
		positions := func() []dlq.Position {
			found, err := f.Positions(t.Context(), []dlq.Partition{one, zero})
			require.NoError(t, err)
			return found
		}
		require.Equal(t, []dlq.Position{dlq.Start, dlq.Start}, positions())
		advance := func(p dlq.Partition, from, to int64) dlq.Advance {
			return dlq.Advance{Partition: p, Topic: "orders.dlq", From: dlq.Position{Next: from}, To: dlq.Position{Next: to, Epoch: 7}}
		}
		arrivals := dlqtest.Arrivals(2)
		stored, err := f.Ingest(t.Context(), arrivals, []dlq.Advance{advance(zero, dlq.FromStart, 10), advance(one, dlq.FromStart, 3)})
		require.NoError(t, err)
		require.ElementsMatch(t, arrivalIDs(arrivals), stored)
		require.Equal(t, []dlq.Position{{Next: 3, Epoch: 7}, {Next: 10, Epoch: 7}}, positions())

		late := dlqtest.Arrival()
		for _, from := range []int64{2, 4} {
			_, err = f.Ingest(t.Context(), []dlq.Arrival{late}, []dlq.Advance{advance(zero, 10, 20), advance(one, from, 5)})
			require.ErrorIs(t, err, dlq.ErrPositionMoved, from)
		}
		unknown := dlq.Partition{TopicID: [16]byte{9}}
		_, err = f.Ingest(t.Context(), []dlq.Arrival{late}, []dlq.Advance{advance(unknown, dlq.FromStart, 5)})
		require.ErrorIs(t, err, dlq.ErrPositionMoved, "a restore may have removed it")
		require.Equal(t, []dlq.Position{{Next: 3, Epoch: 7}, {Next: 10, Epoch: 7}}, positions())
		_, err = f.Message(t.Context(), late.ID)
		require.ErrorIs(t, err, dlq.ErrNotFound)

		stored, err = f.Ingest(t.Context(), []dlq.Arrival{arrivals[0], late}, []dlq.Advance{advance(zero, 10, 4)})
		require.NoError(t, err, "back, after an unclean election")
		require.Equal(t, []dlq.ID{late.ID}, stored)
		require.Equal(t, []dlq.Position{{Next: 3, Epoch: 7}, {Next: 4, Epoch: 7}}, positions())
	},

	"one of several readers of a partition moves its position": func(t *testing.T, f fixture) {
		partition := dlq.Partition{TopicID: dlqtest.TopicID, Number: 5}
		_, err := f.Positions(t.Context(), []dlq.Partition{partition})
		require.NoError(t, err)
		var moved atomic.Int64
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				_, err := f.Ingest(t.Context(), dlqtest.Arrivals(10), []dlq.Advance{
					{Partition: partition, Topic: "orders.dlq", From: dlq.Start, To: dlq.Position{Next: int64(i)}}})
				if err == nil {
					moved.Add(1)
				} else {
					assert.ErrorIs(t, err, dlq.ErrPositionMoved)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, moved.Load())
		require.EqualValues(t, 10, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1}).Total)
	},

	"offsets that Kafka deleted are counted for their topic": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival())
		topic := func() dlq.TopicSummary {
			found, err := f.Topics(t.Context())
			require.NoError(t, err)
			require.Len(t, found, 1)
			return found[0]
		}
		require.Zero(t, topic().Lost)
		require.Nil(t, topic().LostAt)
		partition := dlq.Partition{TopicID: dlqtest.TopicID}
		_, err := f.Positions(t.Context(), []dlq.Partition{partition})
		require.NoError(t, err)
		at := dlq.Start
		for _, next := range []int64{10, 30} {
			to := dlq.Position{Next: next}
			_, err := f.Ingest(t.Context(), nil, []dlq.Advance{{Partition: partition, Topic: "orders.dlq", From: at, To: to, Lost: 7}})
			require.NoError(t, err)
			at = to
		}
		require.EqualValues(t, 14, topic().Lost)
		require.WithinDuration(t, time.Now(), *topic().LostAt, time.Minute)
	},

	"a topic is listed even if Kafka deleted all its records before they were ingested": func(t *testing.T, f fixture) {
		partition := dlq.Partition{TopicID: dlqtest.TopicID}
		_, err := f.Positions(t.Context(), []dlq.Partition{partition})
		require.NoError(t, err)
		_, err = f.Ingest(t.Context(), nil, []dlq.Advance{
			{Partition: partition, Topic: "orders.dlq", From: dlq.Start, To: dlq.Position{Next: 9}, Lost: 9}})
		require.NoError(t, err)
		found, err := f.Topics(t.Context())
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "orders.dlq", found[0].DLQTopic)
		require.EqualValues(t, 9, found[0].Lost)
		require.Empty(t, found[0].Counts)
		require.Zero(t, found[0].NewestArrival)
		require.Empty(t, found[0].OriginalTopic)
	},

	"pending messages are counted": func(t *testing.T, f fixture) {
		f.store(append(dlqtest.Arrivals(5), dlqtest.Arrival(dlqtest.Topic("users")), dlqtest.Arrival(dlqtest.Retries(3, 3)))...)
		counts, all, err := f.Pending(t.Context(), []string{"users.dlq", "orders", "orders.dlq"})
		require.NoError(t, err)
		require.Equal(t, []int64{1, 0, 5, 6}, append(counts, all))
		counts, all, err = f.Pending(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, counts)
		require.EqualValues(t, 6, all)
	},

	"a deleted message can be stored again": func(t *testing.T, f fixture) {
		a := dlqtest.Arrival()
		f.store(a)
		require.NoError(t, f.Delete(t.Context(), nil, a.ID))
		f.store(a) // without the position of its partition, a deleted message is stored again
	},

	"a new message is PENDING and was never retried": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival())[0]
		require.Equal(t, dlq.StatusPending, m.Status)
		require.Zero(t, m.RetryCount)
		require.Equal(t, 3, m.MaxRetries)
		require.Nil(t, m.LastRetryAt)
		require.True(t, m.Owner.IsZero())
		require.Equal(t, m.CreatedAt, m.UpdatedAt)
	},

	"an arrival becomes a message": func(t *testing.T, f fixture) {
		partition, offset := int32(3), int64(77)
		before := time.Now().Add(-time.Second)
		a := dlqtest.Arrival(dlqtest.FromTopic("orders.dlq.v1", "orders.v1"), dlqtest.Retries(1, 5), func(a *dlq.Arrival) {
			a.Origin.Partition, a.Origin.Offset, a.Origin.Family = &partition, &offset, "spring"
			a.Origin.Timestamp, a.Origin.ConsumerGroup, a.Attempts = time.UnixMilli(1_700_000_000_123).UTC(), "billing", 4
			a.ErrorClass, a.CauseClass, a.StackTrace, a.PreviousID = "java.lang.Boom", "java.lang.Spark", "at A\nat B", dlq.NewID()
			a.TraceID, a.CorrelationID, a.Suspicion = "0af7651916cd43dd8448eb211c80319c", "c-1", "retry_topic-attempts has 0 bytes"
			a.Schema = dlq.Schema{Format: "PROTOBUF", ID: 4_000_000_000, Subject: "orders.v1-value", Version: 3, MessageType: "a.Order"}
			a.DecodeError = "it ends too early"
		})
		f.store(a)
		d := f.detail(a.ID)
		require.Equal(t, a.Source, d.Source)
		require.Equal(t, a.Failure, d.Failure)
		require.Equal(t, a.Record, d.Record)
		require.Equal(t, a.Schema, d.Schema)
		require.Equal(t, a.DecodeError, d.DecodeError)
		require.Empty(t, d.Attempts)
		require.JSONEq(t, string(a.Payload), string(d.Payload))
		require.WithinRange(t, d.CreatedAt, before, time.Now().Add(time.Second))
		require.Positive(t, d.Seq)

		want := dlq.Message{ID: a.ID, Seq: d.Seq, OriginalTopic: "orders.v1", DLQTopic: "orders.dlq.v1", ErrorMessage: "boom",
			ErrorClass: "java.lang.Boom", MaxRetries: 5, // the earlier message is unknown, so its retries do not count
			Payload: d.Payload, Status: dlq.StatusPending,
			CreatedAt: d.CreatedAt, UpdatedAt: d.CreatedAt, PreviousID: a.PreviousID, Suspicious: true}
		require.Equal(t, want, d.Message)
		require.Equal(t, want, f.message(a.ID))
	},

	"a message that came back with its retries used up is DEAD": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)))[0]
		require.Equal(t, dlq.StatusDead, m.Status)
		require.Equal(t, dlq.ResolutionExhausted, m.Resolution)
	},

	"values from headers are limited": func(t *testing.T, f fixture) {
		long := make([]rune, 300)
		for i := range long {
			long[i] = 'ü'
		}
		f.store(dlqtest.Arrival(dlqtest.Retries(1<<40, 1<<50), dlqtest.FromTopic("orders.dlq", string(long)), func(a *dlq.Arrival) {
			a.Record.Timestamp = time.UnixMilli(1 << 62)
		}))
		m := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 1}).Messages[0]
		require.Equal(t, 1<<31-1, m.RetryCount)
		require.Equal(t, string(long[:255]), m.OriginalTopic)
		require.Zero(t, f.detail(m.ID).Record.Timestamp)
	},

	"hostile bytes are returned unchanged": func(t *testing.T, f fixture) {
		hostile := dlqtest.Hostile()
		var arrivals []dlq.Arrival
		for _, a := range hostile {
			arrivals = append(arrivals, a)
		}
		f.store(arrivals...) // all in one batch: a bad row must not prevent the other rows
		for name, a := range hostile {
			d := f.detail(a.ID)
			require.Equal(t, a.Record, d.Record, name)
			require.Equal(t, a.Source, d.Source, name)
			require.Equal(t, dlq.StorableText(a.ErrorMessage), d.ErrorMessage, name)
			require.Equal(t, dlq.StorableText(a.StackTrace), d.Failure.StackTrace, name)
			if dlq.PayloadOf(a.Payload) == nil {
				require.Nil(t, d.Payload, name)
			} else {
				require.JSONEq(t, string(a.Payload), string(d.Payload), name)
			}
			envelope, err := f.Envelope(t.Context(), a.ID, f.claim(a.ID))
			require.NoError(t, err, name)
			require.Equal(t, a.Record, envelope.Record, name)
		}
		for i := 1; i < len(arrivals); i++ {
			require.Less(t, f.message(arrivals[i-1].ID).Seq, f.message(arrivals[i].ID).Seq)
		}
	},
}
