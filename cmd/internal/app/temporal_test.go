package app

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/config"
	"dlqmanager/internal/temporaltest"
)

func TestMain(m *testing.M) { os.Exit(temporaltest.Main(m)) }

// forgetful is a proxy that can silently drop the traffic of existing connections. New connections still work.
type forgetful struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	silent   chan struct{}
}

func (f *forgetful) serve() {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", f.target)
		if err != nil {
			_ = from.Close()
			continue
		}
		f.mu.Lock()
		silent := f.silent
		f.mu.Unlock()
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				buffer := make([]byte, 1<<16)
				for {
					n, err := way[0].Read(buffer)
					select {
					case <-silent:
						_, _ = io.Copy(io.Discard, way[0])
						return
					default:
					}
					if err != nil {
						_ = way[1].Close()
						return
					}
					_, _ = way[1].Write(buffer[:n])
				}
			}()
		}
	}
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.silent)
	f.silent = make(chan struct{})
}

func TestASilentConnectionToTemporalIsReplaced(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	proxy := &forgetful{listener: listener, target: temporaltest.Address(t), silent: make(chan struct{})}
	go proxy.serve()

	options, err := config.Temporal{Address: listener.Addr().String(), Namespace: client.DefaultNamespace}.ClientOptions()
	require.NoError(t, err)
	temporal, err := client.DialContext(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	asked := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
	require.NoError(t, asked())
	proxy.forget()
	began := time.Now()
	require.Error(t, asked(), "it is silent")
	require.Eventually(t, func() bool { return asked() == nil }, 40*time.Second, 50*time.Millisecond)
	require.Less(t, time.Since(began), 17*time.Second)
}
