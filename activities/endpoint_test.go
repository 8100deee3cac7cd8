package activities

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var shop = dlq.Target{Topic: dlq.EndpointTarget("shop"), Partition: dlq.AnyPartition}

func refusedBy(category dlq.Category, maybe bool) dlq.Delivery {
	return dlq.Delivery{Target: shop, Err: &dlq.DeliveryError{Category: category, MaybeMessage: maybe, RetryAfter: time.Minute, Err: errors.New("refused")}}
}

// queueOf is the queue of a closed target.
func queueOf(target dlq.Target, tries, keys int) *dlq.Queue {
	return &dlq.Queue{QueueID: dlq.QueueID{Target: target, Key: dlq.NoKey}, Tries: tries, Keys: keys}
}

func judgeOne(queue *dlq.Queue, d dlq.Delivery) (dlq.PageOutcome, bool) {
	outcomes, answered := judge([]dlq.Envelope{{ID: dlq.NewID(), OriginalTopic: "orders"}}, []dlq.Delivery{d}, queue, dlq.OrderKey)
	return outcomes[0], answered
}

func TestAMessageThatIsAloneAtAClosedEndpointFailsAfterItsAttempts(t *testing.T) {
	t.Parallel()
	attempts := PolicyOf(dlq.CategoryTransient).Attempts
	for tries := range attempts - 1 {
		o, answered := judgeOne(queueOf(shop, tries, 1), refusedBy(dlq.CategoryTransient, true))
		require.Equal(t, dlq.ResultWaiting, o.Result)
		require.Equal(t, dlq.Wait{Target: shop, Tries: tries + 1, For: closedPause(tries+1, dlq.CategoryTransient, nil)}, o.Wait)
		require.False(t, answered)
	}
	o, answered := judgeOne(queueOf(shop, attempts-1, 1), refusedBy(dlq.CategoryTransient, true))
	require.Equal(t, dlq.ResultFailed, o.Result)
	require.Equal(t, shop, o.Target, "the endpoint is open for others")
	require.True(t, answered)
}

func TestABrokenEndpointDoesNotUseUpTheRetriesOfManyMessages(t *testing.T) {
	t.Parallel()
	hours := 0
	for tries := range 2000 {
		o, _ := judgeOne(queueOf(shop, tries, 100), refusedBy(dlq.CategoryTransient, true))
		if o.Result == dlq.ResultFailed {
			require.Equal(t, 999, tries, "each of the keys was tried as often as the policy allows")
			hours = tries * int(longestClosedPause) / int(time.Hour)
			require.Empty(t, o.Target.Topic, "the endpoint stays closed for the others")
			break
		}
	}
	require.Equal(t, 8, hours)
	for tries := range 2000 {
		o, _ := judgeOne(queueOf(shop, tries, 1), refusedBy(dlq.CategoryTransient, false))
		require.Equal(t, dlq.ResultWaiting, o.Result, "an endpoint that is away says nothing about the message")
	}
}

func TestAThrottlingEndpointIsClosedAndCountsNothing(t *testing.T) {
	t.Parallel()
	page := []dlq.Envelope{{ID: dlq.NewID(), OriginalTopic: "orders"}, {ID: dlq.NewID(), OriginalTopic: "orders"}}
	for tries := range 20 {
		for _, queue := range []*dlq.Queue{nil, queueOf(shop, tries, 1), {QueueID: dlq.KeyQueue(shop.Topic, 7), Tries: tries}} {
			outcomes, answered := judge(page, []dlq.Delivery{refusedBy(dlq.CategoryRateLimit, false), {Target: shop}}, queue, dlq.OrderKey)
			require.Equal(t, dlq.ResultWaiting, outcomes[0].Result)
			require.Equal(t, dlq.Wait{Target: shop, Tries: 1, For: time.Minute}, outcomes[0].Wait)
			require.Equal(t, dlq.ResultDelivered, outcomes[1].Result)
			require.True(t, answered)
		}
	}
}

// recorder is a Publisher that delivers everything.
type recorder struct {
	mu   sync.Mutex
	sent []dlq.Envelope
}

func (r *recorder) Publish(_ context.Context, page []dlq.Envelope, _ dlq.Order, _ []dlq.Target) []dlq.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, page...)
	deliveries := make([]dlq.Delivery, len(page))
	for i := range page {
		deliveries[i].Target = dlq.Target{Topic: page[i].Target(), Partition: int32(len(r.sent))}
	}
	return deliveries
}

func TestAPageIsDividedByTargets(t *testing.T) {
	t.Parallel()
	targets, err := dlq.NewTargets(dlqtest.Topics(t), map[string]string{"bills": "http:shop", "carts": "carts.retry"}, []string{"http:ledger"}, []string{"shop", "ledger"})
	require.NoError(t, err)
	topics, endpoints := &recorder{}, &recorder{}
	router := &Router{Targets: targets, Kafka: topics, HTTP: endpoints}
	page := []dlq.Envelope{
		{OriginalTopic: "bills", RetryCount: 1}, {OriginalTopic: "orders", RetryCount: 2}, {OriginalTopic: "carts", RetryCount: 3},
		{OriginalTopic: "orders", TargetTopic: "http:ledger", RetryCount: 4}, {OriginalTopic: "orders", TargetTopic: "elsewhere", RetryCount: 5},
	}
	deliveries := router.Publish(t.Context(), page, dlq.OrderKey, nil)
	var got []string
	for i := range deliveries {
		got = append(got, fmt.Sprint(deliveries[i].Target.Topic, " ", deliveries[i].Err))
	}
	require.Equal(t, []string{"http:shop <nil>", "orders <nil>", "carts.retry <nil>", "http:ledger <nil>",
		`elsewhere target "elsewhere" is not among the allowed targets; an administrator can add it to targets.allowed`}, got)
	require.Equal(t, []int{1, 4}, []int{endpoints.sent[0].RetryCount, endpoints.sent[1].RetryCount})
	require.Equal(t, []int{2, 3}, []int{topics.sent[0].RetryCount, topics.sent[1].RetryCount})
	require.Empty(t, page[0].TargetTopic, "the caller's page is unchanged")
	var refused *dlq.DeliveryError
	require.ErrorAs(t, deliveries[4].Err, &refused)
	require.True(t, refused.Category == dlq.CategoryAuth && refused.TargetOnly)

	require.Len(t, topics.sent, 2)
	router.Kafka = nil
	deliveries = router.Publish(t.Context(), page[:2], dlq.OrderKey, nil)
	require.False(t, deliveries[0].Unsent)
	require.True(t, deliveries[1].Unsent)
}
