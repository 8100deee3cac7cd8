package e2e

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dev"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// ownPostgres is a server of one test, whose data can be backed up and restored.
type ownPostgres struct {
	t    *testing.T
	dir  string
	port int
	*dev.Postgres
}

func startOwnPostgres(t *testing.T) *ownPostgres {
	t.Helper()
	number, err := strconv.Atoi(port(freeAddress(t)))
	require.NoError(t, err)
	p := &ownPostgres{t: t, dir: filepath.Join(t.TempDir(), "postgres"), port: number}
	require.NoError(t, os.Chmod(filepath.Dir(p.dir), 0o755))
	p.start()
	t.Cleanup(func() { _ = p.Stop(t.Context()) })
	return p
}

func (p *ownPostgres) start() {
	p.t.Helper()
	var err error
	p.Postgres, err = dev.StartPostgres(p.t.Context(), dev.PostgresOptions{Dir: p.dir, Port: p.port,
		Settings: map[string]string{"fsync": "off", "max_connections": "100"}})
	require.NoError(p.t, err)
}

// swap stops the server, copies its data from one folder to another, and starts it.
func (p *ownPostgres) swap(from, to string) {
	p.t.Helper()
	require.NoError(p.t, p.Stop(p.t.Context()))
	require.NoError(p.t, os.RemoveAll(to))
	output, err := exec.CommandContext(p.t.Context(), "cp", "-a", from, to).CombinedOutput()
	require.NoError(p.t, err, string(output))
	p.start()
}

func (p *ownPostgres) data() string { return filepath.Join(p.dir, "data") }

func (p *ownPostgres) backup() string { return filepath.Join(filepath.Dir(p.dir), "backup") }

// The database is restored to an earlier moment while dead letters arrive and a bulk retry
// runs.
func TestARestoreOfTheDatabaseLosesNothingThatKafkaHas(t *testing.T) {
	t.Parallel()
	const before, after = 2_000, 6_000
	cluster := kafkatest.FakeCluster(t)
	database := startOwnPostgres(t)
	u, err := url.Parse(database.URL("postgres"))
	require.NoError(t, err)
	s := newSystemAt(t, u, temporaltest.Address(t), cluster)
	connect := func() { s.pool = poolOf(t, database.URL("postgres")) }
	connect()
	s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, before)
	s.eventually("they are stored", func() bool { return s.pending() == before })
	database.swap(database.data(), database.backup())
	connect()

	s.produceDeadLetters(cluster, after)
	s.eventually("they are stored", func() bool { return s.pending() == before+after })
	known := s.ids()
	publishing, goOn := holdPublish(cluster, 20)
	status, _ := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	<-publishing
	database.swap(database.backup(), database.data())
	close(goOn)
	connect()
	s.produceDeadLetters(cluster, 10)
	s.eventually("all of them are stored again", func() bool { return s.rows("true") == before+after+10 })
	require.Subset(t, s.ids(), known, "with the ids that they had")

	s.eventually("another bulk retry starts", func() bool {
		status, _ := s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
		return status == http.StatusAccepted
	})
	s.eventually("everything is sent", func() bool { return s.rows("status = 'RESOLVED'") == before+after+10 })
	sent := consumeAll(t, cluster, s.topic)
	require.Len(t, sent, before+after+10)
	for _, id := range s.ids() {
		require.LessOrEqual(t, sent[id], 3, "once before the restore, once after it, and once for a page that was cut short")
	}
}

func (s *system) ids() []string {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), "SELECT id::text FROM dlq.dlq_messages ORDER BY seq")
	require.NoError(s.t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return ids
}

// poolOf connects to a database of the test's own server.
func poolOf(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	return dbtest.Pool(t, url)
}

// noise returns random bytes, which cannot be compressed.
func noise(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return b
}
