package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
)

func withConsole(o *api.Options) { o.Pages = "https://dlq.test/console" }

func TestAnswersNameTheirPageOfTheConsole(t *testing.T) {
	t.Parallel()
	w := start(t, withConsole)
	id := w.addDead(1)[0].String()
	page := func(path string) string {
		return "<https://dlq.test/console" + path + `>; rel="alternate"; type="text/html"`
	}
	message := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id)
	require.Equal(t, page("/messages/"+id), message.header.Get("Link"))
	same := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id, "If-None-Match: "+message.header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, same.status)
	require.Equal(t, page("/messages/"+id), same.header.Get("Link"))
	group := w.addGroup(1, noPrice)
	require.Equal(t, page(strings.TrimPrefix(group, "/api/v1")), w.call(http.MethodGet, group).header.Get("Link"))
	for _, path := range []string{"/api/v1/dlq", "/api/v1/dlq/messages/" + id + "/chain", "/api/v1/groups", "/api/v1/groups/00000000-0000-4000-8000-000000000000"} {
		require.Empty(t, w.call(http.MethodGet, path).header.Get("Link"), path)
	}
	job, _ := w.startBulk(1)
	require.Equal(t, page(strings.TrimPrefix(job, "/api/v1")), w.call(http.MethodGet, job).header.Get("Link"))
}

func TestWithoutAConsoleAnswersNameNoPage(t *testing.T) {
	t.Parallel()
	w := start(t)
	require.Empty(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+w.addDead(1)[0].String()).header.Get("Link"))
}
