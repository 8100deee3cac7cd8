package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/certtest"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
)

// page is docs/runbook.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	return string(text)
}

// section is a part of the page with its commands.
type section struct{ title, commands string }

var codeBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// sections returns the sections of the page that have commands, in their order.
func sections(t *testing.T) (found []section) {
	t.Helper()
	for part := range strings.SplitSeq(page(t), "\n## ") {
		title, text, _ := strings.Cut(part, "\n")
		var commands strings.Builder
		for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
			commands.WriteString(block[1])
		}
		if commands.Len() > 0 {
			found = append(found, section{title, commands.String()})
		}
	}
	return found
}

// operated is a system with an operator who follows the runbook.
type operated struct {
	*system
	fakeTopics func(messages int)
	cameBack   func(id string)
	worker     *program
	// chosen has the variables that an operator sets to values from the output of earlier commands.
	chosen []string
}

// choose sets a variable.
func (o *operated) choose(name string, value any) {
	o.chosen = append(o.chosen, fmt.Sprintf("%s=%s", name, value))
}

// first returns the id of the first element of a list.
func (o *operated) first(path, list string) any {
	o.t.Helper()
	_, answer := o.call(http.MethodGet, path)
	return answer[list].([]any)[0].(map[string]any)["id"]
}

// is changes the database, for a state that would come about only after a long time.
func (o *operated) is(sql string) {
	o.t.Helper()
	_, err := o.pool.Exec(o.t.Context(), sql)
	require.NoError(o.t, err)
}

// post sends a request that must succeed.
func (o *operated) post(path, body string) map[string]any {
	o.t.Helper()
	status, answer := o.send(http.MethodPost, path, strings.NewReader(strings.ReplaceAll(body, "TOPIC", o.dlqTopic)),
		"Content-Type", "application/json", "Prefer", "respond-async")
	require.Less(o.t, status, http.StatusBadRequest, "%s: %v", path, answer)
	return answer
}

// job starts a slow bulk retry, and returns its path.
func (o *operated) job() string {
	o.t.Helper()
	return o.jobOf(100, 1)
}

// jobOf starts a bulk retry of at least this number of messages, with a rate limit.
func (o *operated) jobOf(messages, rate int) string {
	o.t.Helper()
	o.arrive(messages)
	o.ended()
	return "/api/v1/jobs/" + o.post("/api/v1/jobs", fmt.Sprintf(`{"kind": "retry", "topic": "TOPIC", "rate_limit": %d}`, rate))["id"].(string)
}

// ended waits until no job runs.
func (o *operated) ended() {
	o.t.Helper()
	o.eventually("all jobs have ended", func() bool {
		_, answer := o.call(http.MethodGet, "/api/v1/jobs")
		live := 0
		for _, job := range answer["jobs"].([]any) {
			job := job.(map[string]any)
			if state := job["state"].(string); isLive(state) {
				live++
				o.send(http.MethodPost, "/api/v1/jobs/"+job["id"].(string)+"/cancel", http.NoBody)
			}
		}
		return live == 0
	})
}

// arrive makes messages PENDING.
func (o *operated) arrive(messages int) {
	o.t.Helper()
	before := o.rows("true")
	o.fakeTopics(messages)
	o.eventually("they are stored", func() bool { return o.rows("true") >= before+messages })
}

