package api_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func TestEveryGETOfTheAPIIs304AsLongAsItsAnswerIsTheSame(t *testing.T) {
	t.Parallel()
	w := start(t)
	archived := w.addDead(1)[0].String()
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	message := w.add(1, dlqtest.Cause("no price"))[0].String()
	group := w.groupOf(message)
	w.json(http.MethodPost, jobsPath, `{"kind":"revive","topic":"orders.dlq.v1"}`)
	job := w.json(http.MethodPost, jobsPath, wholeTopic).field(t, "id").(string)
	plan, _ := w.planned(wholeTopic)
	ids := map[string]string{
		"/api/v1/dlq/messages/:id": message, "/api/v1/dlq/messages/:id/chain": message,
		"/api/v1/groups/:id": group, "/api/v1/archive/messages/:id": archived,
		"/api/v1/jobs/:id": job, "/api/v1/jobs/:id/series": job, "/api/v1/plans/:id": plan.field(t, "id").(string),
	}
	routes := tableOfRoutes(t)
	routes["GET /api/v1/me"] = ""
	delete(routes, "GET /api/v1/dlq/:topic/export") // its answer is a stream
	checked := 0
	for route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if method != http.MethodGet || !strings.HasPrefix(path, "/api/v1/") && path != "/debug/log-level" {
			continue
		}
		checked++
		require.Equal(t, strings.Contains(path, ":id"), ids[path] != "", path)
		address := strings.NewReplacer(":id", ids[path], ":topic", "orders.dlq.v1").Replace(path)
		if path == "/api/v1/archive/messages" {
			address += "?topic=orders.dlq.v1"
		}
		got := w.call(http.MethodGet, address)
		require.Equal(t, http.StatusOK, got.status, "%s %s", address, got.body)
		tag := got.header.Get("ETag")
		for _, named := range []string{tag, "W/" + tag, "*", `"a", W/"b,c",` + tag + `,"d"`} {
			unchanged := w.call(http.MethodGet, address, "If-None-Match: "+named)
			require.Equal(t, http.StatusNotModified, unchanged.status, "%s %s", address, named)
			require.Empty(t, unchanged.body)
			require.Empty(t, unchanged.header.Get("Content-Type"))
			require.Equal(t, tag, unchanged.header.Get("ETag"))
			require.Equal(t, "no-store", unchanged.header.Get("Cache-Control"))
		}
		again := w.call(http.MethodGet, address, `If-None-Match: "a", "*", "b,*,c", `+strings.Trim(tag, `"`))
		require.Equal(t, http.StatusOK, again.status, address)
		require.Equal(t, got.body, again.body)
		_, head := w.send(http.MethodHead, address, nil)
		require.Equal(t, []any{http.StatusOK, tag}, []any{head.status, head.header.Get("ETag")}, address)
		_, head = w.send(http.MethodHead, address, nil, `If-None-Match: "a"`, "If-None-Match: "+tag) // two header lines are one list
		require.Equal(t, []any{http.StatusNotModified, tag}, []any{head.status, head.header.Get("ETag")}, address)
	}
	require.Equal(t, 17, checked)
}

func TestAChangeGivesANewTag(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1)[0]
	for _, path := range []string{
		"/api/v1/dlq", "/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/messages/" + id.String(), "/api/v1/audit",
	} {
		before := w.call(http.MethodGet, path)
		_, err := w.store.MarkDead(t.Context(), &dlq.Operation{Subject: "ann", Action: dlq.PermMessageDead}, id)
		require.NoError(t, err)
		after := w.call(http.MethodGet, path, "If-None-Match: "+before.header.Get("ETag"))
		require.Equal(t, http.StatusOK, after.status, path)
		require.NotEqual(t, before.header.Get("ETag"), after.header.Get("ETag"), path)
		_, err = w.store.Revive(t.Context(), nil, id)
		require.NoError(t, err)
	}
}

