package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/client"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// shortSearches reads only three messages in each step of a search.
type shortSearches struct{ Store }

func (s shortSearches) ExportPage(ctx context.Context, q dlq.ListQuery) (dlq.ExportPage, error) {
	q.SearchLimit = 3
	return s.Store.ExportPage(ctx, q)
}

// stepped calls step before each read of an export. Its pages have two messages.
type stepped struct {
	Store
	reads *atomic.Int64
	step  func(read int64) error
}

func withSteps(step func(read int64) error) func(*api.Options) {
	return wrapped(func(s Store) Store { return stepped{s, &atomic.Int64{}, step} })
}

func (s stepped) ExportPage(ctx context.Context, q dlq.ListQuery) (dlq.ExportPage, error) {
	q.PageSize = min(q.PageSize, 2)
	return s.Store.ExportPage(ctx, q)
}

func (s stepped) Details(ctx context.Context, q dlq.DetailQuery) ([]dlq.Detail, error) {
	if err := s.step(s.reads.Add(1)); err != nil {
		return nil, err
	}
	return s.Store.Details(ctx, q)
}

func (w *world) exports(outcome string) float64 {
	w.t.Helper()
	count, err := testutil.GatherAndCount(w.metrics, "dlq_exports_total")
	require.NoError(w.t, err)
	if count == 0 {
		return 0
	}
	families, err := w.metrics.Gather()
	require.NoError(w.t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "dlq_exports_total" && metric.GetLabel()[0].GetValue() == outcome {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func TestAMessageThatArrivesDuringAnExportIsLeftForTheNext(t *testing.T) {
	t.Parallel()
	var w *world
	var late []dlq.ID
	w = start(t, withSteps(func(read int64) error {
		if read <= 3 {
			late = append(late, w.add(2)...)
		}
		return nil
	}))
	ids := w.add(5)
	messages, end := w.export(exportPath)
	require.Equal(t, texts(ids), idsOfExport(messages))
	require.Len(t, late, 6)
	messages, _ = w.export(exportPath + "?cursor=" + end["cursor"].(string))
	require.Equal(t, texts(late), idsOfExport(messages))
}

func TestAMessageThatIsDeletedOrRetriedDuringAnExportBreaksNothing(t *testing.T) {
	t.Parallel()
	var w *world
	var ids []dlq.ID
	w = start(t, withSteps(func(read int64) error {
		if read == 2 {
			require.NoError(t, w.store.Delete(t.Context(), nil, ids[2]))
			require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(ids[3])).status)
			require.Equal(t, http.StatusOK, w.call(http.MethodPost, retryPath(ids[5])).status)
		}
		return nil
	}))
	ids = w.add(7)
	messages, _ := w.export(exportPath)
	require.Equal(t, texts(append(ids[:2:2], ids[3:]...)), idsOfExport(messages))
}

func TestAnErrorInTheMiddleIsTheLastLine(t *testing.T) {
	t.Parallel()
	w := start(t, withSteps(func(read int64) error {
		if read == 2 {
			return fmt.Errorf("secret: %w", dlq.ErrUnavailable)
		}
		return nil
	}))
	ids := texts(w.add(5))
	got := w.call(http.MethodGet, exportPath)
	require.Equal(t, http.StatusOK, got.status)
	lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, `{"error":{"code":"SYS_DLQ_UNAVAILABLE","message":"a required service is unavailable; try again later","request_id":"`+
		got.header.Get("X-Request-Id")+`","details":[]}}`, lines[2])
	rows := w.operations()
	require.Equal(t, []any{"failed", "accepted"}, []any{rows[0]["outcome"], rows[1]["outcome"]})
	require.Equal(t, map[string]any{"messages": 2.0, "code": "SYS_DLQ_UNAVAILABLE", "message": "a required service is unavailable; try again later"}, rows[0]["detail"])
	require.InDelta(t, 1, w.exports("failed"), 0)
	logged := w.logs.FilterMessage("export ended").All()
	require.Len(t, logged, 1)
	require.Equal(t, "warn", logged[0].Level.String())
	require.Equal(t, got.header.Get("X-Request-Id"), logged[0].ContextMap()["request_id"])
	require.Contains(t, logged[0].ContextMap()["error"], "secret")

	messages, _ := w.export(exportPath + "?cursor=" + decodeLine(t, lines[1])["cursor"].(string))
	require.Equal(t, ids[2:], idsOfExport(messages))
}

func TestAnErrorBeforeTheFirstLineIsAnOrdinaryAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, withSteps(func(int64) error { return dlq.ErrUnavailable }))
	w.add(1)
	requireError(t, w.call(http.MethodGet, exportPath), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	rows := w.operations()
	require.Equal(t, []any{"failed", "accepted"}, []any{rows[0]["outcome"], rows[1]["outcome"]})
	for range 5 {
		_, got := w.send(http.MethodGet, exportPath, nil)
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.NotContains(t, got.body, "are running", "the slot is free again")
	}
}

// heavy adds messages that are larger than the buffers of a connection.
func (w *world) heavy(n int) []dlq.ID {
	return w.add(n, dlqtest.Value(`"`+strings.Repeat("x", 4<<20)+`"`))
}

