package memory_test

import (
	"testing"

	"dlqmanager/dlq"
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

func TestContractOfRoutes(t *testing.T) {
	t.Parallel()
	storetest.RunRoutes(t, func(t *testing.T) storetest.Store {
		s := memory.New(dlqtest.Topics(t))
		s.Targets = dlqtest.Targets(t)
		return s
	})
}

func TestContractOfTheAuditLog(t *testing.T) {
	t.Parallel()
	var logged []dlq.Operation
	s := memory.New(dlqtest.Topics(t))
	s.Audit = func(o dlq.Operation) { logged = append(logged, o) }
	storetest.RunAuditLog(t, s, func() []dlq.Operation { return logged })
}

func TestContractWithoutAnOutbox(t *testing.T) {
	t.Parallel()
	storetest.RunWithoutOutbox(t, memory.New(dlqtest.Topics(t)))
}