// A page shows a paused job longer than any other job.
func TestAPausedBulkRetryHasTheSameTagUntilItIsResumed(t *testing.T) {
	t.Parallel()
	started := time.Now().Add(-time.Hour)
	one := &oneBulk{bulk: dlq.Job{ID: dlq.NewID(), Spec: dlq.JobSpec{Kind: dlq.KindRetry}, State: dlq.JobPaused, Matched: 9, Counts: dlq.JobCounts{Retried: 7},
		StartedAt: started, UpdatedAt: started.Add(3 * time.Second)}}
	w := start(t, with(one))
	path := jobsPath + "/" + one.bulk.ID.String()
	first := w.call(http.MethodGet, path)
	require.InDelta(t, 2.333, first.field(t, "average_per_second"), 0.001)
	require.Equal(t, http.StatusNotModified, w.call(http.MethodGet, path, "If-None-Match: "+first.header.Get("ETag")).status)
	one.bulk.State = dlq.JobRunning
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, path, "If-None-Match: "+first.header.Get("ETag")).status)
}

func TestOnlySuccessfulReadsHaveATag(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	id := w.add(1)[0].String()
	path := "/api/v1/dlq/messages/" + id
	tag := w.call(http.MethodGet, path, bearer("viewer")).header.Get("ETag")
	require.NotEmpty(t, tag)
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{http.MethodGet, path, "", http.StatusUnauthorized},
		{http.MethodGet, path, "nobody", http.StatusUnauthorized},
		{http.MethodGet, path, "viewer/stock.*", http.StatusNotFound},
		{http.MethodGet, "/debug/log-level", "viewer", http.StatusForbidden},
		{http.MethodGet, "/api/v1/dlq/messages/" + someID, "viewer", http.StatusNotFound},
		{http.MethodGet, "/api/v1/dlq/messages/x", "viewer", http.StatusBadRequest},
		{http.MethodPost, path + "/dead", "admin", http.StatusOK},
	} {
		for _, named := range []string{"*", tag} {
			got := w.call(c.method, c.path, bearer(c.token), "If-None-Match: "+named)
			require.Equal(t, c.status, got.status, "%s %s", c.path, c.token)
			require.Empty(t, got.header.Get("ETag"))
			require.NotEmpty(t, got.body)
		}
	}
}

func TestACallerWithOtherRightsGetsHisOwnAnswer(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(1)
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic = "payments.dlq.v1" })
	all := w.call(http.MethodGet, "/api/v1/dlq", bearer("viewer"))
	own := w.call(http.MethodGet, "/api/v1/dlq", bearer("viewer/orders.*"), "If-None-Match: "+all.header.Get("ETag"))
	require.Equal(t, http.StatusOK, own.status)
	require.NotContains(t, own.body, "payments")
	require.NotEqual(t, all.header.Get("ETag"), own.header.Get("ETag"))
}

func TestAHostileIfNoneMatchIsNoMatch(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.HeaderLimit = 16 << 10 })
	for _, hostile := range []string{
		"", `"`, `""`, "W/", ",,,", "W/*", `"*"`, "\xff\xfe", "null",
		strings.Repeat(",", 15<<10), strings.Repeat(`W/"a",`, 2500), `"` + strings.Repeat("x", 15<<10),
	} {
		_, got := w.send(http.MethodGet, "/api/v1/dlq", nil, "If-None-Match: "+hostile)
		require.Equal(t, http.StatusOK, got.status, hostile)
		require.NotEmpty(t, got.body)
	}
	_, got := w.send(http.MethodGet, "/api/v1/dlq", nil, "If-None-Match: "+strings.Repeat(`"a",`, 5000))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, got.status, got.body)
}

func TestTheSpecificationDocuments304OfEveryReadOfTheAPI(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	document, err := libopenapi.NewDocument(content)
	require.NoError(t, err)
	model, err := document.BuildV3Model()
	require.NoError(t, err)
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		isStream := strings.HasSuffix(path, "/export")
		if item.Get == nil || isStream || !strings.HasPrefix(path, "/api/v1/") && path != "/debug/log-level" {
			continue
		}
		require.NotNil(t, item.Get.Responses.Codes.GetOrZero("304"), path)
		require.NotNil(t, item.Get.Responses.Codes.GetOrZero("200").Headers.GetOrZero("ETag"), path)
		require.Equal(t, "If-None-Match", item.Get.Parameters[len(item.Get.Parameters)-1].Name, path)
	}
}
