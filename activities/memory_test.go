package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestMemoryIsGivenInOrder(t *testing.T) {
	t.Parallel()
	m := NewMemory(3 * dlq.PageBytes)
	page := func() func() {
		release, err := m.acquire(t.Context(), dlq.PageBytes)
		require.NoError(t, err)
		return release
	}
	first, second := page(), page()
	large := make(chan func())
	go func() {
		release, err := m.acquire(t.Context(), 100*dlq.PageBytes) // more than the budget: the caller gets the whole budget
		if err == nil {
			large <- release
		}
	}()
	require.Eventually(t, func() bool { // the large caller waits, and no other caller overtakes it
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := m.acquire(ctx, dlq.PageBytes)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	first()
	second()
	release := <-large
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.acquire(ctx, 1)
	require.Error(t, err)
	release()
	page()()

	unlimited, err := (*Memory)(nil).acquire(t.Context(), 1<<40)
	require.NoError(t, err)
	unlimited()
}
