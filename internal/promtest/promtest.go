// Package promtest starts Prometheus and Alertmanager with the files in deploy, for tests.
package promtest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Tool finds a program of Debian's packages prometheus and prometheus-alertmanager, which .ci/run
// installs. If the program is missing, the test fails in CI, and is skipped elsewhere.
func Tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("SKIPPED: %s is not in PATH; install Debian's packages prometheus and prometheus-alertmanager", name)
	}
	require.NoError(t, err)
	return path
}

// Notified has the notifications of each receiver of an Alertmanager, by the receiver's name.
type Notified map[string]chan string

// Next waits for a notification.
func (n Notified) Next(t *testing.T, receiver string) string {
	t.Helper()
	select {
	case text := <-n[receiver]:
		return text
	case <-time.After(time.Minute): // the programs count every 15 seconds
		t.Fatalf("%s is not notified", receiver)
		return ""
	}
}

// StartAlertmanager starts Alertmanager with the shipped configuration, changed to the receivers of
// the test and to short waits. It returns the URL of Alertmanager, and the notifications.
func StartAlertmanager(t *testing.T) (base string, n Notified) {
	t.Helper()
	program := Tool(t, "prometheus-alertmanager")
	dir := t.TempDir()
	n = Notified{}
	for _, receiver := range []string{"slack", "teams", "pager", "mail"} {
		n[receiver] = make(chan string, 1000) // a full channel would block the receiver
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n[strings.Trim(r.URL.Path, "/")] <- string(body)
	}))
	t.Cleanup(receiver.Close)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slack"), []byte(receiver.URL+"/slack"), 0o600))
	shipped, err := os.ReadFile(deployed("alertmanager/alertmanager.yaml"))
	require.NoError(t, err)
	replaced := strings.NewReplacer(
		"[dlq.tmpl]", "["+deployed("alertmanager/dlq.tmpl")+"]", "/etc/alertmanager/secrets/slack-url", filepath.Join(dir, "slack"),
		"https://prod.example.com/workflows/dead-letters", receiver.URL+"/teams", "https://pager.example.com/alertmanager", receiver.URL+"/pager",
		"smtp.example.com:587", mailServer(t, n["mail"]), "  smtp_auth_username: dlq-manager\n", "  smtp_require_tls: false\n",
		"  smtp_auth_password_file: /etc/alertmanager/secrets/smtp-password\n", "", "group_wait: 10s ", "group_wait: 100ms ",
		"group_interval: 5m", "group_interval: 200ms",
	).Replace(string(shipped))
	config := filepath.Join(dir, "alertmanager.yaml")
	require.NoError(t, os.WriteFile(config, []byte(replaced), 0o600))

	return run(t, program, "--config.file="+config, "--storage.path="+dir, "--cluster.listen-address="), n
}

// StartPrometheus starts Prometheus, which scrapes the addresses every second and sends alerts to an
// Alertmanager. It has the shipped rules, but alerts fire after a second instead of five minutes. Alerts
// with a topic belong to the team payments, which gets e-mail. It returns the URL of Prometheus.
func StartPrometheus(t *testing.T, alertmanager string, addresses ...string) (base string) {
	t.Helper()
	program := Tool(t, "prometheus")
	dir := t.TempDir()
	config, rules := filepath.Join(dir, "prometheus.yaml"), filepath.Join(dir, "rules.yaml")
	shipped, err := os.ReadFile(deployed("prometheus/rules.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(rules, bytes.ReplaceAll(shipped, []byte("for: 5m"), []byte("for: 1s")), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s, external_labels: {dlq_console: "https://dlq.test", dlq_docs: "https://docs.test"}}
rule_files: [%s]
alerting:
  alert_relabel_configs: [{source_labels: [topic], regex: ".+", target_label: team, replacement: payments}]
  alertmanagers: [{static_configs: [{targets: [%q]}]}]
scrape_configs: [{job_name: dlq-manager, static_configs: [{targets: ["%s"]}]}]
`, rules, strings.TrimPrefix(alertmanager, "http://"), strings.Join(addresses, `", "`)), 0o600))
	return run(t, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"))
}

// deployed is the path of a file in deploy.
func deployed(name string) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "deploy", name)
}

// run starts one of the programs, and waits until it is ready.
func run(t *testing.T, program string, arguments ...string) (base string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	log := &bytes.Buffer{}
	command := exec.CommandContext(t.Context(), program, append(arguments, "--web.listen-address="+address)...)
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
	return base
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
						received <- strings.NewReplacer("=\n", "", "=3D", "=").Replace(string(text)) // quoted-printable
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
