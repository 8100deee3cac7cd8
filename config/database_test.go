package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func database() config.Database {
	d := config.Default().Database
	d.Host, d.Name, d.User = "db.example", "dlq_db", "app"
	return d
}

func TestConnectionURL(t *testing.T) {
	t.Parallel()
	d := database()
	require.Equal(t, "postgres://app@db.example:5432/dlq_db?connect_timeout=5&sslmode=prefer&statement_timeout=30000", d.URL())

	d.StaticPassword = config.NewSecret("pw")
	d.SSLMode, d.ConnectTimeout, d.StatementTimeout = "disable", 0, 0
	require.Equal(t, "postgres://app@db.example:5432/dlq_db?sslmode=disable", d.URL(), "never with the password")
}

func TestConnectionURLIsReadBackByPgx(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{"plain", "p@ss:w/rd?#&=%", "with space", "50%25", "+plus+", "日本語", `quo"te'\`, "a%zz", "[::1]", "line\nbreak"} {
		t.Run(odd, func(t *testing.T) {
			t.Parallel()
			d := database()
			d.User, d.Name = "u"+odd, "n"+odd
			parsed, err := pgx.ParseConfig(d.URL())
			require.NoError(t, err)
			require.Equal(t, "u"+odd, parsed.User)
			require.Equal(t, "n"+odd, parsed.Database)
			require.Equal(t, "db.example", parsed.Host)
			require.Equal(t, uint16(5432), parsed.Port)
			require.Equal(t, 5*time.Second, parsed.ConnectTimeout)
			require.Equal(t, "30000", parsed.RuntimeParams["statement_timeout"])
		})
	}
}

func TestConnectionURLOfEveryKindOfHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost", "10.0.0.1", "::1", "2001:db8::1", "/var/run/postgresql", "/run/with space"} {
		d := database()
		d.Host, d.Port = host, 6543
		parsed, err := pgxpool.ParseConfig(d.URL())
		require.NoError(t, err, host)
		require.Equal(t, host, parsed.ConnConfig.Host)
		require.Equal(t, uint16(6543), parsed.ConnConfig.Port)
		require.Equal(t, "dlq_db", parsed.ConnConfig.Database)
	}
}

func TestConnectionURLCarriesTheTLSMode(t *testing.T) {
	t.Parallel()
	for mode, wantTLS := range map[string]bool{"disable": false, "require": true, "verify-ca": true, "verify-full": true} {
		d := database()
		d.SSLMode = mode
		parsed, err := pgx.ParseConfig(d.URL())
		require.NoError(t, err)
		require.Equal(t, wantTLS, parsed.TLSConfig != nil, mode)
	}
	d := database()
	d.SSLMode, d.SSLRootCert = "verify-full", filepath.Join(t.TempDir(), "none.pem")
	_, err := pgx.ParseConfig(d.URL())
	require.ErrorContains(t, err, "none.pem")
}

func TestUserMayRotateWithThePassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	userFile, passwordFile := filepath.Join(dir, "user"), filepath.Join(dir, "password")
	d := database()
	d.User, d.UserFile, d.PasswordFile = "", userFile, passwordFile
	for _, suffix := range []string{"1", "2"} {
		require.NoError(t, os.WriteFile(userFile, []byte("user"+suffix+"\n"), 0o600))
		require.NoError(t, os.WriteFile(passwordFile, []byte("pass"+suffix+"\n"), 0o600))
		user, password, err := d.Credentials()
		require.NoError(t, err)
		require.Equal(t, "user"+suffix, user)
		require.Equal(t, "pass"+suffix, password)
	}
	require.NotContains(t, d.URL(), "@", "the user is not known before a connection is made")
}

func TestMigrationsMayHaveCredentialsOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := database()
	d.StaticPassword = config.NewSecret("secret")
	requireCredentials := func(wantUser, wantPassword string) {
		user, password, err := d.MigrationCredentials()
		require.NoError(t, err)
		require.Equal(t, []string{wantUser, wantPassword}, []string{user, password})
	}
	requireCredentials("app", "secret")
	d.Migrations.User = "migrator"
	requireCredentials("migrator", "")
	d.Migrations.StaticPassword = config.NewSecret("own")
	requireCredentials("migrator", "own")
	file := filepath.Join(t.TempDir(), "password")
	d.Migrations.StaticPassword, d.Migrations.PasswordFile = config.Secret{}, file
	_, _, err := d.MigrationCredentials()
	require.ErrorContains(t, err, file)
	require.NoError(t, os.WriteFile(file, []byte("rotated\n"), 0o600))
	requireCredentials("migrator", "rotated")
}

func TestCredentialsOfMigrationsAreRedacted(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Database.Migrations.StaticPassword = config.NewSecret("hunter2")
	require.NotContains(t, fmt.Sprint(c.Redacted()), "hunter2")
	require.Contains(t, fmt.Sprint(c.Redacted()), "[redacted]")
}

func TestAuditSectionIsChecked(t *testing.T) {
	t.Parallel()
	require.Equal(t, 400*24*time.Hour, config.Default().Audit.Retention.Std())
	require.False(t, config.Default().Audit.Logs())
	require.Equal(t, []string{"file:1: audit.retention: must be at least 30d, not 29d"}, problemsOf(t, "audit: {retention: 29d}"))
	c, err := load(t, "audit: {log: true}")
	require.NoError(t, err)
	require.True(t, c.Audit.Logs())
}

func TestDatabaseSectionIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{name: a, user: b}":                                                                "file:1: database.host: is required",
		"{host: h, user: b}":                                                                "file:1: database.name: is required",
		"{host: h, name: a}":                                                                "file:1: database.user: is required",
		"{host: 'h:5432', name: a, user: b}":                                                `file:1: database.host: must be a host name or an IP address, without scheme or port, not "h:5432"`,
		"{host: 'postgres://h', name: a, user: b}":                                          "file:1: database.host: must be a host name",
		"{host: 'h h', name: a, user: b}":                                                   "file:1: database.host: must be a host name",
		"{host: h, name: a, user: b, port: 0}":                                              "file:1: database.port: must be 1 to 65535, not 0",
		"{host: h, name: a, user: b, ssl_mode: on}":                                         `file:1: database.ssl_mode: must be one of disable, allow, prefer, require, verify-ca, verify-full, not "on"`,
		"{host: h, name: a, user: b, ssl_mode: disable, ssl_root_cert: c}":                  `file:1: database.ssl_root_cert: has no effect with ssl_mode "disable"`,
		"{host: h, name: a, user: b, max_open_conns: 0, max_idle_conns: 0}":                 "file:1: database.max_open_conns: must be 1 to 10000, not 0",
		"{host: h, name: a, user: b, max_open_conns: 2}":                                    "database.max_idle_conns: must be 0 to 2, not 5",
		"{host: h, name: a, user: b, conn_max_lifetime: 0s}":                                "file:1: database.conn_max_lifetime: must be at least 1s, not 0s",
		"{host: h, name: a, user: b, statement_timeout: 100us}":                             "file:1: database.statement_timeout: must be 0s for no limit, or at least 1ms, not 100µs",
		"{host: h, name: a, user: b, connect_timeout: 10ms}":                                "file:1: database.connect_timeout: must be at least 1s, not 10ms",
		"{host: h, name: a, user: b, migrations: {user: m, user_file: f}}":                  "file:1: database.migrations.user_file: cannot be used together with database.migrations.user",
		"{host: h, name: a, user: b, migrations: {user: m, password: p, password_file: f}}": "file:1: database.migrations.password_file: cannot be used together",
		"{host: h, name: a, user: b, migrations: {password_file: f}}":                       "database.migrations.user: is required with a password",
		"{host: h, name: a, user: b, migrations: {role: x}, application_role: x}":           "file:1: database.application_role: must be another role than database.migrations.role",
		"{host: h, name: a, user: b, user_file: f}":                                         "file:1: database.user_file: cannot be used together with database.user",
		"{host: h, name: a, user: b, ssl_cert: c}":                                          "file:1: database: ssl_cert and ssl_key belong together: set both or neither",
		"{host: h, name: a, user: b, ssl_mode: disable, ssl_cert: c, ssl_key: k}":           `file:1: database.ssl_cert: has no effect with ssl_mode "disable"`,
	} {
		problems := problemsOf(t, "database: "+text)
		require.Len(t, problems, 1, text)
		require.Contains(t, problems[0], want)
	}
}
