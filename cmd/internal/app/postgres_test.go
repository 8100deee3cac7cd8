package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/dev"
	"dlqmanager/internal/certtest"
	"dlqmanager/migrations"
)

// accessRules allow connections without TLS for the superuser only. Members of the role certified need a client certificate.
// All other users need a password.
const accessRules = `host all postgres 127.0.0.1/32 trust
hostssl all +certified 127.0.0.1/32 cert
hostssl postgres,nowhere all 127.0.0.1/32 scram-sha-256
`

// securePostgres is a PostgreSQL server with TLS.
type securePostgres struct {
	port      int
	admin     *pgxpool.Pool
	authority *certtest.Authority // issues the certificates of the server and of its clients
	log       *logs
}

// startSecurePostgres runs a server until the test ends. Members of the role dlq_app have the rights that the programs need.
func startSecurePostgres(t *testing.T) *securePostgres {
	t.Helper()
	s := &securePostgres{authority: certtest.NewAuthority(t), log: &logs{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := dev.StartPostgres(ctx, dev.PostgresOptions{Dir: serverFolder(t), Log: s.log, Settings: map[string]string{
		"fsync": "off", "full_page_writes": "off", "autovacuum": "off",
	}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
	})
	s.port = server.Port
	s.admin, err = pgxpool.New(ctx, server.URL("postgres"))
	require.NoError(t, err)
	t.Cleanup(s.admin.Close)

	certificate, key := certtest.PEM(t, s.authority.Issue(t, "postgres"))
	s.write(t, "server.crt", string(certificate))
	s.write(t, "server.key", string(key))
	s.write(t, "clients.crt", string(s.authority.PEM()))
	s.write(t, "pg_hba.conf", accessRules)
	require.NoError(t, migrations.Up(ctx, s.admin))
	for _, sql := range []string{
		`ALTER SYSTEM SET ssl_ca_file = 'clients.crt'`, `ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`,
		`CREATE ROLE certified`, `CREATE ROLE dlq_app`,
		`GRANT USAGE ON SCHEMA dlq TO dlq_app`, `GRANT SELECT ON public.schema_migrations TO dlq_app`, `GRANT ALL ON ALL TABLES IN SCHEMA dlq TO dlq_app`,
		`GRANT ALL ON ALL SEQUENCES IN SCHEMA dlq TO dlq_app`,
	} {
		s.exec(t, sql)
	}
	require.Eventually(t, func() bool {
		var on bool
		require.NoError(t, s.admin.QueryRow(ctx, `SELECT current_setting('ssl')::bool`).Scan(&on))
		return on
	}, 10*time.Second, 10*time.Millisecond)
	return s
}

func (s *securePostgres) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := s.admin.Exec(context.Background(), sql)
	require.NoError(t, err, sql)
}

// write lets the server write one of its files, since it may run as another user.
func (s *securePostgres) write(t *testing.T, name, content string) {
	t.Helper()
	var folder string
	require.NoError(t, s.admin.QueryRow(context.Background(), `SHOW data_directory`).Scan(&folder))
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	s.exec(t, fmt.Sprintf(`COPY (SELECT unnest(ARRAY['%s'])) TO PROGRAM 'umask 077; cat > "%s"'`,
		strings.Join(lines, "','"), filepath.Join(folder, name)))
}

// section is the configuration of a user's connections.
func (s *securePostgres) section(t *testing.T, user, password string) config.Database {
	t.Helper()
	d := config.Default().Database
	d.Host, d.Port, d.Name, d.User, d.StaticPassword = "127.0.0.1", s.port, "postgres", user, config.NewSecret(password)
	d.SSLMode, d.SSLRootCert = "verify-full", certtest.File(t, s.authority.PEM())
	return d
}

// open returns the parts of a program on this database.
func open(t *testing.T, database config.Database) *parts {
	t.Helper()
	cfg := config.Default()
	cfg.Database = database
	require.NoError(t, cfg.CheckFiles())
	p, err := assemble(cfg, "test", io.Discard)
	require.NoError(t, err)
	t.Cleanup(p.close)
	return p
}

// checked is the result of the readiness check in the form of the log.
func (p *parts) checked(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return p.explained("database", p.checkDatabase)(ctx)
}

func TestConnectionsToPostgreSQL(t *testing.T) {
	t.Parallel()
	server := startSecurePostgres(t)
	t.Run("rotate a password under load", func(t *testing.T) { t.Parallel(); rotatesThePassword(t, server) })
	t.Run("rotate the user under load", func(t *testing.T) { t.Parallel(); rotatesTheUser(t, server) })
	t.Run("use a renewed client certificate", func(t *testing.T) { t.Parallel(); renewsTheClientCertificate(t, server) })
	t.Run("report the setting that is wrong", func(t *testing.T) { t.Parallel(); reportsTheSetting(t, server) })
}

func renewsTheClientCertificate(t *testing.T, server *securePostgres) {
	server.exec(t, `CREATE ROLE bearer LOGIN IN ROLE dlq_app, certified`)
	files := certtest.Write(t, server.authority.Issue(t, "bearer"))
	d := server.section(t, "bearer", "")
	d.SSLCert, d.SSLKey = files.Cert, files.Key
	p := open(t, d)
	reconnect := func() error { p.pool.Reset(); return p.checked(t) }
	require.NoError(t, reconnect())
	var subject string
	require.NoError(t, p.pool.QueryRow(t.Context(), `SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()`).Scan(&subject))
	require.Equal(t, "/CN=bearer", subject)

	files.Replace(t, server.authority.Issue(t, "somebody else"))
	require.ErrorContains(t, reconnect(), `database.ssl_cert: `)
	files.Replace(t, server.authority.Issue(t, "bearer", certtest.Expired()))
	_ = refused(t, "database.ssl_cert: ", "tls: expired certificate", reconnect)
	files.Replace(t, server.authority.Issue(t, "bearer"))
	require.NoError(t, reconnect())
	certtest.Replace(t, d.SSLRootCert, certtest.NewAuthority(t).PEM())
	require.ErrorContains(t, reconnect(), "database.ssl_root_cert: ")
	certtest.Replace(t, d.SSLRootCert, server.authority.PEM())
	require.NoError(t, reconnect())
}

func reportsTheSetting(t *testing.T, server *securePostgres) {
	server.exec(t, `CREATE ROLE reporter LOGIN PASSWORD 'right' IN ROLE dlq_app`)
	server.exec(t, `CREATE ROLE certified_reporter LOGIN PASSWORD 'right' IN ROLE certified, dlq_app`)
	const secret = "marked-secret"
	stranger := certtest.NewAuthority(t)
	for name, c := range map[string]struct {
		change        func(*config.Database)
		setting, said string
	}{
		"authority": {func(d *config.Database) { d.SSLRootCert = certtest.File(t, stranger.PEM()) },
			"database.ssl_root_cert", "x509: certificate signed by unknown authority"},
		"host name": {func(d *config.Database) { d.Host = "localhost" },
			"database.host", "x509: certificate is not valid for any names, but wanted to match localhost"},
		"password": {func(d *config.Database) { d.StaticPassword = config.NewSecret(secret) },
			"database.password", `password authentication failed for user "reporter"`},
		"password file": {func(d *config.Database) {
			d.StaticPassword, d.PasswordFile = config.Secret{}, certtest.File(t, []byte(secret))
		}, "database.password_file", `password authentication failed for user "reporter"`},
		"unknown user": {func(d *config.Database) { d.User, d.StaticPassword = "nobody", config.NewSecret(secret) },
			"database.password", `password authentication failed for user "nobody"`},
		"database name": {func(d *config.Database) { d.Name = "nowhere" }, "database.name", `database "nowhere" does not exist`},
		"no TLS": {func(d *config.Database) { d.SSLMode, d.SSLRootCert = "disable", "" },
			"database.ssl_mode", "no pg_hba.conf entry"},
		"no client certificate": {func(d *config.Database) { d.User = "certified_reporter" },
			"database.ssl_cert", "connection requires a valid client certificate"},
		"client certificate of a stranger": {func(d *config.Database) {
			files := certtest.Write(t, stranger.Issue(t, "certified_reporter"))
			d.User, d.SSLCert, d.SSLKey = "certified_reporter", files.Cert, files.Key
		}, "database.ssl_cert", "tls: unknown certificate authority"},
		"expired client certificate": {func(d *config.Database) {
			files := certtest.Write(t, server.authority.Issue(t, "certified_reporter", certtest.Expired()))
			d.User, d.SSLCert, d.SSLKey = "certified_reporter", files.Cert, files.Key
		}, "database.ssl_cert", "tls: expired certificate"},
		"expired certificate of the server": {func(d *config.Database) {
			d.Port = presentPostgres(t, server.authority.Issue(t, "postgres", certtest.Expired()))
		}, "database.host", "x509: certificate has expired or is not yet valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := server.section(t, "reporter", "right")
			c.change(&d)
			p := open(t, d)
			err := refused(t, c.setting+": ", c.said, func() error { return p.checked(t) })
			require.NotContains(t, err.Error(), secret)
		})
	}
}

// presentPostgres starts a server that begins TLS with this certificate, and does nothing more.
func presentPostgres(t *testing.T, certificate tls.Certificate) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if _, err := io.ReadFull(conn, make([]byte, 8)); err == nil { // the client's SSLRequest
					_, _ = conn.Write([]byte("S"))
					_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}).Handshake()
				}
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestAMissingPasswordFileIsNamed(t *testing.T) {
	t.Parallel()
	l := login{database: config.Database{DatabaseUser: config.DatabaseUser{User: "app", PasswordFile: filepath.Join(t.TempDir(), "none")}}}
	err := l.prepare(t.Context(), &pgx.ConnConfig{})
	require.ErrorContains(t, err, "database.password_file: open ")
}

// serverFolder is a folder that a server with another user can read.
func serverFolder(t *testing.T) string {
	t.Helper()
	// Package dbtest removes abandoned folders with such a name.
	dir, err := os.MkdirTemp("", fmt.Sprintf("dlq-postgres-%d-", os.Getpid())) //nolint:usetesting // the parents of t.TempDir are private
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
