package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestPagesHaveAddressesBelowTheConsole(t *testing.T) {
	t.Parallel()
	id := dlq.NewID()
	for _, p := range []dlq.Pages{"https://dlq.example/console", "https://dlq.example/console/"} {
		require.Equal(t, "https://dlq.example/console/messages/"+id.String(), p.Message(id))
		require.Equal(t, "https://dlq.example/console/archive/"+id.String(), p.Archived(id))
		require.Equal(t, "https://dlq.example/console/groups/"+id.String(), p.Group(id))
		require.Equal(t, "https://dlq.example/console/jobs/"+id.String(), p.Job(id))
		require.Equal(t, "https://dlq.example/console/topics/orders_a.dlq", p.Topic("orders_a.dlq"))
	}
}

func TestWithoutAnAddressThereAreNoPages(t *testing.T) {
	t.Parallel()
	require.Empty(t, dlq.Pages("").Job(dlq.NewID()))
	require.Empty(t, dlq.Pages("").Topic("orders.dlq"))
}