// told has the sections with commands. given prepares the situation of a section, and says has patterns of
// the output of its commands.
var told = map[string]struct {
	given func(*operated)
	says  []string
}{
	"Before you begin": {nil, []string{`server +database: ok`, `sign-in +you are anonymous`}},
	"From the alert to the retry": {func(o *operated) { o.arrive(30) }, []string{
		`  open +30 +\d+ +\S+ +payment: unavailable`, `error_message +payment service timed out`, `state +held\nhold.count +1000\n`, `owner +orders\n`, `state +open`,
		`status +RESOLVED\nerror\n`, `\n\S{36}  \S+  RESOLVED  delivered `, `retry  \S+  29 messages`, `\nmatched +29\n`, `\nstate +RUNNING\n`,
		`\nstate +PAUSED\nrate_limit +200\nstate +RUNNING\n`,
	}},
	"DlqBacklogGrows": {func(o *operated) { o.arrive(10) }, []string{`(?m)^[1-9]\d* +[1-9]\d* +\S{36}  payment: unavailable$`}},
	"DlqNewGroup":     {nil, []string{`20\S+ +\d+ +\S{36} +payment: unavailable`}},
	"DlqRegression": {func(o *operated) {
		_, answer := o.call(http.MethodGet, "/api/v1/groups?topic="+o.dlqTopic)
		o.post("/api/v1/groups/"+answer["groups"].([]any)[0].(map[string]any)["id"].(string)+"/fixed", `{"ticket": "https://tickets.example/7"}`)
		o.arrive(1)
	}, []string{`\S{36}  regression.* +\S{36} +https://tickets.example/7 +payment: unavailable`}},
	"DlqBacklogOld": {nil, []string{`20\S+  \S{36}  \S{36}  payment service timed out\n`}},
	"DlqDead": {func(o *operated) {
		o.ended()
		o.post("/api/v1/jobs", `{"kind": "dead", "topic": "TOPIC"}`)
		o.eventually("all are DEAD", func() bool { return o.pending() == 0 })
	}, []string{`  given_up  payment service timed out\n`, `"matched":[1-9]`, `"state":"COMPLETED"`, `"changed":[1-9]`}},
	"DlqCameBack": {func(o *operated) {
		o.ended()
		o.post("/api/v1/jobs", `{"kind": "retry", "topic": "TOPIC"}`)
		o.eventually("all are sent", func() bool { return o.pending() == 0 })
		var id string
		require.NoError(o.t, o.pool.QueryRow(o.t.Context(), `SELECT id::text FROM dlq.dlq_messages
			WHERE workflow_id LIKE 'retry-all-%' ORDER BY updated_at DESC LIMIT 1`).Scan(&id))
		o.cameBack(id)
	}, []string{`(?m)^1 +[1-9]\d* +\S{36} +COMPLETED`}},
	"DlqRepublishFailures": {nil, []string{`dlq_republished_total\{`, `"kafka":"ok"`}},
	"DlqRetrySuccessLow":   {nil, []string{`dlq_retried_total\{`, `result="delivered"`}},
	"DlqRetrySlow":         {func(o *operated) { o.jobOf(500, 60) }, []string{`rate_limit +50\n`}},
	"DlqIngestLag": {func(o *operated) {
		o.eventually("the lag is measured", func() bool { return strings.Contains(o.worker.metrics(o.t), "dlq_ingest_lag{") })
	}, []string{`dlq_ingest_lag\{`, `dlq_db_pool_acquires_waited_total `}},
	"DlqIngestStalled": {nil, []string{`"ingest":"ok"`, `v1 +\d+ +false`}},
	"DlqOffsetsLost": {func(o *operated) {
		o.is("UPDATE dlq.dlq_ingest_offsets SET lost = 7, lost_at = now() WHERE partition = 0 AND topic LIKE '%.dlq.v1'")
	}, []string{`v1 +7 +20\d\d-`}},
	"DlqArchiveLate":        {nil, []string{`"next": "20`, "Trigger request sent"}},
	"DlqScheduleMissed":     {nil, []string{`\{`}},
	"DlqNoWorker":           {nil, []string{`"worker":"ok"`}},
	"DlqNoApi":              {nil, []string{`database: ok`}},
	"DlqSweeperReleases":    {nil, []string{"dlq_orphans_released_total"}},
	"DlqCertificateExpires": {nil, []string{`use="server"\} 20`}},
	"PostgreSQL is away":    {nil, []string{`database: ok`, `"worker":"ok"`}},
	"Kafka is away": {func(o *operated) {
		job := o.job()
		o.post(job+"/pause", `{"reason": "the broker is away"}`)
		o.eventually("it is paused", func() bool {
			_, answer := o.call(http.MethodGet, job)
			return answer["state"] == "PAUSED"
		})
	}, []string{`\S{36}  \S+  the broker is away\n`}},
	"Temporal is away": {func(o *operated) {
		o.ended()
		o.is("UPDATE dlq.dlq_jobs SET state = 'FAILED', reason = 'its workflow is gone'")
	}, []string{`\S{36}  \S+ +\d+ +\d+ +its workflow is gone\n`}},
	"A poisoned topic": {func(o *operated) {
		o.arrive(5)
		o.choose("MESSAGE", o.first("/api/v1/dlq/"+o.dlqTopic+"?status=PENDING&sort=created_at", "messages"))
		o.choose("GROUP", o.first("/api/v1/groups?sort=pending&topic="+o.dlqTopic, "groups"))
	}, []string{
		`(?m)^[1-9]\d* +\S+\.v1$`, `by cause\n +\d+  \S{36}  payment: unavailable\n`, `(?m)^\S{36}  customer-\d+ +\d+ +payment service timed out$`, `status  DEAD\n`,
		`  open +\d+ +\d+ +\S+ +payment: unavailable`, `"state":"COMPLETED"`, `"changed":[1-9]`,
	}},
	"A stuck job": {func(o *operated) { o.job() }, []string{`rate_limit +1\n`, `workflow_id +\S+`, `"worker":"ok"`, `@`}},
	"A wrong redrive": {func(o *operated) {
		job := o.job()
		o.choose("JOB", strings.TrimPrefix(job, "/api/v1/jobs/"))
		o.eventually("some are sent", func() bool {
			_, answer := o.call(http.MethodGet, job)
			return count(answer, "retried") > 0
		})
	}, []string{`\nstate +CANCELL`, `dlq:job:create`, `the wrong group`, `(?m)^\S{36},\S{36},\S+\.v1,\d+,\d+$`}},
}

