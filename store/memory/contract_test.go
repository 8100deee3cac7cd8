package memory_test

import (
	"testing"

	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/memory"
	"dlqmanager/store/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store {
		s := memory.New(dlqtest.Topics(t))
		s.Outbox = true
		return s
	})
}

func TestContractWithoutAnOutbox(t *testing.T) {
	t.Parallel()
	storetest.RunWithoutOutbox(t, memory.New(dlqtest.Topics(t)))
}
