package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// silentProxy is a proxy that can drop all data of its present connections, like a firewall that
// has lost the state of its connections. New connections work.
type silentProxy struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	silent chan struct{} // closed when the present connections go silent
	before []byte        // a client that sends this makes the connections silent; nothing if nil
	open   []net.Conn
}

func newSilentProxy(t *testing.T, target string) *silentProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &silentProxy{listener: listener, target: target, silent: make(chan struct{})}
	go s.serve()
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.open {
			_ = c.Close()
		}
	})
	return s
}

func (s *silentProxy) serve() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", s.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		s.mu.Lock()
		s.open = append(s.open, client, server)
		silent := s.silent
		s.mu.Unlock()
		go s.forward(client, server, silent)
		go s.forward(server, client, silent)
	}
}

func (s *silentProxy) forward(to, from net.Conn, silent <-chan struct{}) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		s.silenceBefore(buffer[:n])
		select {
		case <-silent:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if n > 0 {
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// silence drops all further data of the present connections.
func (s *silentProxy) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.silent)
	s.silent = make(chan struct{})
}

func (s *silentProxy) silenceBefore(sent []byte) {
	s.mu.Lock()
	isMet := s.before != nil && bytes.Contains(sent, s.before)
	s.mu.Unlock()
	if isMet {
		s.silence()
	}
}

// through is a pool whose connections go through a proxy.
func through(t *testing.T) (*pgxpool.Pool, *silentProxy) {
	t.Helper()
	u, err := url.Parse(dbtest.URL(t))
	require.NoError(t, err)
	proxy := newSilentProxy(t, u.Host)
	u.Host = proxy.listener.Addr().String()
	options, err := pgxpool.ParseConfig(u.String())
	require.NoError(t, err)
	options.MaxConns = 10
	pool, err := postgres.NewPool(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, proxy
}

// fill opens all connections of the pool and leaves them idle.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var conns []*pgxpool.Conn
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
	require.Equal(t, pool.Config().MaxConns, pool.Stat().IdleConns())
}

func TestSilentConnectionsCostOneTimeout(t *testing.T) {
	t.Parallel()
	pool, proxy := through(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	fill(t, pool)
	<-time.After(50 * time.Millisecond)
	proxy.silence()

	began := time.Now()
	var group sync.WaitGroup
	failures := make([]error, 30) // three times the number of connections
	for i := range failures {
		group.Go(func() { _, failures[i] = p.Topics(context.Background()) })
	}
	group.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	require.Less(t, time.Since(began), 5*time.Second)

	fill(t, pool) // the pool has lost no connection
	_, err := p.Topics(t.Context())
	require.NoError(t, err)
}

func TestEveryCallEnds(t *testing.T) {
	t.Parallel()
	pool, proxy := through(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(1), nil)
	require.NoError(t, err)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for name, call := range map[string]func() error{
		"a batch":     func() error { return p.SetJobRate(context.Background(), nil, dlq.NewID(), 1) },
		"a statement": func() error { _, err := p.Message(context.Background(), dlq.NewID()); return err },
	} {
		// A connection that has just been used is not pinged, so the call itself is lost.
		_, err := p.Now(t.Context())
		require.NoError(t, err)
		proxy.silence()
		began := time.Now()
		require.ErrorIs(t, call(), dlq.ErrUnavailable, name)
		require.Less(t, time.Since(began), 13*time.Second, name)
		_, err = p.Topics(context.Background())
		require.NoError(t, err, name)
	}
}

func setting(t *testing.T, pool *pgxpool.Pool, name string) (value string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SHOW `+name).Scan(&value))
	return value
}

func TestSessionsDoNotOutliveTheirProgram(t *testing.T) {
	t.Parallel()
	pool, _ := through(t)
	require.Equal(t, "10s", setting(t, pool, "idle_in_transaction_session_timeout"))
	require.Equal(t, "10000", setting(t, pool, "tcp_user_timeout"), "in milliseconds")
	require.Equal(t, "10", setting(t, pool, "tcp_keepalives_idle"))
}

// The test replaces set_config by a function of the same name, which simulates a server without the setting.
func TestAServerMayLackASetting(t *testing.T) {
	t.Parallel()
	admin := dbtest.New(t)
	for _, sql := range []string{
		`CREATE SCHEMA other`,
		`CREATE FUNCTION other.set_config(name text, value text, local boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
			IF name = 'tcp_user_timeout' THEN RAISE EXCEPTION 'unrecognized configuration parameter' USING ERRCODE = '42704'; END IF;
			RETURN pg_catalog.set_config(name, value, local);
		END $$`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = other, pg_catalog', current_database()); END $$`,
	} {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	options, err := pgxpool.ParseConfig(dbtest.URL(t))
	require.NoError(t, err)
	pool, err := postgres.NewPool(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.Equal(t, "10s", setting(t, pool, "idle_in_transaction_session_timeout"))
	require.Equal(t, "0", setting(t, pool, "tcp_user_timeout"))
}
