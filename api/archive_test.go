package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

func (r *retries) TriggerArchive(context.Context) (string, error) {
	if r.noArchive {
		return "", dlq.ErrNotFound
	}
	return "dlq-archive", nil
}

func TestAMessageThatHasEndedShowsWhenItIsArchivedAndPurged(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.ArchiveAfter, o.PurgeAfter = time.Hour, 3*time.Hour })
	id := w.add(1)[0].String()
	path := "/api/v1/dlq/messages/" + id
	for _, name := range []string{"archive_at", "purge_at"} {
		require.Nil(t, w.call(http.MethodGet, path).field(t, name), "a PENDING message stays")
	}
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, path+"/dead").status)
	at := func(object any, name string) time.Time {
		at, err := time.Parse(time.RFC3339, object.(map[string]any)[name].(string))
		require.NoError(t, err)
		return at
	}
	got := w.call(http.MethodGet, path).decode(t)
	ended := at(got, "updated_at")
	require.Equal(t, ended.Add(time.Hour), at(got, "archive_at"))
	require.Equal(t, ended.Add(3*time.Hour), at(got, "purge_at"))
	list := w.call(http.MethodGet, "/api/v1/dlq/"+topicOfAccess).field(t, "messages").([]any)
	require.Equal(t, ended.Add(time.Hour), at(list[0], "archive_at"))
	chain := w.call(http.MethodGet, path+"/chain").field(t, "hops").([]any)
	require.Equal(t, ended.Add(3*time.Hour), at(chain[0], "purge_at"))
}

func TestTheArchiveRunsNowForAnAdminAndTheAuditSaysSo(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	got := w.json(http.MethodPost, "/api/v1/archive/runs", `{"reason":"the disk is full"}`, bearer("admin"))
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "dlq-archive", got.field(t, "schedule"))
	audit := w.call(http.MethodGet, "/api/v1/audit?action=dlq:archive:run", bearer("admin"))
	operation := audit.field(t, "operations").([]any)[0].(map[string]any)
	require.Equal(t, "accepted", operation["outcome"])
	require.Equal(t, "the disk is full", operation["reason"])
}

func TestTheArchiveWithoutAScheduleSaysWhy(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.noArchive = true
	message, _ := requireError(t, w.call(http.MethodPost, "/api/v1/archive/runs"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "schedule")
}

func TestAnArchivedMessageIsFoundShownAndRestored(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.ArchiveAfter, o.PurgeAfter = time.Hour, 3*time.Hour })
	id := w.add(1)[0]
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/dead").status)
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)

	const archived = "/api/v1/archive/messages"
	list := w.call(http.MethodGet, archived+"?topic="+topicOfAccess+"&status=DEAD").field(t, "messages").([]any)
	require.Len(t, list, 1)
	shown := w.call(http.MethodGet, archived+"/"+id.String()).decode(t)
	for _, view := range []map[string]any{list[0].(map[string]any), shown} {
		require.Equal(t, id.String(), view["id"])
		require.Nil(t, view["archive_at"])
		require.NotNil(t, view["purge_at"])
	}
	require.Empty(t, w.call(http.MethodGet, "/api/v1/dlq/"+topicOfAccess).field(t, "messages"))

	got := w.call(http.MethodPost, archived+"/"+id.String()+"/restore")
	require.Equal(t, http.StatusCreated, got.status, got.body)
	restored := dlq.RestoredID(id).String()
	require.Equal(t, restored, got.field(t, "id"))
	require.Equal(t, "/api/v1/dlq/messages/"+restored, got.header.Get("Location"))
	require.Equal(t, "PENDING", w.call(http.MethodGet, "/api/v1/dlq/messages/"+restored).field(t, "status"))

	message, _ := requireError(t, w.call(http.MethodPost, archived+"/"+id.String()+"/restore"), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, restored)
	requireError(t, w.call(http.MethodPost, archived+"/"+restored+"/restore"), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
}

func TestTheListOfTheArchiveNeedsATopicAndTheFirstPageOfASearch(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, query := range []string{"", "?topic=", "?topic=a%20b", "?topic=orders&error=x&page=2"} {
		require.Equal(t, http.StatusBadRequest, w.call(http.MethodGet, "/api/v1/archive/messages"+query).status, query)
	}
}

func TestABulkRestoreTakesOnlyDeadMessagesUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(3)
	for _, id := range w.add(2) {
		require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+id.String()+"/dead").status)
	}
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	got := w.json(http.MethodPost, plansPath, `{"kind":"restore","topic":"`+topicOfAccess+`"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 2, got.field(t, "matched"))
	require.Len(t, got.field(t, "sample"), 2)
	got = w.json(http.MethodPost, "/api/v1/jobs", `{"kind":"restore","topic":"`+topicOfAccess+`","status":"PENDING"}`)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.body, "RESOLVED or DEAD")
}

func TestWhoSeesOtherTopicsNeitherReadsNorRestoresTheirArchive(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	id := w.add(1)[0].String()
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+id+"/dead", bearer("admin")).status)
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	const archived = "/api/v1/archive/messages"
	require.Empty(t, w.call(http.MethodGet, archived+"?topic="+topicOfAccess, bearer("operator/users.*")).field(t, "messages"))
	require.Equal(t, http.StatusNotFound, w.call(http.MethodGet, archived+"/"+id, bearer("operator/users.*")).status)
	require.Equal(t, http.StatusNotFound, w.call(http.MethodPost, archived+"/"+id+"/restore", bearer("operator/users.*")).status)
	require.Equal(t, http.StatusForbidden, w.call(http.MethodPost, archived+"/"+id+"/restore", bearer("viewer")).status)
	require.Equal(t, http.StatusCreated, w.call(http.MethodPost, archived+"/"+id+"/restore", bearer("operator")).status)
}
