package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestMemoryIsGivenInTurn(t *testing.T) {
	t.Parallel()
	m := NewMemory(3 * dlq.PageBytes)
	page := func() func() {
		give, err := m.take(t.Context(), dlq.PageBytes)
		require.NoError(t, err)
		return give
	}
	first, second := page(), page()
	large := make(chan func())
	go func() {
		give, err := m.take(t.Context(), 100*dlq.PageBytes) // more than there is: it is held alone
		if err == nil {
			large <- give
		}
	}()
	require.Eventually(t, func() bool { // it waits, and nobody overtakes it
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := m.take(ctx, dlq.PageBytes)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	first()
	second()
	give := <-large
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.take(ctx, 1)
	require.Error(t, err)
	give()
	page()()

	unlimited, err := (*Memory)(nil).take(t.Context(), 1<<40)
	require.NoError(t, err)
	unlimited()
}
