package dlq_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestMessageIsRetryableOnlyWhilePendingOrRetryingBelowItsLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status    dlq.Status
		count     int
		retryable bool
	}{
		{dlq.StatusPending, 0, true},
		{dlq.StatusPending, 2, true},
		{dlq.StatusPending, 3, false},
		{dlq.StatusRetrying, 1, true},
		{dlq.StatusRetrying, 3, false},
		{dlq.StatusResolved, 0, false},
		{dlq.StatusDead, 0, false},
		{dlq.StatusDead, 3, false},
	} {
		m := dlq.Message{Status: c.status, RetryCount: c.count, MaxRetries: 3}
		require.Equal(t, c.retryable, m.IsRetryable(), "%s %d/3", c.status, c.count)
		require.Equal(t, c.retryable, m.CheckRetryable() == nil)
	}
}

func TestRefusalNamesStatusAndCount(t *testing.T) {
	t.Parallel()
	m := dlq.Message{Status: dlq.StatusDead, RetryCount: 3, MaxRetries: 3}
	require.EqualError(t, m.CheckRetryable(), "message is not retryable: status=DEAD, retry_count=3/3")
}

func TestResultDecidesTheStatusAfterARetry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result    dlq.Result
		count     int
		status    dlq.Status
		wantCount int
	}{
		{dlq.ResultDelivered, 1, dlq.StatusResolved, 1},
		{dlq.ResultDelivered, 3, dlq.StatusResolved, 3},
		{dlq.ResultFailed, 1, dlq.StatusPending, 1},
		{dlq.ResultFailed, 2, dlq.StatusPending, 2},
		{dlq.ResultFailed, 3, dlq.StatusDead, 3},
		{dlq.ResultRejected, 1, dlq.StatusDead, 1},
		{dlq.ResultReleased, 1, dlq.StatusPending, 0},
		{dlq.ResultReleased, 3, dlq.StatusPending, 2},
	} {
		status, count := c.result.After(c.count, 3)
		require.Equal(t, c.status, status, "%s after %d/3", c.result, c.count)
		require.Equal(t, c.wantCount, count, "%s after %d/3", c.result, c.count)
	}
}

func TestStatusIsShownByItsDocumentedName(t *testing.T) {
	t.Parallel()
	for status, name := range map[dlq.Status]string{
		dlq.StatusPending: "PENDING", dlq.StatusRetrying: "RETRYING", dlq.StatusResolved: "RESOLVED", dlq.StatusDead: "DEAD",
	} {
		require.Equal(t, name, fmt.Sprint(status))
	}
}

func TestStatusParsesItsOwnName(t *testing.T) {
	t.Parallel()
	for _, status := range dlq.Statuses {
		parsed, err := dlq.ParseStatus(string(status))
		require.NoError(t, err)
		require.Equal(t, status, parsed)
	}
	for _, bad := range []string{"", "pending", "SUCCEEDED", "PENDING "} {
		_, err := dlq.ParseStatus(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestOnlyResolvedAndDeadAreFinal(t *testing.T) {
	t.Parallel()
	require.False(t, dlq.StatusPending.IsFinal())
	require.False(t, dlq.StatusRetrying.IsFinal())
	require.True(t, dlq.StatusResolved.IsFinal())
	require.True(t, dlq.StatusDead.IsFinal())
}

func TestArrivalIsDeadWhenItCameBackWithItsRetriesUsedUp(t *testing.T) {
	t.Parallel()
	require.Equal(t, dlq.StatusPending, (&dlq.Arrival{MaxRetries: 3}).Status())
	require.Equal(t, dlq.StatusPending, (&dlq.Arrival{MaxRetries: 3, RetryCount: 2}).Status())
	require.Equal(t, dlq.StatusDead, (&dlq.Arrival{MaxRetries: 3, RetryCount: 3}).Status())
}

func TestKeyHashDependsOnTheKeyAndSpreadsMessagesWithoutKey(t *testing.T) {
	t.Parallel()
	require.Equal(t, dlq.KeyHash([]byte("customer-7"), dlq.NewID()), dlq.KeyHash([]byte("customer-7"), dlq.NewID()))
	require.Equal(t, dlq.KeyHash([]byte{}, dlq.NewID()), dlq.KeyHash([]byte{}, dlq.NewID()), "an empty key is a key")
	lanes := map[int32]int{}
	for range 1000 {
		hash := dlq.KeyHash(nil, dlq.NewID())
		require.GreaterOrEqual(t, hash, int32(0))
		lanes[hash%4]++
	}
	for lane, messages := range lanes {
		require.InDelta(t, 250, messages, 100, "lane %d", lane)
	}
}
