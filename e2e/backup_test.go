package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
)

// The test follows the steps of docs/backup.md. After the backup, more dead letters arrive, and the running
// job sends more messages. The restored database has neither the new dead letters nor the new deliveries.
func TestABackupIsRestoredAsItsPageSays(t *testing.T) {
	t.Parallel()
	const before, after = 3_000, 1_000
	cluster := kafkatest.FakeCluster(t)
	s := newRehearsal(newSystem(t, cluster))
	s.requireClientPrograms()
	steps := codeBlocks(t, "../docs/backup.md")
	require.Len(t, steps, 4, "back up; restore, cancel, note what was delivered")

	worker := s.startWorker()
	api := s.startAPI()
	s.produceDeadLetters(cluster, before)
	s.eventually("they are stored", func() bool { return s.pending() == before })
	status, job := s.send(http.MethodPost, "/api/v1/jobs", strings.NewReader(fmt.Sprintf(`{"kind": "retry", "topic": %q, "rate_limit": 300}`, s.dlqTopic)),
		"Content-Type", "application/json", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status, job)
	sent := func() int { return s.rows("status = 'RESOLVED'") }
	s.eventually("the job sends", func() bool { return sent() > 0 })
	_, err := s.pool.Exec(t.Context(), `INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, lanes, upper_bound, snapshot_at, state, ended_at)
		SELECT gen_random_uuid(), 'w', 'later', 1, 1, now(), 'COMPLETED', now() FROM generate_series(1, 50)`) // more than one page
	require.NoError(t, err)
	s.follow(steps[0])

	known := sent()
	s.produceDeadLetters(cluster, after)
	s.eventually("they are stored too, and more is sent", func() bool { return s.rows("true") == before+after && sent() > known+500 })
	s.eventually("the job is slowed down", func() bool { // 202 means that the new rate is not in force yet
		status, _ := s.send(http.MethodPatch, "/api/v1/jobs/"+job["id"].(string), strings.NewReader(`{"rate_limit": 1}`), "Content-Type", "application/json")
		return status == http.StatusOK
	})
	ids := s.ids()
	for _, id := range ids[before : before+10] {
		status, answer := s.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry")
		require.Equal(t, http.StatusOK, status, answer)
	}
	require.NoError(t, worker.end())
	require.NoError(t, api.end())
	require.Less(t, sent(), before, "the job was running")

	s.follow(steps[1])
	s.env = append(s.env, "DLQ_DATABASE_NAME="+s.restored)
	s.pool = dbtest.Pool(t, s.restoredURL)
	require.Equal(t, before, s.rows("true"), "the dump is of one moment")
	require.Empty(t, s.wrongCounts())
	s.startAPI()
	require.Contains(t, s.follow(steps[2]), job["id"].(string))
	s.follow(steps[3])
	require.Empty(t, s.wrongCounts())

	s.startWorker()
	s.eventually("what arrived after the backup is read again", func() bool { return s.rows("true") == before+after })
	require.ElementsMatch(t, ids, s.ids(), "with the same ids")
	s.follow(steps[3]) // once more, for the messages that were read again
	s.eventually("the job is cancelled", func() bool {
		_, answer := s.call(http.MethodGet, "/api/v1/jobs/"+job["id"].(string))
		return answer["state"] == "CANCELLED"
	})
	status, _ = s.call(http.MethodPost, "/api/v1/dlq/"+s.dlqTopic+"/retry-all", "Prefer", "respond-async")
	require.Equal(t, http.StatusAccepted, status)
	s.eventually("the rest is sent", func() bool { return sent() == before+after })
	copies := consumeAll(t, cluster, s.topic)
	require.Len(t, copies, before+after, "nothing is lost")
	for id, n := range copies {
		require.Equal(t, 1, n, "%s is sent once", id)
	}
}

// requireClientPrograms skips the test without PostgreSQL's programs, and fails in CI.
func (s *system) requireClientPrograms() {
	s.t.Helper()
	var server int
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), `SELECT current_setting('server_version_num')::int / 10000`).Scan(&server))
	client := 0
	output, err := exec.Command("pg_dump", "--version").Output()
	if match := regexp.MustCompile(`\) (\d+)`).FindSubmatch(output); match != nil {
		client, _ = strconv.Atoi(string(match[1]))
	}
	if client >= server {
		return
	}
	if os.Getenv("CI") == "" {
		s.t.Skipf("SKIPPED: pg_dump %d or later is missing (%v)", server, err)
	}
	require.GreaterOrEqual(s.t, client, server, "pg_dump is too old or missing: %v", err)
}

// codeBlocks are the commands of a page.
func codeBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, match := range codeBlock.FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(match[1]))
	}
	return blocks
}

// rehearsal is a system that somebody restores from a backup.
type rehearsal struct {
	*system
	backup, restored, restoredURL string
}

func newRehearsal(s *system) *rehearsal {
	s.t.Helper()
	u, err := url.Parse(dbtest.URL(s.t))
	require.NoError(s.t, err)
	u.Path += "_restored"
	r := &rehearsal{
		system: s, backup: filepath.Join(s.t.TempDir(), "dlq.dump"),
		restored: strings.TrimPrefix(u.Path, "/"), restoredURL: u.String(),
	}
	original := s.pool
	s.t.Cleanup(func() {
		_, err := original.Exec(context.WithoutCancel(s.t.Context()), `DROP DATABASE IF EXISTS "`+r.restored+`" WITH (FORCE)`)
		require.NoError(s.t, err)
	})
	return r
}

// follow runs commands like a person who reads the page.
func (r *rehearsal) follow(commands string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.t.TempDir(), "DLQ_URL=" + r.base, "BACKUP=" + r.backup,
		"DATABASE_URL=" + dbtest.URL(r.t), "RESTORED=" + r.restored, "RESTORED_URL=" + r.restoredURL,
	}
	said, err := command.CombinedOutput()
	require.NoError(r.t, err, "%s\n%s", commands, said)
	return string(said)
}

// wrongCounts returns the topics and statuses whose counts differ from the number of rows.
func (s *system) wrongCounts() []string {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `
		SELECT format('%s %s: %s rows, counted %s', dlq_topic, status, r.n, c.n)
		FROM (SELECT dlq_topic, status::text, count(*) AS n FROM dlq.dlq_messages GROUP BY 1, 2) r
		FULL JOIN (SELECT dlq_topic, status::text, sum(messages) AS n FROM dlq.dlq_topic_counts GROUP BY 1, 2 HAVING sum(messages) > 0) c USING (dlq_topic, status)
		WHERE r.n IS DISTINCT FROM c.n`)
	require.NoError(s.t, err)
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return wrong
}
