package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"dlqmanager/dlq"
	"dlqmanager/internal/kafkatest"
)

// upgradeFromEnv is the environment variable with the folder of the previous version's sources. If it is
// not set, the test upgrades from the present version.
const upgradeFromEnv = "DLQ_TEST_UPGRADE_FROM"

// laterMigrations are the migrations that a later version has in addition to the present migrations.
var laterMigrations = map[string]string{
	"998_add_a_note": `
		ALTER TABLE dlq.dlq_messages ADD COLUMN IF NOT EXISTS note TEXT;
		ALTER TABLE dlq.dlq_messages_archive ADD COLUMN IF NOT EXISTS note TEXT;`,
	"999_index_notes": `CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_dlq_messages_note ON dlq.dlq_messages (note)`,
}

// Versions run side by side, first in an upgrade and then in its rollback. Meanwhile dead letters arrive, a
// bulk retry runs, and an operator retries single messages.
func TestAnUpgradeAndItsRollbackUnderLoad(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	before, after := buildFrom(t, os.Getenv(upgradeFromEnv), nil), buildFrom(t, "", laterMigrations)
	s.programs = before
	workers := []*program{s.startWorker(), s.startWorker()}
	api := s.startAPI()
	s.produceDeadLetters(cluster, messages)
	s.eventually("all are stored", func() bool { return s.pending() == messages })
	status, answer := s.send(http.MethodPost, "/api/v1/jobs", strings.NewReader(fmt.Sprintf(`{"kind": "retry", "topic": %q, "rate_limit": 200}`, s.dlqTopic)),
		"Content-Type", "application/json", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, answer)
	bulk := "/api/v1/jobs/" + answer["id"].(string)
	load := s.startLoad(cluster)

	for _, s.programs = range []string{after, before} {
		if s.programs == after {
			s.migrateBesideADump()
		}
		for i, former := range workers {
			workers[i] = s.startWorker()
			require.NoError(t, former.end())
			require.Zero(t, former.ProcessState.ExitCode(), former.log.tail(2000))
		}
		former := api
		api = s.startAPI()
		load.base.Store(s.base)
		require.NoError(t, former.end())
		_, answer = s.call(http.MethodGet, bulk)
		require.Equal(t, "RUNNING", answer["state"])
	}

	status, answer = s.send(http.MethodPatch, bulk, strings.NewReader(`{"rate_limit": 0}`), "Content-Type", "application/json")
	require.Equal(t, http.StatusOK, status, answer)
	s.eventually("an operator has retried", func() bool { return load.count.Load() > 10 })
	retried := load.stop()
	t.Logf("%d single retries", len(retried))
	s.eventually("the single retries end", func() bool { return s.rows("status = 'RESOLVED' AND dlq_topic = '"+load.dlqTopic+"'") == len(retried) })
	sent := consumeAll(t, cluster, load.topic)
	for id := range retried {
		require.Equal(t, 1, sent[id], id)
	}
	require.Len(t, sent, len(retried))
	s.eventually("the job ends", func() bool {
		_, answer = s.call(http.MethodGet, bulk)
		return answer["state"] != "RUNNING"
	})
	_, err := s.pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages WHERE dlq_topic = $1`, load.dlqTopic)
	require.NoError(t, err)
	// No message is sent twice, unless the machine is so busy that heartbeats are late.
	s.requireAllSent(cluster, answer, messages, lanes*dlq.PageSize)
}

// migrateBesideADump migrates while an open transaction has read the messages. The running
// programs go on meanwhile.
func (s *system) migrateBesideADump() {
	s.t.Helper()
	dump, err := s.pool.Begin(s.t.Context())
	require.NoError(s.t, err)
	_, err = dump.Exec(s.t.Context(), `LOCK TABLE dlq.dlq_messages IN ACCESS SHARE MODE`)
	require.NoError(s.t, err)
	migrate, log := s.command("worker", "migrate"), &lockedBuffer{}
	migrate.Env, migrate.Stdout, migrate.Stderr = s.env, log, log
	require.NoError(s.t, migrate.Start())
	s.eventually("it waits", func() bool { return strings.Contains(log.tail(4000), "waits for the locks of other sessions") })
	require.NoError(s.t, dump.Rollback(s.t.Context()))
	require.NoError(s.t, migrate.Wait(), log.tail(4000))
	var valid bool
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(),
		`SELECT indisvalid FROM pg_index WHERE indexrelid = 'dlq.idx_dlq_messages_note'::regclass`).Scan(&valid))
	require.True(s.t, valid)
}

// load is an operator, and a consumer whose messages fail, on topics of their own.
type load struct {
	*system
	base    atomic.Value // a string, the base URL of the API
	ended   atomic.Bool
	count   atomic.Int64         // the number of retries
	retried chan map[string]bool // the ids of the messages
}

func (s *system) startLoad(cluster *kfake.Cluster) *load {
	s.t.Helper()
	topics := *s
	topics.topic, topics.dlqTopic = "single-"+s.topic, "single-"+s.dlqTopic
	require.NoError(s.t, cluster.CreateTopic(topics.topic, 3, nil))
	require.NoError(s.t, cluster.CreateTopic(topics.dlqTopic, 3, nil))
	l := &load{system: &topics, retried: make(chan map[string]bool, 1)}
	l.base.Store(s.base)
	go l.run(cluster)
	return l
}

// stop returns the ids of the messages that were retried.
func (l *load) stop() map[string]bool {
	l.t.Helper()
	l.ended.Store(true)
	return <-l.retried
}

// run retries each message as soon as it is stored. No request may be refused.
func (l *load) run(cluster *kfake.Cluster) {
	retried := map[string]bool{}
	defer func() { l.retried <- retried }()
	for !l.ended.Load() {
		l.produceDeadLetters(cluster, 1)
		for found := false; !found && !l.t.Failed(); {
			l.system.base, _ = l.base.Load().(string)
			status, answer := l.call(http.MethodGet, "/api/v1/dlq/"+l.dlqTopic+"?status=PENDING")
			if status != http.StatusOK {
				l.t.Errorf("list: %d %v", status, answer)
				return
			}
			list, _ := answer["messages"].([]any)
			for _, message := range list {
				id, _ := message.(map[string]any)["id"].(string)
				if retried[id] {
					continue // the request is accepted, and the message is not claimed yet
				}
				found = true
				status, answer := l.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry")
				if status != http.StatusOK && status != http.StatusAccepted { // the answer is 202 if the API stops meanwhile
					l.t.Errorf("retry: %d %v", status, answer)
					return
				}
				retried[id] = true
				l.count.Add(1)
			}
		}
	}
}

// buildFrom builds the programs from a folder of sources, or from the present sources if it is empty, with
// further migrations.
func buildFrom(t *testing.T, sources string, migrations map[string]string) (folder string) {
	t.Helper()
	if sources == "" && migrations == nil {
		return programs
	}
	if sources == "" {
		sources = ".."
	}
	sources, err := filepath.Abs(sources)
	require.NoError(t, err)
	folder = t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, sql := range migrations {
		file := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(file, []byte(sql), 0o600))
		overlay.Replace[filepath.Join(sources, "migrations", name+".up.sql")] = file
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "overlay.json"), text, 0o600))
	for _, name := range []string{"api", "worker"} {
		command := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(folder, "overlay.json"), "-o", filepath.Join(folder, name), "./cmd/"+name)
		command.Dir = sources
		output, err := command.CombinedOutput()
		require.NoError(t, err, string(output))
	}
	return folder
}
