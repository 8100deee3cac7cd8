package registry_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"dlqmanager/registry"
)

func TestABatchOfSmallValuesNeedsBoundedMemory(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.register("orders-value", sr.TypeAvro, `{"type":"array","items":"null"}`)
	value := wire(id, append(binary.AppendVarint(nil, 1_600_000), 0)...)
	var values [][]byte
	for range 20 {
		values = append(values, value)
	}
	total := 0
	for _, a := range w.ingest(values...) {
		total += len(a.Payload)
	}
	require.Less(t, total, 64<<20)
}

func TestTheLogHasNoBodyOfAnAnswer(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.fake.Intercept(func(response http.ResponseWriter, r *http.Request) bool {
		response.WriteHeader(http.StatusInternalServerError)
		_, _ = response.Write([]byte(r.Header.Get("Authorization") + strings.Repeat("x", 100_000)))
		return true
	})
	var log bytes.Buffer
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&log), zap.DebugLevel)
	d, err := registry.New(registry.Options{URLs: []string{w.fake.URL()}, Timeout: 5 * time.Second, Authorize: func(r *http.Request) error {
		r.SetBasicAuth("u", "secret")
		return nil
	}}, zap.New(core), prometheus.NewRegistry())
	require.NoError(t, err)
	_, err = d.Decode(t.Context(), "orders", false, wire(1, 0))
	require.Error(t, err)
	require.Less(t, log.Len(), 2000)
	require.NotContains(t, log.String(), "Basic ")
}
