package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// Environment variables of TestChaos. A failing run prints the values with which it can be repeated. The
// seed decides every choice, but not the timing of the parts.
const (
	envChaosSeed     = "DLQ_CHAOS_SEED"
	envChaosDuration = "DLQ_CHAOS_DURATION"
	// envChaosKafka is "fake" or "real". By default, runs longer than chaosLong use the
	// real broker.
	envChaosKafka = "DLQ_CHAOS_KAFKA"
	// envChaosKeep is a folder for the journal and the programs' complete logs.
	envChaosKeep = "DLQ_CHAOS_KEEP"
)

const (
	chaosSeed  = 20260117
	chaosShort = 60 * time.Second
	chaosLong  = 5 * time.Minute
)

// chaos is one run: the parts, the faults and commands, and the observations.
type chaos struct {
	t        *testing.T
	seed     uint64
	duration time.Duration
	dir      string
	real     bool
	begun    time.Time
	journal  *journal

	postgres *chaosPostgres
	temporal *chaosTemporal
	broker   chaosBroker
	workers  []*chaosProgram
	api      *chaosProgram
	pool     *pgxpool.Pool
	// databaseURL connects to PostgreSQL directly, without a proxy.
	databaseURL string

	// The faults, the producer and the operator have random numbers of their own, so that
	// no choice depends on the timing of another goroutine.
	faultDice, producerDice, operatorDice *rand.Rand
	kinds, deck                           []*fault
	round                                 int
	aside                                 sync.WaitGroup // faults that last while the storm continues
	struck                                strikes

	producer *deadLetters
	windows  windows
	hands    *hands
	singles  atomic.Int64
	restored atomic.Bool // the database was restored to an earlier moment
	// lastJob is the last job of each topic that the operator has started. The operator
	// steers it while the API does not answer.
	lastJob map[string]string
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{t: t, seed: chaosSeed, duration: chaosShort, journal: newJournal(), hands: newHands(), lastJob: map[string]string{}}
	var err error
	if text := os.Getenv(envChaosSeed); text != "" {
		c.seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, envChaosSeed)
	}
	if text := os.Getenv(envChaosDuration); text != "" {
		c.duration, err = time.ParseDuration(text)
		require.NoError(t, err, envChaosDuration)
	}
	switch kind := os.Getenv(envChaosKafka); kind {
	case "":
		c.real = c.duration > chaosLong
	case "fake", "real":
		c.real = kind == "real"
	default:
		require.Failf(t, "not a kind of Kafka", "%s=%s: use fake or real", envChaosKafka, kind)
	}
	require.NoError(t, c.chooseFaults())
	c.faultDice = rand.New(rand.NewPCG(c.seed, 1))
	c.producerDice = rand.New(rand.NewPCG(c.seed, 2))
	c.operatorDice = rand.New(rand.NewPCG(c.seed, 3))
	c.dir = t.TempDir()
	t.Logf("chaos for %s; to repeat it: %s=%d %s=%s %s=%s", c.duration,
		envChaosSeed, c.seed, envChaosDuration, c.duration, envChaosKafka, map[bool]string{false: "fake", true: "real"}[c.real])
	t.Cleanup(func() {
		c.keep()
		if t.Failed() {
			c.explain()
		}
	})
	return c
}

// explain prints the journal and the ends of the logs after a failure.
func (c *chaos) explain() {
	c.t.Logf("seed %d, journal:\n%s", c.seed, c.journal.text())
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	for _, path := range logs {
		c.t.Logf("the end of %s:\n%s", filepath.Base(path), endOfFile(path, 4000))
	}
}

// keep copies the logs and the journal to the folder of envChaosKeep.
func (c *chaos) keep() {
	folder := os.Getenv(envChaosKeep)
	if folder == "" {
		return
	}
	_ = os.MkdirAll(folder, 0o700)
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	for _, path := range logs {
		if text, err := os.ReadFile(path); err == nil {
			_ = os.WriteFile(filepath.Join(folder, filepath.Base(path)), text, 0o600)
		}
	}
	_ = os.WriteFile(filepath.Join(folder, "journal.txt"), []byte(c.journal.text()), 0o600)
}

func endOfFile(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(len(text)-n, 0):])
}

// waitUntil polls for a condition, and fails the test if it does not hold in time.
func (c *chaos) waitUntil(what string, limit time.Duration, condition func() bool) {
	c.t.Helper()
	if !c.eventually(what, limit, condition) {
		require.Failf(c.t, "timeout", "seed %d: %s, for %s", c.seed, what, limit)
	}
}

// eventually polls for a condition and reports whether it held in time.
func (c *chaos) eventually(what string, limit time.Duration, condition func() bool) bool {
	c.journal.note("waiting: %s", what)
	started := time.Now()
	for !condition() {
		if time.Since(started) > limit {
			return false
		}
		pause(c.t.Context(), 100*time.Millisecond)
	}
	c.journal.note("%s, after %s", what, time.Since(started).Round(time.Millisecond))
	return true
}

// pause sleeps until d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// between draws a duration.
func between(dice *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(dice.Int64N(int64(to-from)))
}

// stored is how many messages the table has; -1 if the query fails.
func (c *chaos) stored() int { return c.countRows("true") }

func (c *chaos) countRows(where string) int {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	var n int
	if err := c.pool.QueryRow(ctx, "SELECT count(*) FROM dlq.dlq_messages WHERE "+where).Scan(&n); err != nil {
		return -1
	}
	return n
}

// chaosTopics are the dead-letter topics. Each has two targets; a message's key decides
// its target.
var chaosTopics = []chaosTopic{newChaosTopic("orders"), newChaosTopic("payments"), newChaosTopic("mail")}

type chaosTopic struct {
	dlq     string
	targets [2]string
}

func newChaosTopic(name string) chaosTopic {
	return chaosTopic{dlq: fmt.Sprintf("chaos.%s.dlq.v1", name), targets: [2]string{fmt.Sprintf("chaos.%s.v1", name), fmt.Sprintf("chaos.%s.other.v1", name)}}
}

func chaosTopicNames() []string {
	var names []string
	for _, topic := range chaosTopics {
		names = append(names, topic.dlq)
	}
	return names
}
