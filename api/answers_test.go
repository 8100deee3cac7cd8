package api_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func TestAListLeavesOutLargePayloads(t *testing.T) {
	t.Parallel()
	w := start(t)
	large := `"` + strings.Repeat("x", dlq.ListPayload) + `"`
	id := w.add(1, dlqtest.Value(large))[0]
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1")
	require.Contains(t, got.body, `"payload":null,`)
	require.Contains(t, got.body, fmt.Sprintf(`"payload_omitted":true,"payload_size":%d,`, len(large)))
	require.Contains(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()).body, large)
}

// If a client does not read its answer, the answer stays in memory until the write timeout. Until then this client gets no
// second answer, but another client gets an answer.
func TestAClientThatDoesNotReadKeepsOnlyItsShare(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, func(o *api.Options) {
		o.AnswerMemory, o.AnswerWait = 512<<20, 50*time.Millisecond
		o.WriteTimeout = 2 * time.Second
	})
	path := "/api/v1/dlq/messages/" + w.add(1, dlqtest.Value(`"`+strings.Repeat("x", 20<<20)+`"`))[0].String()
	connection := w.dial("127.0.0.1")
	_, err := fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", path, bearer("viewer"))
	require.NoError(t, err)
	line, err := bufio.NewReaderSize(connection, 16).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "200")
	read := func(token string) response {
		_, got := w.send(http.MethodGet, path, nil, bearer(token))
		return got
	}
	message, _ := requireError(t, read("viewer"), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "your other requests")
	require.Equal(t, http.StatusOK, read("operator").status)
	require.Eventually(t, func() bool { return read("viewer").status == http.StatusOK },
		20*time.Second, 50*time.Millisecond, "the write timeout frees its share")
}

func TestAnAnswerThatCannotFitSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.AnswerMemory = 64 << 20 })
	id := w.add(1, dlqtest.Value(`"`+strings.Repeat("x", 8<<20)+`"`))[0]
	message, _ := requireError(t, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "raise server.answer_memory")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1").status)
}

// The configuration allows no smaller memory.
func TestAListWithMaskingFitsIntoTheLeastMemory(t *testing.T) {
	t.Parallel()
	w := start(t, masked(t), func(o *api.Options) { o.AnswerMemory = 80 << 20 })
	w.add(1, personal)
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1")
	require.Equal(t, http.StatusOK, got.status, got.body)
}
