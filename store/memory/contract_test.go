package memory_test

import (
	"testing"

	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/memory"
	"dlqmanager/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store { return memory.New(dlqtest.Topics(t)) })
}
