package kafka_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

func TestPublishGivesUpInTimeWhenNoBrokerIsAvailable(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = time.Second
	p := newPublisher(t, o)
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey, nil)[0].Err)
	require.NoError(t, p.Ping(deadline(t)))
	cluster.Close()
	start := time.Now()
	for _, topic := range []string{"orders", "never seen before"} {
		err := p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "v")}, dlq.OrderKey, nil)[0].Err
		require.Equal(t, dlq.CategoryTransient, deliveryError(t, err).Category)
		require.False(t, deliveryError(t, err).TargetOnly)
		t.Log(err)
	}
	require.Less(t, time.Since(start), 2*p.MaxDuration())
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	require.ErrorIs(t, p.Ping(short), dlq.ErrUnavailable)
}

func TestPublishGivesUpInTimeWhenTheBrokerIsSilent(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() { <-silent })
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = time.Second
	p := newPublisher(t, o)
	start := time.Now()
	err := p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey, nil)[0].Err
	require.Equal(t, dlq.CategoryTransient, deliveryError(t, err).Category)
	require.LessOrEqual(t, time.Since(start), p.MaxDuration())
}

func TestPublishEndsWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	o := quickOptions([]string{listener.Addr().String()})
	o.DeliveryTimeout = time.Minute
	p := newPublisher(t, o)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	errs := errorsOf(p.Publish(ctx, []dlq.Envelope{envelope("orders", "k", "v"), envelope("pay", "k", "v")}, dlq.OrderKey, nil))
	require.Less(t, time.Since(start), o.DeliveryTimeout/2)
	for _, err := range errs {
		require.Equal(t, dlq.CategoryTransient, deliveryError(t, err).Category)
	}
	require.Empty(t, p.Publish(context.Background(), nil, dlq.OrderKey, nil))
}

func TestPublishNamesTheCauseWhenAConnectionCannotBeMade(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"))
	o := quickOptions(cluster.ListenAddrs())
	o.DeliveryTimeout = 2 * time.Second
	p := newPublisher(t, o)
	require.NoError(t, p.Publish(context.Background(), []dlq.Envelope{envelope("orders", "k", "v")}, dlq.OrderKey, nil)[0].Err)
	cluster.Close()
	for _, topic := range []string{"orders", "never-seen-before"} {
		err := p.Publish(context.Background(), []dlq.Envelope{envelope(topic, "k", "v")}, dlq.OrderKey, nil)[0].Err
		require.Equal(t, dlq.CategoryTransient, deliveryError(t, err).Category)
		require.ErrorContains(t, err, "refused", topic)
	}
}
