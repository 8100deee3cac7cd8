package telemetry

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestLatestReadingIsKeptWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	reads := 0
	l := &collector[int]{what: "a number", logger: zap.NewNop(), read: func(context.Context) (int, error) {
		if reads++; reads == 2 {
			return 0, errors.New("connection refused")
		}
		return reads, nil
	}}
	value, first := l.get()
	require.Equal(t, 1, value)
	value, at := l.get() // every get reads, since the interval is zero
	require.Equal(t, 1, value)
	require.Equal(t, first, at, "it stands still")
	value, at = l.get()
	require.Equal(t, 3, value)
	require.True(t, at.After(first))
}

func TestLatestReadingIsMadeByOneAtATime(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}, 2), make(chan struct{})
	l := &collector[int]{what: "a number", interval: time.Hour, logger: zap.NewNop(), read: func(context.Context) (int, error) {
		started <- struct{}{}
		<-release
		return 1, nil
	}}
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { l.get() })
	}
	<-started
	close(release)
	readers.Wait()
	value, _ := l.get()
	require.Equal(t, 1, value)
	require.Empty(t, started, "joined, no second reading")
}
