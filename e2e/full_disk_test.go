//go:build linux

package e2e

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// readyText is the answer of /readyz.
func (p *program) readyText(t *testing.T) string {
	t.Helper()
	response, err := http.Get(p.ready)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// unproved skips the test where it cannot run. With CI=true it fails the test, because a
// skip would go unnoticed.
func unproved(t *testing.T, why string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("a full disk cannot be tested: %s: %v", why, err)
	}
	t.Skipf("SKIPPED, not proved with a full disk: %s: %v", why, err)
}

// The tables of the database are on a small file system. The WAL is on another file system.
func TestAFullDiskStopsTheIngestAndNothingElse(t *testing.T) {
	t.Parallel()
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=40m,mode=0777"); err != nil {
		unproved(t, "only root may mount a small file system", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	database := startOwnPostgres(t)
	admin, err := pgx.Connect(t.Context(), database.URL("postgres"))
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `CREATE TABLESPACE small LOCATION '`+small+`'`)
	if err != nil {
		unproved(t, "the server runs as a user that may not have the file system", err)
	}
	_, err = admin.Exec(t.Context(), `CREATE DATABASE small TABLESPACE small`)
	require.NoError(t, err)
	require.NoError(t, admin.Close(t.Context()))

	cluster := kafkatest.FakeCluster(t)
	u, err := url.Parse(database.URL("small"))
	require.NoError(t, err)
	s := newSystemAt(t, u, temporaltest.Address(t), cluster)
	s.pool = poolOf(t, u.String())
	worker := s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, 100)
	s.eventually("they are stored", func() bool { return s.pending() == 100 })
	const large = 400 // records of 100 KB, which cannot be compressed
	producer, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(s.dlqTopic))
	require.NoError(t, err)
	t.Cleanup(producer.Close)
	for range large {
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Value: noise(t, 100_000),
			Headers: []kgo.RecordHeader{{Key: "original_topic", Value: []byte(s.topic)}}}).FirstErr())
	}
	s.eventually("the worker says so", func() bool {
		return strings.Contains(worker.readyText(t), "the disk of the database is full")
	})
	stored := s.rows("true")
	require.Less(t, stored, 100+large)
	_, answer := s.call(http.MethodGet, "/api/v1/dlq")
	require.Len(t, answer["topics"], 1, "what is stored can be read")

	require.NoError(t, syscall.Mount("tmpfs", small, "tmpfs", syscall.MS_REMOUNT, "size=400m"))
	s.eventually("it continues by itself", func() bool { return s.rows("true") == 100+large })
	s.eventually("and says no more", func() bool { return !strings.Contains(worker.readyText(t), "full") })
	status, _ := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	s.eventually("everything is sent", func() bool { return s.rows("status = 'RESOLVED'") == 100+large })
	require.Len(t, consumeAll(t, cluster, s.topic), 100+large)
}
