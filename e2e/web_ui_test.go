package e2e

import (
	"bytes"
	"context"
	"flag"
	"html"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/dev"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
	"dlqmanager/workflows"
)

var writeDocs = flag.Bool("write-docs", false, "write the screenshots to docs/images")

// webUI is the Temporal Web UI in headless Chromium.
type webUI struct {
	t       *testing.T
	address string
}

// shows opens a page again and again until it has the texts. With -write-docs it also takes a screenshot,
// if name is not empty.
func (u *webUI) shows(name, path string, texts ...string) {
	u.t.Helper()
	for attempt := 1; ; attempt++ {
		shown := shownBy(u.open(path, "--dump-dom"))
		missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(shown, text) })
		if len(missing) == 0 {
			break
		}
		require.Less(u.t, attempt, 10, "%s does not show %q", path, missing) // a page may be read before it is complete
	}
	if *writeDocs && name != "" {
		image, err := filepath.Abs("../docs/images/" + name + ".png")
		require.NoError(u.t, err)
		u.open(path, "--screenshot="+image)
	}
}

func (u *webUI) open(path, do string) string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir="+u.t.TempDir(), "--window-size=1300,820",
		"--virtual-time-budget=8000", do, u.address+"/namespaces/default/"+path)
	var document, problems bytes.Buffer
	command.Stdout, command.Stderr = &document, &problems
	require.NoError(u.t, command.Run(), problems.String())
	return document.String()
}

var renderedFrame = regexp.MustCompile(`/render\?content=([^&"]*)`)

// shownBy returns the text of a document, with the Markdown that it shows in frames.
func shownBy(document string) string {
	text := html.UnescapeString(document)
	for _, frame := range renderedFrame.FindAllStringSubmatch(text, -1) {
		if markdown, err := url.QueryUnescape(frame[1]); err == nil {
			text += "\n" + markdown
		}
	}
	return text
}

// withoutWaiting returns the address of a proxy that ends requests which wait for the next event of a
// workflow. Otherwise a page would never be complete, since the browser waits for all answers.
func withoutWaiting(t *testing.T, address string) string {
	t.Helper()
	target, err := url.Parse(address)
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if r.URL.Query().Get("waitNewEvent") == "true" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Second)
			defer cancel()
		}
		forward.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// The test sees what a person sees who works in the Temporal Web UI.
func TestTheTemporalWebUIShowsRetries(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("chromium"); err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "chromium is not in PATH")
		t.Skip("SKIPPED: chromium is not in PATH")
	}
	binaries, err := filepath.Abs("../.data/bin")
	require.NoError(t, err)
	o := dev.TemporalOptions{Dir: t.TempDir(), BinDir: binaries, Binary: os.Getenv(temporaltest.EnvBinary), InMemory: true, Tuned: true}
	_, err = exec.LookPath("temporal")
	if err == nil {
		o.Binary = ""
	}
	ui, err := url.Parse("http://" + freeAddress(t))
	require.NoError(t, err)
	o.UIPort, err = strconv.Atoi(ui.Port())
	require.NoError(t, err)
	server, err := dev.StartTemporal(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	u := &webUI{t, withoutWaiting(t, server.UIURL)}

	database, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	cluster := kafkatest.FakeCluster(t)
	s := newSystemAt(t, database, server.Address, cluster)
	s.topic, s.dlqTopic = "orders.v1", "orders.dlq.v1"
	require.NoError(t, cluster.CreateTopic(s.topic, 3, nil))
	require.NoError(t, cluster.CreateTopic(s.dlqTopic, 3, nil))
	s.env = append(s.env, "DLQ_SERVER_PUBLIC_URL=https://dlq.example.com", "DLQ_TEMPORAL_TASK_QUEUE="+workflows.DefaultTaskQueue)
	s.startWorker()
	s.startAPI()
	s.produceDeadLetters(cluster, 900)
	s.eventually("all are stored", func() bool { return s.pending() == 900 })

	_, list := s.call(http.MethodGet, "/api/v1/dlq/"+s.dlqTopic+"?page_size=1")
	message := list["messages"].([]any)[0].(map[string]any)["id"].(string)
	status, answer := s.send(http.MethodPost, "/api/v1/dlq/messages/"+message+"/retry", strings.NewReader(`{"reason": "the payment service is back"}`), "Content-Type", "application/json")
	require.Equal(t, http.StatusOK, status, "%v", answer)
	u.shows("web-ui-single-retry", "workflows/retry-message-"+message, "MarkRetrying", "republish to "+s.topic, "Finalize")

	_, answer = s.send(http.MethodPost, "/api/v1/jobs", strings.NewReader(`{"kind": "retry", "topic": "`+s.dlqTopic+`", "rate_limit": 5, "reason": "the payment service is back"}`),
		"Content-Type", "application/json", "Prefer", "respond-async")
	job := answer["id"].(string)
	connection, err := client.Dial(client.Options{HostPort: server.Address, Logger: quiet{}})
	require.NoError(t, err)
	defer connection.Close()
	described, err := connection.DescribeWorkflowExecution(t.Context(), "retry-all-"+job, "")
	require.NoError(t, err)
	run := described.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	page := "workflows/retry-all-" + job + "/" + run + "/user-metadata"
	u.shows("web-ui-running", page, "retry all of "+s.dlqTopic, "**RUNNING**", "[In the console](https://dlq.example.com/jobs/"+job+")", "[In the API](https://dlq.example.com/api/v1/jobs/"+job+")",
		"asked for by anonymous", "Reason: the payment service is back")
	u.shows("", "workflows/retry-all-"+job+"/"+run+"/search-attributes", "DlqTopic", s.dlqTopic, "DlqActor", "anonymous")

	s.send(http.MethodPost, "/api/v1/jobs/"+job+"/pause", strings.NewReader(`{"reason": "looking at the consumer"}`), "Content-Type", "application/json")
	u.shows("web-ui-paused", page, "**PAUSED**", "looking at the consumer")
	s.send(http.MethodPatch, "/api/v1/jobs/"+job, strings.NewReader(`{"rate_limit": 0}`), "Content-Type", "application/json")
	s.call(http.MethodPost, "/api/v1/jobs/"+job+"/resume")
	s.eventually("all are sent", func() bool { return s.pending() == 0 })
	u.shows("web-ui-finished", page, "**COMPLETED**", "899 of 899 done")
	u.shows("web-ui-schedule", "schedules/"+workflows.ArchiveScheduleID, "ArchiveMessages", "Upcoming Runs")
}
