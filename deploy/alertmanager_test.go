package deploy_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/promtest"
)

func TestAlertmanagerRoutesBySeverityAndTeam(t *testing.T) {
	t.Parallel()
	amtool := promtest.Tool(t, "amtool")
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

// alert sends an alert about the backlog of a topic to an Alertmanager.
func alert(t *testing.T, base, band, severity string, ends time.Time) {
	t.Helper()
	body, err := json.Marshal([]map[string]any{{
		"labels": map[string]string{"alertname": "DlqBacklogGrows", "topic": "orders.dlq.v1", "band": band, "severity": severity, "team": "payments"},
		"annotations": map[string]string{
			"summary": "orders.dlq.v1 has at least " + band + " dead letters", "description": "612 messages <of> orders.dlq.v1 are PENDING.",
			"runbook_url": "https://docs.test/runbook.md#dlqbackloggrows", "page_url": "https://dlq.test/console/topics/orders.dlq.v1",
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
	base, n := promtest.StartAlertmanager(t)
	soon := time.Now().Add(time.Hour)
	alert(t, base, "500", "warning", soon)

	var slack struct {
		Attachments []struct {
			Title, Text, Color string
			Link               string `json:"title_link"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(n.Next(t, "slack")), &slack))
	told := slack.Attachments[0]
	require.Equal(t, "orders.dlq.v1 has at least 500 dead letters", told.Title)
	require.Equal(t, "https://dlq.test/console/topics/orders.dlq.v1", told.Link, "the title leads to the page")
	require.Equal(t, "warning", told.Color)
	for _, part := range []string{"612 messages", "What happened: https://dlq.test/console/topics/orders.dlq.v1", "What to do: https://docs.test/", "Since 20"} {
		require.Contains(t, told.Text, part)
	}
	mail := n.Next(t, "mail")
	require.Contains(t, mail, "Subject: orders.dlq.v1 has at least 500 dead letters")
	require.Contains(t, mail, "612 messages &lt;of&gt; orders.dlq.v1")
	require.Contains(t, n.Next(t, "teams"), `"status":"firing"`)
	require.Empty(t, n["pager"], "it is not critical")

	// The alert with the larger band replaces the alert with the smaller band, and the pager is called.
	alert(t, base, "5000", "critical", soon)
	require.Contains(t, n.Next(t, "pager"), "at least 5000 dead letters")

	alert(t, base, "5000", "critical", time.Now())
	require.Contains(t, n.Next(t, "pager"), `"status":"resolved"`)
}