// openExport begins an export and reads only its first line.
func (w *world) openExport() (reader *bufio.Reader, connection net.Conn) {
	w.t.Helper()
	connection, err := net.Dial("tcp", w.address)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = connection.Close() })
	require.NoError(w.t, connection.(*net.TCPConn).SetReadBuffer(4096))
	require.NoError(w.t, connection.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", exportPath)
	require.NoError(w.t, err)
	reader = bufio.NewReaderSize(connection, 16)
	line, err := reader.ReadString('\n')
	require.NoError(w.t, err)
	require.Contains(w.t, line, "200")
	return reader, connection
}

func (w *world) outcome() any {
	w.t.Helper()
	return w.operations()[0]["outcome"]
}

func TestAReaderThatStopsIsDisconnectedAndHoldsNoConnectionToTheDatabase(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.WriteTimeout = time.Second })
	w.heavy(5)
	_, _ = w.openExport()
	require.Zero(t, w.pool.Stat().AcquiredConns(), "while the export waits for its reader")
	require.Eventually(t, func() bool { return w.outcome() == "cancelled" }, 20*time.Second, 20*time.Millisecond)
	require.InDelta(t, 1, w.exports("cancelled"), 0)
	detail := w.operations()[0]["detail"].(map[string]any)
	require.Less(t, detail["messages"], 5.0)
	for range 5 { // the memory and the slot of the export are free again
		_, end := w.export(exportPath + "?limit=1")
		require.NotNil(t, end)
	}
}

func TestASlowReaderGetsAll(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.WriteTimeout = time.Second })
	w.heavy(3)
	got, err := w.client.Get("http://" + w.address + exportPath)
	require.NoError(t, err)
	defer got.Body.Close()
	began := time.Now()
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	var all strings.Builder
	for err == nil { // takes longer than the write timeout, but never stops reading
		_, err = io.CopyN(&all, got.Body, 1<<20)
		<-tick.C
	}
	require.ErrorIs(t, err, io.EOF)
	require.Greater(t, time.Since(began), time.Second)
	require.Contains(t, all.String()[all.Len()-100:], `{"end":{"count":3,`)
}

func TestOnlySomeExportsRunAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.MaxExports, o.ScanWait = 1, 10*time.Millisecond })
	w.heavy(5)
	_, connection := w.openExport()
	message, _ := requireError(t, w.call(http.MethodGet, exportPath), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Contains(t, message, "1 other exports are running")
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1").status, "lists are not held")
	require.NoError(t, connection.Close())
	require.Eventually(t, func() bool { return w.exports("cancelled") == 1 }, 20*time.Second, 10*time.Millisecond)
	w.export(exportPath + "?limit=1")
}

func TestAServerThatStopsEndsItsExports(t *testing.T) {
	t.Parallel()
	var w *world
	w = start(t, withSteps(func(read int64) error {
		if read == 2 {
			w.server.Drain()
		}
		return nil
	}))
	ids := w.add(9)
	var found []string
	var failed *client.ExportError
	for message, err := range w.goClient("").Export(t.Context(), "orders.dlq.v1", nil) {
		if err != nil {
			require.ErrorAs(t, err, &failed)
			break
		}
		found = append(found, message.ID)
	}
	require.Equal(t, texts(ids[:2]), found)
	require.NotNil(t, failed)
	require.EqualValues(t, 2, failed.Count)
	require.NotEmpty(t, failed.Cursor)
	require.Equal(t, client.ErrorCodeUnavailable, client.CodeOf(failed))
	require.ErrorContains(t, failed, "is stopping")
	requireError(t, w.call(http.MethodGet, exportPath), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
}

func TestAMessageBeyondTheMemoryEndsTheExportAndNamesTheSetting(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.AnswerMemory = 64 << 20 })
	small := w.add(1)[0]
	w.add(1, dlqtest.Value(`"`+strings.Repeat("x", 18<<20)+`"`))
	got := w.call(http.MethodGet, exportPath)
	lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, small.String(), decodeLine(t, lines[0])["id"])
	require.Contains(t, lines[1], "raise server.answer_memory")
	w.heavy(1)
	messages, _ := w.export(exportPath + "?not.payload.x=y&limit=1")
	require.Len(t, messages, 1)
}

func TestTheGoClientExportsLongerThanARequestMayTake(t *testing.T) {
	t.Parallel()
	wait := make(chan struct{})
	w := startWithTokens(t, withSteps(func(read int64) error {
		if read == 2 {
			<-wait
		}
		return nil
	}))
	ids := w.add(5, dlqtest.Value(`{"n": 9007199254740993}`))
	c, err := client.New("http://"+w.address, client.Config{HTTP: &http.Client{Timeout: 50 * time.Millisecond}, Token: client.StaticToken("operator")})
	require.NoError(t, err)
	time.AfterFunc(200*time.Millisecond, func() { close(wait) })
	var found []string
	var end client.EndLine
	for message, err := range c.Export(t.Context(), "orders.dlq.v1", &client.ExportMessagesParams{Limit: new(int64(4))}, client.SeeEnd(&end)) {
		require.NoError(t, err)
		found = append(found, message.ID)
		require.Equal(t, `{"n": 9007199254740993}`, string(message.Payload))
		require.Equal(t, `{"n": 9007199254740993}`, *message.Value.Text)
		require.Contains(t, string(message.Raw), message.Cursor)
	}
	require.Equal(t, texts(ids[:4]), found)
	require.EqualValues(t, 4, end.End.Count)
	for message, err := range c.Export(t.Context(), "orders.dlq.v1", &client.ExportMessagesParams{Cursor: &end.End.Cursor}) {
		require.NoError(t, err)
		require.Equal(t, ids[4].String(), message.ID)
	}
}
