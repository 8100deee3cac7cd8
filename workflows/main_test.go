package workflows_test

import (
	"os"
	"testing"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/temporaltest"
)

func TestMain(m *testing.M) {
	dlqtest.AtOnce(4) // the tests mostly wait for timers of a server
	os.Exit(temporaltest.Main(withDatabase{m}))
}

// withDatabase also stops PostgreSQL, if a test has started it.
type withDatabase struct{ m *testing.M }

func (w withDatabase) Run() int { return dbtest.Main(w.m) }
