//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/store/postgres"
)

// peakMemory is the most memory that the process has had, in bytes.
func (p *program) peakMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kilobytes << 10
}

// readersFrom is a client whose connections come from an address of the loopback network.
func readersFrom(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// read sends a GET and checks that the answer is complete or a refusal.
func read(t *testing.T, client *http.Client, url string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if !assertNoError(t, err) {
		return 0
	}
	response, err := client.Do(request)
	if !assertNoError(t, err) {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "" {
		t.Error("a 503 has no Retry-After")
	}
	size, err := io.Copy(io.Discard, response.Body)
	assertNoError(t, err)
	if response.ContentLength >= 0 && response.ContentLength != size {
		t.Errorf("the answer has %d bytes instead of %d", size, response.ContentLength)
	}
	return response.StatusCode
}

func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// readAtOnce starts n readers at once, and returns how many readers got each status.
func readAtOnce(t *testing.T, n int, url func(i int) string) map[int]int {
	t.Helper()
	var mu sync.Mutex
	statuses := map[int]int{}
	var readers sync.WaitGroup
	for i := range n {
		readers.Go(func() {
			status := read(t, readersFrom(fmt.Sprintf("127.0.0.%d", 2+i%2)), url(i))
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	readers.Wait()
	return statuses
}

func TestReadersCannotFillTheMemory(t *testing.T) {
	t.Parallel()
	s := newSystem(t, kafkatest.FakeCluster(t))
	store := postgres.New(s.pool, dlqtest.Topics(t))
	keep := func(topic string, n, size int) []dlq.Arrival {
		arrivals := dlqtest.Arrivals(n, dlqtest.Topic(topic), dlqtest.Value(`{"text": "`+strings.Repeat("x", size)+`"}`))
		_, err := store.Ingest(t.Context(), arrivals, nil)
		require.NoError(t, err)
		return arrivals
	}
	keep("small", 200, 60<<10)
	keep("middle", 100, 900_000)
	large := keep("large", 2, 10_000_000)
	const limit = 512 << 20
	s.env = append(s.env, fmt.Sprintf("GOMEMLIMIT=%d", limit/10*9), "DLQ_SERVER_WRITE_TIMEOUT=21s", "DLQ_SERVER_REQUEST_TIMEOUT=20s",
		"DLQ_SERVER_RETRY_WAIT=1s") // within this time, even a busy machine reads messages of 10 MB
	api := s.startAPI()
	within := func(what string) {
		t.Helper()
		peak := api.peakMemory(t)
		t.Logf("%s: at most %d MB", what, peak/1_000_000)
		require.Less(t, peak, limit, what)
		require.Equal(t, http.StatusOK, api.readiness())
	}
	list := func(topic string, size int) string {
		return fmt.Sprintf("%s/api/v1/dlq/%s.dlq?page_size=%d", s.base, topic, size)
	}
	one := func(i int) string { return s.base + "/api/v1/dlq/messages/" + large[i%2].ID.String() }

	statuses := readAtOnce(t, 15, func(int) string { return list("middle", 100) })
	t.Log(statuses)
	require.Positive(t, statuses[http.StatusOK])
	require.Equal(t, 15, statuses[http.StatusOK]+statuses[http.StatusServiceUnavailable])
	within("15 lists of 100 messages of 0.9 MB")
	statuses = readAtOnce(t, 50, func(int) string { return list("small", 200) })
	t.Log(statuses)
	require.Positive(t, statuses[http.StatusOK])
	require.Equal(t, 50, statuses[http.StatusOK]+statuses[http.StatusServiceUnavailable])
	within("50 lists of 200 messages of 60 KiB")
	statuses = readAtOnce(t, 50, one)
	t.Log(statuses)
	require.Positive(t, statuses[http.StatusOK])
	require.Equal(t, 50, statuses[http.StatusOK]+statuses[http.StatusServiceUnavailable])
	within("50 messages of 10 MB")

	statuses = readAtOnce(t, 20, func(i int) string {
		return s.base + "/api/v1/dlq/" + []string{"large", "middle"}[i/2%2] + ".dlq/export"
	})
	t.Log(statuses)
	require.Positive(t, statuses[http.StatusOK])
	require.Equal(t, 20, statuses[http.StatusOK]+statuses[http.StatusServiceUnavailable])
	within("20 exports of messages of 10 MB, and of 100 of 0.9 MB")

	// The API closes the connections of readers that stop reading. Meanwhile it serves a client from
	// another address.
	var started sync.WaitGroup
	var closed atomic.Int64
	for i := range 50 {
		started.Go(func() {
			connection, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.4")}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.base, "http://"))
			if !assertNoError(t, err) {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			url := strings.TrimPrefix(one(i), s.base)
			_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", url, strings.TrimPrefix(s.base, "http://"))
			assertNoError(t, err)
			_, err = bufio.NewReaderSize(connection, 16).ReadString('\n')
			assertNoError(t, err)
			closed.Add(1)
		})
	}
	deadline := time.Now().Add(30 * time.Second)
	served := 0
	for time.Now().Before(deadline) && closed.Load() < 50 {
		if read(t, readersFrom("127.0.0.5"), one(0)) == http.StatusOK {
			served++
		}
	}
	started.Wait()
	require.Positive(t, served)
	within("50 readers that stop")
	s.eventually("the budget is whole again", func() bool {
		return readAtOnce(t, 2, one)[http.StatusOK] == 2
	})
	var page map[string]any
	response, err := http.Get(list("middle", 100))
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&page))
	require.Len(t, page["messages"], 100)
}
