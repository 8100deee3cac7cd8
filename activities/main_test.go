package activities_test

import (
	"os"
	"testing"

	"dlqmanager/internal/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
