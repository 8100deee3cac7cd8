package app

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/telemetry"
)

func TestStopWaitsLittleForACollectorThatHangs(t *testing.T) {
	t.Parallel()
	collector, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	require.NoError(t, err)
	defer func() { _ = collector.Close() }()
	p := &parts{log: zap.NewNop()}
	p.tracing, err = telemetry.NewTracerProvider(telemetry.TraceOptions{
		Endpoint: "http://" + collector.Addr().String(), Protocol: "http/protobuf", SampleRatio: 1}, p.log)
	require.NoError(t, err)
	_, span := p.tracing.Tracer("test").Start(context.Background(), "span")
	span.End()

	started := time.Now()
	p.close()

	require.Less(t, time.Since(started), 3*time.Second)
}
