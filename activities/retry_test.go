package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
)

func TestSingleRetryIsSentInOrder(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	retry := &activities.Retry{Store: l.store, Publisher: l.target, Log: zap.NewNop()}
	in := activities.RetryInput{MessageID: l.ids["a1"], Owner: dlqtest.Owner()}
	_, err := retry.Republish(t.Context(), in)
	require.Error(t, err, "it claims nothing by itself")
	_, err = retry.MarkRetrying(t.Context(), in)
	require.NoError(t, err)
	sent, err := retry.Republish(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, activities.Republished{Published: true, At: &dlq.Acknowledgement{Offset: 1}}, sent)
	require.Equal(t, []dlq.Order{dlq.OrderKey}, l.target.orders)
}

func TestAMessageOfAnotherOwnerIsNotRepublished(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	_, err := l.store.Claim(t.Context(), l.ids["a1"], dlqtest.Owner(), dlq.ID{})
	require.NoError(t, err)
	retry := &activities.Retry{Store: l.store, Publisher: l.target, Log: zap.NewNop()}
	_, err = retry.Republish(t.Context(), activities.RetryInput{MessageID: l.ids["a1"], Owner: dlqtest.Owner()})
	require.Error(t, err)
	require.Empty(t, l.target.calls)
}

func TestARedirectIsRefusedWhileItsTargetIsNotAllowedOrDoesNotExist(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
	publisher, err := kafka.NewPublisher(kafka.Options{Brokers: cluster.ListenAddrs(), DeliveryTimeout: time.Second}, zap.NewNop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(publisher.Close)
	in := activities.RetryInput{MessageID: l.ids["a1"], Owner: dlqtest.Owner(), TargetTopic: "orders.retry"}
	redirect := func(allowed ...string) error {
		targets, err := dlq.NewTargets(dlqtest.Topics(t), nil, allowed, nil)
		require.NoError(t, err)
		retry := &activities.Retry{Store: l.store, Publisher: &activities.Router{Targets: targets, Kafka: publisher}, Log: zap.NewNop()}
		_, err = retry.Republish(t.Context(), in)
		return err
	}
	_, err = l.store.Claim(t.Context(), in.MessageID, in.Owner, dlq.ID{})
	require.NoError(t, err)
	var refused *temporal.ApplicationError
	require.ErrorAs(t, redirect(), &refused)
	require.True(t, refused.Type() == string(dlq.CategoryAuth) && refused.NonRetryable())
	require.ErrorContains(t, refused, `target "orders.retry" is not among the allowed targets`)
	require.ErrorAs(t, redirect("*.retry"), &refused)
	require.True(t, refused.Type() == string(dlq.CategoryTransient) && !refused.NonRetryable(), "the topic may come back")
	require.ErrorContains(t, refused, "UNKNOWN_TOPIC_OR_PARTITION")
	require.Zero(t, cluster.PartitionInfo("orders", 0).HighWatermark, "nothing goes to the original topic")
	require.NoError(t, cluster.CreateTopic("orders.retry", 1, nil))
	require.NoError(t, redirect("*.retry"))
	require.EqualValues(t, 1, cluster.PartitionInfo("orders.retry", 0).HighWatermark)
}

// meeting is a publisher that answers once a number of publishes run at the same time.
type meeting struct {
	activities.Publisher
	sync.WaitGroup
}

func (m *meeting) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	m.Done()
	m.Wait()
	return m.Publisher.Publish(ctx, envelopes, order, closed)
}

func TestSmallMessagesDoNotWaitForEachOthersMemory(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"), message("orders", "b", "b1"))
	together := &meeting{Publisher: l.target}
	together.Add(2)
	retry := &activities.Retry{Store: l.store, Publisher: together, Memory: activities.NewMemory(dlq.PageBytes), Log: zap.NewNop()}
	var group sync.WaitGroup
	failures := make([]error, 2)
	for i, name := range []string{"a1", "b1"} {
		group.Go(func() {
			in := activities.RetryInput{MessageID: l.ids[name], Owner: dlqtest.Owner()}
			_, claimed := retry.MarkRetrying(t.Context(), in)
			_, sent := retry.Republish(t.Context(), in)
			failures[i] = errors.Join(claimed, sent)
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failures...))
}
