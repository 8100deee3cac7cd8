package deploy_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tool finds a program of Debian's packages, which .ci/run installs.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("SKIPPED: %s is not installed", name)
	}
	require.NoError(t, err)
	return path
}

func TestAlertmanagerRoutesBySeverityAndTeam(t *testing.T) {
	t.Parallel()
	amtool := tool(t, "amtool")
	output, err := exec.CommandContext(t.Context(), amtool, "check-config", "alertmanager/alertmanager.yaml").CombinedOutput()
	require.NoError(t, err, "%s", output)
	for labels, want := range map[string]string{
		"severity=info topic=a": "chat", "severity=warning team=other": "chat", "severity=warning team=payments": "payments,chat",
		"severity=critical": "pager,chat", "severity=critical team=payments": "pager,payments,chat",
	} {
		arguments := append([]string{"config", "routes", "test", "--config.file=alertmanager/alertmanager.yaml"}, strings.Fields(labels)...)
		output, err := exec.CommandContext(t.Context(), amtool, arguments...).Output()
		require.NoError(t, err, labels)
		require.Equal(t, want, strings.TrimSpace(string(output)), labels)
	}
}

// notified are what the receivers of an Alertmanager have received, by their names.
type notified map[string]chan string

// next waits for a notification.
func (n notified) next(t *testing.T, receiver string) string {
	t.Helper()
	select {
	case text := <-n[receiver]:
		return text
	case <-time.After(20 * time.Second):
		t.Fatalf("%s is not notified", receiver)
		return ""
	}
}

// startAlertmanager starts it with the shipped configuration, whose addresses are ours, and
// which does not wait. It returns its URL.
func startAlertmanager(t *testing.T) (base string, n notified) {
	t.Helper()
	program := tool(t, "prometheus-alertmanager")
	dir := t.TempDir()
	n = notified{"slack": make(chan string, 10), "teams": make(chan string, 10), "pager": make(chan string, 10), "mail": make(chan string, 10)}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n[strings.Trim(r.URL.Path, "/")] <- string(body)
	}))
	t.Cleanup(receiver.Close)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slack"), []byte(receiver.URL+"/slack"), 0o600))
	shipped, err := os.ReadFile("alertmanager/alertmanager.yaml")
	require.NoError(t, err)
	templates, err := filepath.Abs("alertmanager/dlq.tmpl")
	require.NoError(t, err)
	replaced := strings.NewReplacer(
		"[dlq.tmpl]", "["+templates+"]", "/etc/alertmanager/secrets/slack-url", filepath.Join(dir, "slack"),
		"https://prod.example.com/workflows/dead-letters", receiver.URL+"/teams", "https://pager.example.com/alertmanager", receiver.URL+"/pager",
		"smtp.example.com:587", mailServer(t, n["mail"]), "  smtp_auth_username: dlq-manager\n", "  smtp_require_tls: false\n",
		"  smtp_auth_password_file: /etc/alertmanager/secrets/smtp-password\n", "", "group_wait: 10s ", "group_wait: 100ms ", "group_interval: 5m", "group_interval: 200ms",
	).Replace(string(shipped))
	config := filepath.Join(dir, "alertmanager.yaml")
	require.NoError(t, os.WriteFile(config, []byte(replaced), 0o600))

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	log := &bytes.Buffer{}
	command := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.path="+dir, "--web.listen-address="+address, "--cluster.listen-address=")
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	base = "http://" + address
	require.Eventually(t, func() bool {
		response, err := http.Get(base + "/-/ready")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	}, 20*time.Second, 50*time.Millisecond)
	return base, n
}

// mailServer takes messages by SMTP, and returns its address.
func mailServer(t *testing.T, received chan<- string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				c := textproto.NewConn(connection)
				_ = c.PrintfLine("220 mail")
				for {
					line, err := c.ReadLine()
					switch command := strings.ToUpper(line); {
					case err != nil:
						return
					case command == "DATA":
						_ = c.PrintfLine("354 go on")
						text, _ := c.ReadDotBytes()
						received <- string(text)
						_ = c.PrintfLine("250 taken")
					case command == "QUIT":
						_ = c.PrintfLine("221 bye")
						return
					default:
						_ = c.PrintfLine("250 ok")
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// alert tells an Alertmanager about a backlog of a topic.
func alert(t *testing.T, base, band, severity string, ends time.Time) {
	t.Helper()
	body, err := json.Marshal([]map[string]any{{
		"labels": map[string]string{"alertname": "DlqBacklogGrows", "topic": "orders.dlq.v1", "band": band, "severity": severity, "team": "payments"},
		"annotations": map[string]string{
			"summary": "orders.dlq.v1 has at least " + band + " dead letters", "description": "612 messages <of> orders.dlq.v1 are PENDING.",
			"runbook_url": "https://docs.test/runbook.md#dlqbackloggrows", "topic_url": "https://dlq.test/api/v1/groups?topic=orders.dlq.v1",
		},
		"startsAt": time.Now().Add(-time.Minute), "endsAt": ends,
	}})
	require.NoError(t, err)
	response, err := http.Post(base+"/api/v2/alerts", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusOK, response.StatusCode)
}

func TestNotificationsHaveTheTopicAndTheLinks(t *testing.T) {
	t.Parallel()
	base, n := startAlertmanager(t)
	soon := time.Now().Add(time.Hour)
	alert(t, base, "500", "warning", soon)

	var slack struct {
		Attachments []struct {
			Title, Text, Color string
			Link               string `json:"title_link"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(n.next(t, "slack")), &slack))
	told := slack.Attachments[0]
	require.Equal(t, "orders.dlq.v1 has at least 500 dead letters", told.Title)
	require.Equal(t, "https://docs.test/runbook.md#dlqbackloggrows", told.Link)
	require.Equal(t, "warning", told.Color)
	for _, part := range []string{"612 messages", "What happened: https://dlq.test/api/v1/groups?topic=orders.dlq.v1", "What to do: https://docs.test/", "Since 20"} {
		require.Contains(t, told.Text, part)
	}
	mail := n.next(t, "mail")
	require.Contains(t, mail, "Subject: orders.dlq.v1 has at least 500 dead letters")
	require.Contains(t, mail, "612 messages &lt;of&gt; orders.dlq.v1")
	require.Contains(t, n.next(t, "teams"), `"status":"firing"`)
	require.Empty(t, n["pager"], "it is not critical")

	// The larger band takes the place of the smaller one, and somebody is called.
	alert(t, base, "5000", "critical", soon)
	require.Contains(t, n.next(t, "pager"), "at least 5000 dead letters")

	alert(t, base, "5000", "critical", time.Now())
	require.Contains(t, n.next(t, "pager"), `"status":"resolved"`)
}
