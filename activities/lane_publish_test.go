package activities

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// A blocked message ends or waits with the earlier message of its key, whatever the outcome of the earlier message is. A
// blocked message never gets an error of its own.
func TestABlockedMessageNeverEndsByItself(t *testing.T) {
	t.Parallel()
	page := []dlq.Envelope{{ID: dlq.NewID(), Record: dlq.Record{Key: []byte("k")}}, {ID: dlq.NewID(), Record: dlq.Record{Key: []byte("k")}}}
	for _, category := range []dlq.Category{dlq.CategoryTransient, dlq.CategoryRateLimit, dlq.CategoryAuth, dlq.CategoryBadData} {
		for tries := range 11 {
			for _, key := range []int32{dlq.NoKey, 7} {
				cause := &dlq.DeliveryError{Category: category, Err: errors.New("refused")}
				outcomes, _ := judge(page, []dlq.Delivery{{Err: cause}, {Err: &dlq.BlockedError{Cause: cause}}},
					&dlq.Queue{QueueID: dlq.QueueID{Key: key}, Tries: tries}, dlq.OrderKey)
				what := fmt.Sprintf("%s, %d tries, key %d", category, tries, key)
				require.Equal(t, page[0].ID, outcomes[0].ID, what)
				require.Equal(t, page[1].ID, outcomes[1].ID, what)
				if outcomes[0].Result == dlq.ResultWaiting {
					require.Equal(t, dlq.ResultWaiting, outcomes[1].Result, what)
					require.Equal(t, outcomes[0].Wait.Target, outcomes[1].Wait.Target, what)
					require.Equal(t, outcomes[0].Wait.OfKey, outcomes[1].Wait.OfKey, what)
					require.Zero(t, outcomes[1].Wait.Tries, what)
					continue
				}
				require.Equal(t, category.Result(), outcomes[0].Result, what)
				require.Equal(t, dlq.Outcome{ID: page[1].ID, Result: dlq.ResultSkipped}, outcomes[1].Outcome, what)
			}
		}
	}
}

func TestAMessageThatTriesAClosedTargetPassesTheTopicAndThePartition(t *testing.T) {
	t.Parallel()
	target := func(topic string, partition int32) dlq.Target { return dlq.Target{Topic: topic, Partition: partition} }
	closed := []dlq.Target{target("orders", dlq.AnyPartition), target("orders", 0), target("orders", 1), target("users", 0)}
	for _, test := range []struct {
		queue *dlq.Queue
		want  []dlq.Target
	}{
		{nil, closed},
		{&dlq.Queue{QueueID: dlq.QueueID{Target: closed[0]}}, closed},
		{queueOf(closed[0], 0, 0), closed[3:]},
		{queueOf(closed[1], 0, 0), closed[2:]},
		{queueOf(closed[3], 0, 0), closed[:3]},
	} {
		require.Equal(t, test.want, closedExceptTried(&dlq.LaneClaim{Queue: test.queue, Closed: closed}))
	}
}

func TestATargetIsClosedByAPageOfWhichItAcceptedNothing(t *testing.T) {
	t.Parallel()
	refused := &dlq.DeliveryError{Category: dlq.CategoryTransient, Err: errors.New("refused")}
	p1, p2 := dlq.Target{Topic: "orders", Partition: 1}, dlq.Target{Topic: "orders", Partition: 2}
	page := make([]dlq.Envelope, 3)
	for i := range page {
		page[i] = dlq.Envelope{ID: dlq.NewID(), OriginalTopic: "orders", Record: dlq.Record{Key: fmt.Append(nil, i)}}
	}
	outcomes, answered := judge(page, []dlq.Delivery{{Target: p1, Err: refused}, {Target: p2, Err: refused}, {Target: p2}}, nil, dlq.OrderKey)
	require.True(t, answered)
	require.Equal(t, dlq.Wait{Target: p1, Tries: 1, For: firstClosedPause}, outcomes[0].Wait)
	require.Equal(t, dlq.Wait{Target: dlq.Target{Topic: "orders", Partition: dlq.AnyPartition}, OfKey: true, Tries: 1, For: PolicyOf(dlq.CategoryTransient).First},
		outcomes[1].Wait, "it took another one")
	require.Equal(t, dlq.ResultDelivered, outcomes[2].Result)
}
