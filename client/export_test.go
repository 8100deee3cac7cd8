package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// exported answers with lines, and cuts the connection if isCut.
func exported(isCut bool, lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(w, strings.Join(lines, ""))
		_ = http.NewResponseController(w).Flush()
		if isCut {
			panic(http.ErrAbortHandler)
		}
	}
}

const (
	firstLine = `{"id":"a","payload":{"n": 9007199254740993},"invented":1,"cursor":"c1"}` + "\n"
	endLine   = `{"end":{"count":2,"cursor":"c2"}}` + "\n"
)

func TestAnExportThatIsCutOffIsAnErrorWithTheLastCursor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		reason  string
	}{
		"no end":                {exported(false, firstLine), "without its last line"},
		"a closed connection":   {exported(true, firstLine), "unexpected EOF"},
		"a part of a line":      {exported(true, firstLine, `{"id":"b","cur`), "unexpected EOF"},
		"a part of the end":     {exported(true, firstLine, `{"end":{"count":1,"cursor":"c1"`), "unexpected EOF"},
		"a line that is no end": {exported(false, firstLine, "{}\n", endLine), "no message, no end and no error"},
		"no JSON":               {exported(false, firstLine, "<html>\n", endLine), "differs from the contract"},
		"an error": {
			exported(false, firstLine, `{"error":{"code":"SYS_DLQ_UNAVAILABLE","message":"away","request_id":"r","details":[]}}`+"\n"), "SYS_DLQ_UNAVAILABLE: away",
		},
	} {
		var failed *client.ExportError
		found := 0
		for message, err := range serve(t, client.Config{}, c.handler).Export(t.Context(), "orders.dlq.v1", nil) {
			if err != nil {
				require.ErrorAs(t, err, &failed, name)
				continue
			}
			require.Equal(t, "a", message.ID)
			require.Equal(t, `{"n": 9007199254740993}`, string(message.Payload))
			require.Equal(t, strings.TrimSuffix(firstLine, "\n"), string(message.Raw))
			found++
		}
		require.Equal(t, 1, found, name)
		require.NotNil(t, failed, name)
		require.Equal(t, "c1", failed.Cursor, name)
		require.EqualValues(t, 1, failed.Count, name)
		require.ErrorContains(t, failed, c.reason, name)
		require.Equal(t, name == "an error", client.CodeOf(failed) == client.ErrorCodeUnavailable, name)
	}
}

func TestAnExportThatBeginsAtACursorAndIsCutOffAtOnceKeepsIt(t *testing.T) {
	t.Parallel()
	for _, err := range serve(t, client.Config{}, exported(true)).Export(t.Context(), "t", &client.ExportMessagesParams{Cursor: new("c7")}) {
		var failed *client.ExportError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "c7", failed.Cursor)
		require.Zero(t, failed.Count)
	}
}

func TestACompleteExportEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	var asked *http.Request
	c := serve(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		exported(false, firstLine, strings.ReplaceAll(firstLine, "c1", "c2"), endLine)(w, r)
	})
	var cursors []string
	var end client.EndLine
	params := &client.ExportMessagesParams{Status: &[]client.Status{client.StatusDEAD}, Limit: new(int64(2))}
	for message, err := range c.Export(t.Context(), "a b", params, client.Query("header.tenant", "acme"), client.SeeEnd(&end)) {
		require.NoError(t, err)
		cursors = append(cursors, message.Cursor)
	}
	require.Equal(t, []string{"c1", "c2"}, cursors)
	require.EqualValues(t, 2, end.End.Count)
	require.Equal(t, "c2", end.End.Cursor)
	require.Equal(t, "/api/v1/dlq/a%20b/export", asked.URL.EscapedPath())
	require.Equal(t, "header.tenant=acme&limit=2&status=DEAD", asked.URL.RawQuery)
	for range c.Export(t.Context(), "a b", nil) {
		break
	}
}

func TestAnExportThatIsRefusedIsAnOrdinaryError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, content string
		code          client.ErrorCode
	}{
		{"application/json", `{"error":{"code":"SYS_DLQ_FORBIDDEN","message":"no","request_id":"r","details":[]}}`, client.ErrorCodeForbidden},
		{"text/html", "<html>", ""},
	} {
		var failed *client.APIError
		server := serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, c.content)
		})
		for _, err := range server.Export(t.Context(), "t", nil) {
			require.ErrorAs(t, err, &failed)
		}
		require.NotNil(t, failed)
		require.Equal(t, c.code, failed.Code)
	}
	for _, err := range serve(t, client.Config{}, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, `{}`) }).Export(t.Context(), "t", nil) {
		require.ErrorContains(t, err, "instead of")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range serve(t, client.Config{}, exported(false, endLine)).Export(ctx, "t", nil) {
		require.ErrorIs(t, err, context.Canceled)
	}
}