func TestTheCommandsOfTheRunbookWork(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	o := &operated{system: s, fakeTopics: func(messages int) { s.produceDeadLetters(cluster, messages) }}
	o.cameBack = func(id string) {
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(s.dlqTopic))
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("{}"), Headers: []kgo.RecordHeader{
			{Key: "original_topic", Value: []byte(s.topic)}, {Key: "dlq-message-id", Value: []byte(id)}, {Key: "dlq-retry-count", Value: []byte("1")},
		}}).FirstErr())
		o.eventually("it came back", func() bool {
			_, answer := o.call(http.MethodGet, "/api/v1/jobs")
			for _, job := range answer["jobs"].([]any) {
				if count(job.(map[string]any), "came_back") > 0 {
					return true
				}
			}
			return false
		})
	}
	certificate := certtest.Write(t, certtest.NewAuthority(t).Issue(t, "api"))
	env := s.env
	s.env = append(s.env, "DLQ_SERVER_TLS_CERT_FILE="+certificate.Cert, "DLQ_SERVER_TLS_KEY_FILE="+certificate.Key) // which only the API uses
	o.worker = s.startWorker()
	s.env = env
	s.startAPI()

	var begin string
	found := map[string]bool{}
	for _, section := range sections(t) {
		want, isTold := told[section.title]
		require.True(t, isTold, "the section %q has commands, and no row in this test", section.title)
		found[section.title] = true
		if begin == "" {
			begin = section.commands
		}
		if want.given != nil {
			want.given(o)
		}
		script := section.commands
		if section.title != "Before you begin" {
			script = "{ " + begin + "} >/dev/null\n" + script
		}
		said := o.shell(script)
		t.Logf("%s:\n%s", section.title, said)
		for _, text := range want.says {
			require.Regexp(t, text, said, section.title)
		}
	}
	for title := range told {
		require.True(t, found[title], "the section %q has no commands any more", title)
	}
}

// yes is the person who answers the questions of dlqctl.
const yes = "dlqctl() { command dlqctl --yes \"$@\"; }\n"

