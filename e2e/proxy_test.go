package e2e

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands before a server and can make it look away: existing connections
// are cut and new ones refused, at an address that stays the same.
type proxy struct {
	address, target string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{address: freeAddress(t), target: target, open: map[net.Conn]bool{}}
	t.Cleanup(p.cut)
	return p
}

// join makes the server reachable.
func (p *proxy) join(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", p.address)
	require.NoError(t, err)
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.carry(client)
		}
	}()
}

// cut makes the server unreachable.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for connection := range p.open {
		_ = connection.Close()
	}
}

func (p *proxy) carry(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	if p.listener == nil {
		_ = client.Close()
		_ = server.Close()
		p.mu.Unlock()
		return
	}
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { pump(server, client) })
	both.Go(func() { pump(client, server) })
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

// pump copies until one side ends, and then ends both.
func pump(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
	_ = from.Close()
}
