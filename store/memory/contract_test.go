package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/memory"
	"dlqmanager/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.RunBasic(t, func(t *testing.T) storetest.Basic { return memory.New(dlqtest.Topics(t)) })
}

// A filter that is ignored would select everything.
func TestAListByAnotherFilterIsAnError(t *testing.T) {
	t.Parallel()
	for _, filter := range []dlq.Filter{{Topic: "orders", Key: []byte{}}, {Topic: "orders", ErrorContains: "timeout"}, {Topic: "orders", Archived: true}} {
		_, err := memory.New(dlqtest.Topics(t)).List(t.Context(), dlq.ListQuery{Filter: filter, PageSize: 1})
		require.ErrorContains(t, err, "listed by topic and status only")
	}
}
