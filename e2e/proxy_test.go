package e2e

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy forwards connections to a server. It can simulate outages: cut closes connections
// and refuses new connections; silence keeps connections open and forwards nothing. The
// address of a proxy does not change.
type proxy struct {
	address, target string
	// read makes the two readers of a link; nil forwards bytes unchanged.
	read func(*link) (fromClient, fromServer reader)

	mu          sync.Mutex
	listener    net.Listener
	open        map[*link]bool
	silentUntil time.Time
}

// link is one connection through a proxy.
type link struct {
	client, server net.Conn
	// mute is set if the link never forwards anything again, and notifies neither side.
	mute atomic.Bool
}

// reader returns the next bytes to forward.
type reader func() ([]byte, error)

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{address: freeAddress(t), target: target, open: map[*link]bool{}}
	t.Cleanup(p.cut)
	return p
}

// join makes the server reachable through the proxy.
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

// cut makes the server unreachable through the proxy.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.open {
		l.close()
	}
	clear(p.open)
}

// silence makes every open connection hang for ever, like a firewall that drops packets: neither side
// notices when the other side closes the connection. Connections that are opened within d hang too; later
// connections work. silence returns how many connections were open.
func (p *proxy) silence(d time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silentUntil = time.Now().Add(d)
	silenced := 0
	for l := range p.open {
		if !l.mute.Swap(true) {
			silenced++
		}
	}
	return silenced
}

func (p *proxy) carry(client net.Conn) {
	l := &link{client: client}
	if !p.admit(l) {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		p.drop(l)
		return
	}
	p.mu.Lock()
	l.server = server
	cut := !p.open[l]
	p.mu.Unlock()
	if cut {
		l.close()
		return
	}
	fromClient, fromServer := chunks(client), chunks(server)
	if p.read != nil {
		fromClient, fromServer = p.read(l)
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, server, fromClient) })
	both.Go(func() { p.pump(l, client, fromServer) })
	both.Wait()
}

// admit reports whether the link forwards data.
func (p *proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		l.close()
		return false
	}
	p.open[l] = true
	l.mute.Store(time.Now().Before(p.silentUntil))
	return !l.mute.Load()
}

func (p *proxy) drop(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	delete(p.open, l)
}

// pump forwards data until one side ends, and then closes both sides, unless the link is mute.
func (p *proxy) pump(l *link, to net.Conn, next reader) {
	for {
		piece, err := next()
		if l.mute.Load() {
			return
		}
		if len(piece) > 0 {
			if _, failed := to.Write(piece); failed != nil {
				err = failed
			}
		}
		if err != nil {
			if !l.mute.Load() {
				p.drop(l)
			}
			return
		}
	}
}

func chunks(from net.Conn) reader {
	buffer := make([]byte, 32<<10)
	return func() ([]byte, error) {
		n, err := from.Read(buffer)
		return buffer[:n], err
	}
}

func (l *link) close() {
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}
