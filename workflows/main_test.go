package workflows_test

import (
	"os"
	"testing"

	"dlqmanager/internal/temporaltest"
)

func TestMain(m *testing.M) { os.Exit(temporaltest.Main(m)) }