// shell runs commands like a person who reads the page. It stops at the first command that fails.
func (o *operated) shell(commands string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", yes+commands)
	queue := o.variable("DLQ_TEMPORAL_TASK_QUEUE")
	command.Env = append([]string{
		"PATH=" + programs + ":" + temporalFolder(o.t) + ":" + os.Getenv("PATH"), "HOME=" + o.t.TempDir(), "TEMPORAL_ADDRESS=" + temporaltest.Address(o.t),
		"DLQ_URL=" + o.base, "DLQ_WORKER_URL=http://" + address(o.t, o.worker), "TOPIC=" + o.dlqTopic, "SCHEDULE=" + queue + "/dlq-archive", "TASK_QUEUE=" + queue,
	}, o.chosen...)
	said, err := command.CombinedOutput()
	require.NoError(o.t, err, "%s\n%s", commands, said)
	return string(said)
}

// temporalFolder has the Temporal CLI under the name temporal.
func temporalFolder(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("temporal")
	if err != nil {
		if binary = os.Getenv(temporaltest.EnvBinary); binary == "" {
			binary, err = filepath.Abs("../.data/bin/temporal")
			require.NoError(t, err)
		}
	}
	folder := t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(folder, "temporal")))
	return folder
}

var tableRow = regexp.MustCompile("(?m)^\\| `([A-Z]+) ([^`]+)` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\|$")

// A table of the runbook says which requests work while a dependency is unavailable.
func TestTheRunbookKnowsWhatWorksWhileADependencyIsAway(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t)
	u, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	database, temporal, broker := newProxy(t, u.Host), newProxy(t, temporaltest.Address(t)), newKafkaProxy(t, cluster.ListenAddrs()[0])
	for _, p := range []*proxy{database, temporal, broker} {
		p.join(t)
	}
	u.Host = database.address
	s := newSystemAt(t, u, temporal.address, cluster)
	for i, variable := range s.env {
		if strings.HasPrefix(variable, "DLQ_KAFKA_BROKERS=") {
			s.env[i] = "DLQ_KAFKA_BROKERS=" + broker.address
		}
	}
	worker, api := s.startWorker(), s.startAPI()
	group := ""
	var messages []any
	// arrive makes messages PENDING, for one column.
	arrive := func() {
		before := s.rows("true")
		s.produceDeadLetters(cluster, 10)
		s.eventually("they are stored", func() bool { return s.rows("true") == before+10 })
		_, answer := s.call(http.MethodGet, "/api/v1/groups")
		group = answer["groups"].([]any)[0].(map[string]any)["id"].(string)
		_, answer = s.call(http.MethodGet, "/api/v1/dlq/"+s.dlqTopic)
		messages = answer["messages"].([]any)
	}
	message := func() string {
		id := messages[0].(map[string]any)["id"].(string)
		messages = messages[1:]
		return id
	}

	rows := tableRow.FindAllStringSubmatch(page(t), -1)
	require.Len(t, rows, 7)
	for column, away := range []*proxy{database, broker, temporal} {
		arrive()
		away.cut()
		s.eventually("the outage shows", func() bool { return api.readiness() == http.StatusServiceUnavailable })
		for _, row := range rows {
			path := strings.NewReplacer("$TOPIC", s.dlqTopic, "$GROUP", group, "$MESSAGE", message()).Replace(row[2])
			body, _ := json.Marshal(map[string]any{})
			switch {
			case row[1] == http.MethodGet:
				body = nil
			case strings.HasSuffix(path, "/jobs"):
				body = fmt.Appendf(nil, `{"kind": "retry", "topic": %q}`, s.dlqTopic)
			case row[1] == http.MethodPatch:
				body = []byte(`{"owner": "orders"}`)
			}
			status, answer := s.send(row[1], path, strings.NewReader(string(body)), "Content-Type", "application/json", "Prefer", "respond-async")
			require.Equal(t, row[3+column], fmt.Sprint(status), "%s, column %d: %v", row[0], column, answer)
		}
		away.join(t)
		s.eventually("all is well", func() bool { return api.readiness() == http.StatusOK && worker.readiness() == http.StatusOK })
	}
}
