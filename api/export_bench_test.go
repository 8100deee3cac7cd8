package api_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// BenchmarkExport exports 100,000 messages of 1 KB. It measures the growth of this process's memory. The process has the server
// and a reader that keeps no message.
func BenchmarkExport(b *testing.B) {
	const messages, batch = 100_000, 1000
	w := start(b)
	for range messages / batch {
		arrivals := dlqtest.Arrivals(batch, dlqtest.Topic("orders"), dlqtest.Value(`{"text": "`+strings.Repeat("x", 1000)+`"}`),
			dlqtest.Headers(dlq.Header{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}))
		stored, err := w.store.Ingest(b.Context(), arrivals, nil)
		require.NoError(b, err)
		require.Len(b, stored, batch)
	}
	_, err := w.pool.Exec(b.Context(), `VACUUM ANALYZE`)
	require.NoError(b, err)
	debug.FreeOSMemory()
	before, peak := memoryInUse(), uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, memoryInUse())
			case <-stop:
				return
			}
		}
	}()
	lines := 0
	for b.Loop() {
		got, err := w.client.Get("http://" + w.address + "/api/v1/dlq/orders.dlq/export")
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, got.StatusCode)
		count := &lineCounter{}
		size, err := io.Copy(count, got.Body)
		require.NoError(b, err)
		require.NoError(b, got.Body.Close())
		require.Equal(b, messages+1, count.lines)
		lines += count.lines - 1
		b.SetBytes(size)
	}
	close(stop)
	<-stopped
	b.ReportMetric(float64(lines)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(peak-min(peak, before))/(1<<20), "MiB-growth")
}

type lineCounter struct{ lines int }

func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines += bytes.Count(p, []byte("\n"))
	return len(p), nil
}

// memoryInUse is the memory in bytes that Go has taken from the system and not returned.
func memoryInUse() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
