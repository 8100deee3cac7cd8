package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var sweeps = map[string]func(*testing.T, fixture){
	"owners of running jobs are filtered by age": func(t *testing.T, f fixture) {
		before, err := f.Now(t.Context())
		require.NoError(t, err)
		running, paused, ended := f.startBulk(dlqtest.Bulk("a", 1)), f.startBulk(dlqtest.Bulk("b", 1)), f.startBulk(dlqtest.Bulk("c", 1))
		f.pause(paused.ID, "operator")
		f.end(ended.ID, dlq.JobCompleted)
		after, err := f.Now(t.Context())
		require.NoError(t, err)
		owners, err := f.JobOwners(t.Context(), after)
		require.NoError(t, err)
		require.Equal(t, []dlq.Owner{running.Owner(), paused.Owner()}, owners, "the oldest first")
		owners, err = f.JobOwners(t.Context(), before)
		require.NoError(t, err)
		require.Empty(t, owners)
	},

	"the clock advances": func(t *testing.T, f fixture) {
		first, err := f.Now(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.UTC, first.Location())
		second, err := f.Now(t.Context())
		require.NoError(t, err)
		require.True(t, second.After(first))
	},
}
