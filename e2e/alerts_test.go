package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/promtest"
)

// query runs an expression in Prometheus, and returns how many series it has.
func (s *system) query(prometheus, expr string) int {
	s.t.Helper()
	response, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(expr))
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Error string
		Data  struct{ Result []any }
	}
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&answer))
	require.Empty(s.t, answer.Error, expr)
	return len(answer.Data.Result)
}

// A real Prometheus scrapes the programs, and a real Alertmanager notifies its receivers.
func TestAlertsAndDashboardsOnTheRealParts(t *testing.T) {
	t.Parallel()
	promtest.Tool(t, "prometheus")
	alertmanager, notified := promtest.StartAlertmanager(t)
	cluster := kafkatest.FakeCluster(t)
	s := newSystem(t, cluster)
	worker, api := s.startWorker(), s.startAPI()
	const messages = 20
	s.produceDeadLetters(cluster, messages)
	s.eventually("they are stored", func() bool { return s.pending() == messages })
	// Prometheus starts after all messages are stored, so the first scrape counts all messages. Otherwise
	// an alert could name a smaller number.
	prometheus := promtest.StartPrometheus(t, alertmanager, address(t, worker), address(t, api))

	// told waits until a receiver gets a notification with the text.
	told := func(receiver, text string) (said string) {
		for !strings.Contains(said, text) {
			said = notified.Next(t, receiver)
		}
		return said
	}
	change := func(method, path, body string) {
		status, answer := s.send(method, path, strings.NewReader(body), "Content-Type", "application/json")
		require.Less(t, status, http.StatusBadRequest, answer)
	}
	arrived := s.dlqTopic + ` has dead letters"`
	require.Contains(t, told("slack", arrived), "Most of them: payment: unavailable.")
	told("teams", s.dlqTopic+" has dead letters with a new cause")
	mail := told("mail", "Subject: "+s.dlqTopic+" has dead letters with a new cause")
	for _, text := range []string{
		fmt.Sprintf("%d messages of %s: payment: unavailable.", messages, s.dlqTopic), "Since 20",
		"What happened: https://dlq.test/groups?topic=" + s.dlqTopic, "What to do: https://docs.test/runbook.md#dlqnewgroup",
	} {
		require.Contains(t, mail, text)
	}

	_, list := s.call(http.MethodGet, "/api/v1/groups?topic="+s.dlqTopic)
	groups, _ := list["groups"].([]any)
	require.Len(t, groups, 1)
	group := "/api/v1/groups/" + groups[0].(map[string]any)["id"].(string)
	change(http.MethodPatch, group, `{"state": "held", "until": {"count": 1000}, "reason": "the release is on Monday"}`)
	told("slack", "Resolved: "+arrived)
	change(http.MethodPatch, group, `{"state": "open"}`)
	_, err := s.pool.Exec(t.Context(), "UPDATE dlq.dlq_messages SET created_at = created_at - interval '25 hours'")
	require.NoError(t, err)
	told("slack", "wait for more than a day")

	// The panels have data while messages go out.
	s.send(http.MethodPost, "/api/v1/jobs", strings.NewReader(fmt.Sprintf(`{"kind": "retry", "topic": %q, "rate_limit": 2}`, s.dlqTopic)),
		"Content-Type", "application/json", "Prefer", "respond-async")
	empty := panels(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		maps.DeleteFunc(empty, func(_, expr string) bool { return s.query(prometheus, expr) > 0 })
		assert.Empty(c, empty, "these panels had no data yet")
	}, time.Minute, 200*time.Millisecond)

	s.eventually("all are sent", func() bool { return s.pending() == 0 })
	told("slack", "Resolved: "+arrived)

	change(http.MethodPost, group+"/fixed", `{"reason": "released"}`)
	s.produceDeadLetters(cluster, 1)
	told("pager", "A fixed cause is back in "+s.dlqTopic)

	missing := s.topic + ".missing"
	const refused = 6 // a smaller number raises no alert
	for range refused {
		s.produceTo(cluster, missing)
	}
	s.eventually("they are stored", func() bool { return s.rows("original_topic = '"+missing+"'") == refused })
	_, list = s.call(http.MethodGet, "/api/v1/dlq/"+missing)
	for _, message := range list["messages"].([]any) {
		s.send(http.MethodPost, "/api/v1/dlq/messages/"+message.(map[string]any)["id"].(string)+"/retry", http.NoBody, "Prefer", "respond-async")
	}
	told("slack", "Messages cannot be sent to "+missing)
}

// produceTo writes a dead letter with the given original topic.
func (s *system) produceTo(cluster *kfake.Cluster, original string) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(s.dlqTopic))
	require.NoError(s.t, err)
	defer client.Close()
	require.NoError(s.t, client.ProduceSync(s.t.Context(), &kgo.Record{Value: []byte("{}"), Headers: []kgo.RecordHeader{
		{Key: "original_topic", Value: []byte(original)}, {Key: "error", Value: []byte("no such topic")},
	}}).FirstErr())
}

// panels are the expressions of all dashboards, by their titles.
func panels(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../deploy/grafana/*.json")
	require.NoError(t, err)
	exprs := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d struct {
			UID    string
			Panels []struct {
				Title   string
				Targets []struct{ RefID, Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &d))
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				exprs[d.UID+" "+panel.Title+" "+target.RefID] = strings.NewReplacer("$topic", ".*", "$__rate_interval", "30s").Replace(target.Expr)
			}
		}
	}
	require.NotEmpty(t, exprs)
	return exprs
}

// address is where a program has its metrics.
func address(t *testing.T, p *program) string {
	t.Helper()
	u, err := url.Parse(p.ready)
	require.NoError(t, err)
	return u.Host
}
