package kafkatest

import (
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Brokers returns host:port of the PLAINTEXT listener.
func (s *Server) Brokers() []string { return []string{s.plain} }

// SASLBrokers returns host:port of the SASL_PLAINTEXT listener.
func (s *Server) SASLBrokers() []string { return []string{s.sasl} }

// Stop shuts the server down cleanly; Start restarts it with its data.
func (s *Server) Stop() { s.stop(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (s *Server) Kill() { s.stop(syscall.SIGKILL) }

// Start restarts a stopped server on the same ports.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, s.start())
}

// resetTimeout bounds each request of the tool. Its default of 5 s is too short for a JVM that
// starts on a busy machine.
const resetTimeout = 60 * time.Second

// ResetOffsets sets a group's offset of every partition of a topic by Kafka's own tool, as
// operators do. The group must have no members.
func (s *Server) ResetOffsets(t testing.TB, group, topic string, at int64) {
	t.Helper()
	output, err := s.java("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", s.plain,
		"--timeout", strconv.FormatInt(resetTimeout.Milliseconds(), 10), "--group", group, "--topic", topic,
		"--reset-offsets", "--to-offset", strconv.FormatInt(at, 10), "--execute").CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), topic, "the tool lists the topics that it has reset")
}

// RealCluster starts a Kafka for one test, which may stop it.
func RealCluster(t testing.TB) *Server {
	t.Helper()
	return RealClusterOfVersion(t, Version)
}

// RealClusterOfVersion starts another version of Kafka for one test, with further
// properties. Only Version has the tool of ResetOffsets.
func RealClusterOfVersion(t testing.TB, version string, properties ...string) *Server {
	t.Helper()
	needTools(t)
	server, err := newServer(t.TempDir(), version, properties...)
	require.NoError(t, err)
	t.Cleanup(server.Kill) // the data is not needed again
	return server
}

var shared struct {
	once   sync.Once
	server *Server
	dir    string
	err    error
}

// SharedCluster returns the one Kafka of the test binary. Tests that share it
// use topics and groups of their own. The package's TestMain must be
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m)) }
func SharedCluster(t testing.TB) *Server {
	t.Helper()
	needTools(t)
	shared.once.Do(func() {
		shared.dir, shared.err = os.MkdirTemp("", "kafka-for-tests-") //nolint:usetesting // it outlives the test that happens to be first
		if shared.err == nil {
			shared.server, shared.err = newServer(shared.dir, Version)
		}
	})
	require.NoError(t, shared.err)
	return shared.server
}

// Main runs the tests and then ends the shared Kafka, if any test used it.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		shared.server.Kill()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return code
}

// needTools skips the test where no real Kafka can run. With CI=true it fails the test,
// because a skip would go unnoticed.
func needTools(t testing.TB) {
	t.Helper()
	if testing.Short() {
		require.NotEqual(t, "true", os.Getenv("CI"), "CI skips no tests: run them without -short")
		t.Skip("SKIPPED: a real Kafka starts slowly")
	}
	missing := missingTools()
	if missing == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("the tests on a real Kafka %s cannot run: %s", Version, missing)
	}
	t.Skipf("SKIPPED, not proved on a real Kafka %s: %s", Version, missing)
}
