//go:build frameworks

package frameworks_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"dlqmanager/internal/kafkatest"
)

var record = flag.Bool("record", false, "write the corpus instead of comparing with it")

// timeout is for a program that starts, fails and writes its dead letters.
const timeout = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m)) }
