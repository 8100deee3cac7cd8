package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgresUser is the superuser of every server that StartPostgres initializes.
const postgresUser = "postgres"

// PostgresOptions configures a development server.
type PostgresOptions struct {
	// Dir holds the data and, if they were downloaded, the binaries. It is created if
	// it does not exist. Only one process at a time may use it.
	Dir string
	// Port on 127.0.0.1; 0 takes a free port.
	Port int
	// PortSetting is the environment variable of Port, which the error names when the
	// port is taken.
	PortSetting string
	// Major is the major version of new data. 0 takes the version that is installed on this
	// machine, or else the newest version that can be downloaded.
	Major int
	// Log receives the server's log; nil writes it to postgres.log in Dir.
	Log io.Writer
	// Settings are passed to the server as -c name=value.
	Settings map[string]string

	// binaries and identities replace the search on this machine, in tests.
	binaries   func(ctx context.Context, asOther bool) (string, error)
	identities func() []identity
}

// Postgres is a running PostgreSQL server. It listens only on 127.0.0.1 and trusts
// every client, so it is only for development and tests.
type Postgres struct {
	// Port on 127.0.0.1.
	Port int
	// Version is the server's version, such as "17.5".
	Version string

	server *postgresProcess
	lock   *fileLock
	log    *os.File
}

// StartPostgres starts a server and returns once it answers. It first stops a server
// that still runs in Dir because its process was killed. ctx limits only the start. The
// server runs until Stop, and on Linux no longer than this process. It returns a
// *PortInUseError when the port is taken.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %s is in use by another program: %w", dir, err)
	}
	p := &Postgres{lock: lock}
	if err := p.start(ctx, dir, o); err != nil {
		p.release()
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return p, nil
}

func (p *Postgres) start(ctx context.Context, dir string, o PostgresOptions) error {
	data := filepath.Join(dir, "data")
	if err := stopLeftoverPostgres(ctx, data); err != nil {
		return err
	}
	if err := checkPort("PostgreSQL", o.Port, o.PortSetting); err != nil {
		return err
	}
	log := o.Log
	if log == nil {
		var err error
		if p.log, err = openLog(filepath.Join(dir, "postgres.log")); err != nil {
			return err
		}
		log = p.log
	}
	who, bin, err := o.prepare(ctx, dir)
	if err != nil {
		return err
	}
	if err := initDatabase(ctx, bin, data, who); err != nil {
		return err
	}
	return p.launch(ctx, o, launch{bin: bin, data: data, who: who, log: log})
}

// Done is closed when the server has ended, by Stop or otherwise.
func (p *Postgres) Done() <-chan struct{} { return p.server.exited }

// URL is the connection string of a database on this server.
func (p *Postgres) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(postgresUser), Host: address(p.Port),
		Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// EnsureDatabase creates the database unless it exists.
func (p *Postgres) EnsureDatabase(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, p.URL("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{database}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	return nil
}

// Stop shuts the server down: it rolls open transactions back and disconnects clients.
// When ctx ends first, the server ends without its shutdown checkpoint. No commit is
// lost, since the next start replays the WAL. A second call does nothing.
func (p *Postgres) Stop(ctx context.Context) error {
	err := p.server.stop(ctx)
	p.release()
	if err != nil {
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	return nil
}

func (p *Postgres) release() {
	if p.lock != nil {
		p.lock.release()
		p.lock = nil
	}
	if p.log != nil {
		_ = p.log.Close()
		p.log = nil
	}
}

// waitReady waits until the server accepts connections, ends, or ctx ends. It may
// refuse connections for a while after a crash, while it replays the WAL.
func (p *Postgres) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, p.URL("postgres"))
		if err == nil {
			p.Version, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
			return conn.Close(ctx)
		}
		select {
		case <-p.server.exited:
			return errors.New("the server ended while it started")
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
