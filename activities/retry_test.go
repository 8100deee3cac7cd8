package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
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
	result, err := retry.Republish(t.Context(), in)
	require.NoError(t, err)
	sent, err := activities.DecodeRepublished(result)
	require.NoError(t, err)
	require.Equal(t, activities.Republished{Published: true, At: &dlq.Acknowledgement{Offset: 1}}, sent)
	require.Equal(t, []dlq.Order{dlq.OrderKey}, l.target.orders)
}

func TestAMessageOfAnotherOwnerIsNotRepublished(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	_, err := l.store.Claim(t.Context(), l.ids["a1"], dlqtest.Owner())
	require.NoError(t, err)
	retry := &activities.Retry{Store: l.store, Publisher: l.target, Log: zap.NewNop()}
	_, err = retry.Republish(t.Context(), activities.RetryInput{MessageID: l.ids["a1"], Owner: dlqtest.Owner()})
	require.Error(t, err)
	require.Empty(t, l.target.calls)
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
