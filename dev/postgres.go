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

// postgresUser is the superuser of every server that StartPostgres makes.
const postgresUser = "postgres"

// PostgresOptions says where and how a development server runs.
type PostgresOptions struct {
	// Dir holds the data and, where they must be downloaded, the binaries. It
	// is made when it does not exist. One process at a time may use it.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// PortSetting is the environment variable that changes Port. It is only
	// named in the error when the port is taken.
	PortSetting string
	// Major is the version of new data; 0 is that of the programs on this machine, or
	// else the newest that can be downloaded.
	Major int
	// Log receives the server's log; nil writes it to postgres.log in Dir.
	Log io.Writer
	// Settings are given to the server as -c name=value.
	Settings map[string]string

	// binaries and identities replace what is found on the machine, in tests.
	binaries   func(ctx context.Context, asOther bool) (string, error)
	identities func() []identity
}

// Postgres is a running PostgreSQL server that listens on 127.0.0.1 only and
// trusts whoever connects, so it is for development and tests alone.
type Postgres struct {
	// Port on 127.0.0.1.
	Port int
	// Version is the server's own, such as "17.5".
	Version string

	server *postgresProcess
	lock   *fileLock
	log    *os.File
}

// StartPostgres starts a server and returns once it answers. A server that a
// killed predecessor left running in Dir is stopped first. ctx bounds the start
// only; the server runs until Stop, and on Linux no longer than this process. A
// port that is taken is a *PortInUseError.
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

// Done is closed when the server has ended, by Stop or by itself.
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

// Stop ends the server cleanly: open transactions are rolled back, clients are
// disconnected. When ctx ends first the server is ended without its shutdown
// checkpoint; nothing committed is lost, the next start replays the log. Calling
// it again does nothing.
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

// answer waits until the server takes connections, ends, or ctx ends. Replaying
// the log after a crash can take a while, in which it refuses connections.
func (p *Postgres) answer(ctx context.Context) error {
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
