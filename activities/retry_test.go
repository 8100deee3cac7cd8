package activities_test

import (
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
	sent, err := retry.Republish(t.Context(), activities.RetryInput{MessageID: l.ids["a1"], Owner: dlq.Owner{WorkflowID: "w", Token: "r"}})
	require.NoError(t, err)
	require.True(t, sent)
	require.Equal(t, []dlq.Order{dlq.OrderKey}, l.target.orders)
}

func TestAMessageThatSomebodyElseOwnsIsNotRepublished(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"))
	_, err := l.store.Claim(t.Context(), l.ids["a1"], dlqtest.Owner())
	require.NoError(t, err)
	retry := &activities.Retry{Store: l.store, Publisher: l.target, Log: zap.NewNop()}
	sent, err := retry.Republish(t.Context(), activities.RetryInput{MessageID: l.ids["a1"], Owner: dlqtest.Owner()})
	require.Error(t, err)
	require.False(t, sent)
	require.Empty(t, l.target.calls)
}
