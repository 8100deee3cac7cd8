// Package roundtrip proves that records come back as they were: random records pass through
// the ingest, the store and the publisher, fail again, and pass once more.
package roundtrip

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// envRecords is how many records TestRandomRecordsComeBackByteForByte has. A failing round prints its seed.
// A run with this seed and the same number of records begins with this round.
const envRecords = "DLQ_ROUND_TRIP_RECORDS"

const (
	defaultRecords = 600
	roundRecords   = 2000 // in memory at once
	circles        = 3
	timeout        = 2 * time.Minute // for an expected event
)

// Key, value and headers come back byte for byte after every circle of a failure and a retry, even if they
// are null or empty. The wire itself cannot carry a few differences, so they are not tested: a record
// without headers has no list of headers that could be null, and the name of a header is never null.
func TestRandomRecordsComeBackByteForByte(t *testing.T) { //nolint:tparallel // one round at a time bounds the memory
	t.Parallel()
	records, seed := recordCount(t), dlqtest.Seed(t)
	began, bytes := time.Now(), int64(0)
	for left := records; left > 0; left -= roundRecords {
		passed := t.Run(fmt.Sprintf("%s=%d", dlqtest.EnvSeed, seed), func(t *testing.T) {
			r := newRound(t, seed, min(left, roundRecords))
			for circle := 1; circle <= circles; circle++ {
				r.fail(circle)
				r.retry(circle)
				r.consume(circle)
			}
			r.requireNothingElse()
			bytes += r.bytes
		})
		if !passed {
			return
		}
		seed++
	}
	t.Logf("%d records, %d MB, made the circle %d times in %s", records, bytes>>20, circles, time.Since(began).Round(time.Second))
}

func recordCount(t *testing.T) int {
	t.Helper()
	text := os.Getenv(envRecords)
	if text == "" {
		return defaultRecords
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, envRecords)
	return n
}
