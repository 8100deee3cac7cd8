package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Database is the PostgreSQL server. Without a host messages are kept in memory.
type Database struct {
	// Host is a name, an address, or the directory of a Unix socket.
	Host string `yaml:"host"`
	Port int    `yaml:"port"`
	Name string `yaml:"name"`
	User string `yaml:"user"`
	// UserFile holds the user. It is for secret stores that issue a new user with every
	// password, and is read for every new connection.
	UserFile string `yaml:"user_file"`
	// StaticPassword is empty if PasswordFile is set or no password is needed.
	StaticPassword Secret `yaml:"password"`
	// PasswordFile is read for every new connection.
	PasswordFile string `yaml:"password_file"`
	// SSLMode is libpq's: disable, allow, prefer, require, verify-ca or
	// verify-full.
	SSLMode string `yaml:"ssl_mode"`
	// SSLRootCert is a file of trusted certificates; empty means the system's.
	SSLRootCert string `yaml:"ssl_root_cert"`
	// SSLCert and SSLKey are the files of the client's own certificate and key. All three
	// are read for every new connection.
	SSLCert         string   `yaml:"ssl_cert"`
	SSLKey          string   `yaml:"ssl_key"`
	MaxOpenConns    int      `yaml:"max_open_conns"`
	MaxIdleConns    int      `yaml:"max_idle_conns"`
	ConnMaxLifetime Duration `yaml:"conn_max_lifetime"`
	ConnectTimeout  Duration `yaml:"connect_timeout"`
	// StatementTimeout is enforced by the server; 0 disables it.
	StatementTimeout Duration `yaml:"statement_timeout"`
	// Migrations are the rights with which a worker applies migrations.
	Migrations Migrations `yaml:"migrations"`
	// ApplicationRole is the role whose members are the users of the programs. A worker
	// grants it the rights that they need. Empty if the programs' user owns the tables.
	ApplicationRole string `yaml:"application_role"`
}

// Migrations are the credentials and the role for migrations. Without a user, they run with
// the credentials of the program.
type Migrations struct {
	User     string `yaml:"user"`
	UserFile string `yaml:"user_file"`
	// StaticPassword is empty if PasswordFile is set or no password is needed.
	StaticPassword Secret `yaml:"password"`
	PasswordFile   string `yaml:"password_file"`
	// Role owns the tables; the user is a member of it. Empty if the user itself owns them.
	Role string `yaml:"role"`
}

func (m Migrations) hasUser() bool { return m.User != "" || m.UserFile != "" }

func defaultDatabase() Database {
	return Database{
		Port:             5432,
		SSLMode:          "prefer", // libpq's default: TLS where the server has it
		MaxOpenConns:     25,
		MaxIdleConns:     5,
		ConnMaxLifetime:  Duration(5 * time.Minute),
		ConnectTimeout:   Duration(5 * time.Second),
		StatementTimeout: Duration(30 * time.Second),
	}
}

// Configured reports whether a database is configured.
func (d Database) Configured() bool { return d.Host != "" }

// Credentials returns the current user and password. It reads their files, if any, so
// call it for every new connection.
func (d Database) Credentials() (user, password string, err error) {
	if user, err = secretFrom(NewSecret(d.User), "database.user_file", d.UserFile); err != nil {
		return "", "", err
	}
	if password, err = d.Password(); err != nil {
		return "", "", err
	}
	return user, password, nil
}

// MigrationCredentials returns the current user and password for migrations. It reads their
// files, like Credentials.
func (d Database) MigrationCredentials() (user, password string, err error) {
	m := d.Migrations
	if !m.hasUser() {
		return d.Credentials()
	}
	if user, err = secretFrom(NewSecret(m.User), "database.migrations.user_file", m.UserFile); err != nil {
		return "", "", err
	}
	if password, err = secretFrom(m.StaticPassword, "database.migrations.password_file", m.PasswordFile); err != nil {
		return "", "", err
	}
	return user, password, nil
}

// Password returns the current password; empty when none is configured.
func (d Database) Password() (string, error) {
	return secretFrom(d.StaticPassword, "database.password_file", d.PasswordFile)
}

// URL is the connection URL without a password, for logs and pgxpool.ParseConfig.
// Credentials returns the password.
func (d Database) URL() string {
	query := url.Values{}
	query.Set("sslmode", d.SSLMode)
	if d.SSLRootCert != "" {
		query.Set("sslrootcert", d.SSLRootCert)
	}
	if d.SSLCert != "" {
		query.Set("sslcert", d.SSLCert)
		query.Set("sslkey", d.SSLKey)
	}
	if seconds := int(d.ConnectTimeout.Std() / time.Second); seconds > 0 {
		query.Set("connect_timeout", strconv.Itoa(seconds))
	}
	if millis := d.StatementTimeout.Std().Milliseconds(); millis > 0 {
		query.Set("statement_timeout", strconv.FormatInt(millis, 10))
	}
	u := &url.URL{Scheme: "postgres", Path: "/" + d.Name}
	if d.User != "" {
		u.User = url.User(d.User)
	}
	if strings.HasPrefix(d.Host, "/") {
		query.Set("host", d.Host)
		query.Set("port", strconv.Itoa(d.Port))
	} else {
		u.Host = net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	}
	// Not every parser of connection URLs reads + as a space.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String()
}

// CheckCertificates reads the files of the certificates. Its errors name the keys.
func (d Database) CheckCertificates() error {
	if d.SSLRootCert != "" {
		if _, err := readAuthorities("database.ssl_root_cert", d.SSLRootCert); err != nil {
			return err
		}
	}
	if d.SSLCert != "" {
		if _, err := readCertificate("database.ssl_cert", d.SSLCert, "database.ssl_key", d.SSLKey); err != nil {
			return err
		}
	}
	return nil
}

func (d Database) validate(r *report) {
	if !d.Configured() {
		if r.given("database") {
			r.add("database.host", "is required; remove the section and its variables to keep messages in memory")
		}
		return
	}
	if !strings.HasPrefix(d.Host, "/") {
		r.host("database.host", d.Host)
	}
	r.port("database.port", d.Port)
	r.notEmpty("database.name", d.Name)
	if d.UserFile == "" {
		r.notEmpty("database.user", d.User)
	}
	exclusive(r, "database.user", d.User != "", d.UserFile)
	exclusive(r, "database.password", !d.StaticPassword.IsZero(), d.PasswordFile)
	r.oneOf("database.ssl_mode", d.SSLMode, "disable", "allow", "prefer", "require", "verify-ca", "verify-full")
	if d.SSLRootCert != "" && (d.SSLMode == "disable" || d.SSLMode == "allow" || d.SSLMode == "prefer") {
		r.add("database.ssl_root_cert", "has no effect with ssl_mode %q: use require, verify-ca or verify-full", d.SSLMode)
	}
	if (d.SSLCert == "") != (d.SSLKey == "") {
		r.add("database", "ssl_cert and ssl_key belong together: set both or neither")
	} else if d.SSLCert != "" && d.SSLMode == "disable" {
		r.add("database.ssl_cert", "has no effect with ssl_mode %q", d.SSLMode)
	}
	r.between("database.max_open_conns", d.MaxOpenConns, 1, 10_000)
	r.between("database.max_idle_conns", d.MaxIdleConns, 0, max(d.MaxOpenConns, 0))
	r.atLeast("database.conn_max_lifetime", d.ConnMaxLifetime, time.Second)
	r.atLeast("database.connect_timeout", d.ConnectTimeout, time.Second)
	if d.StatementTimeout != 0 {
		r.atLeast("database.statement_timeout", d.StatementTimeout, time.Millisecond)
	}
	d.validateRoles(r)
}

func (d Database) validateRoles(r *report) {
	m := d.Migrations
	exclusive(r, "database.migrations.user", m.User != "", m.UserFile)
	exclusive(r, "database.migrations.password", !m.StaticPassword.IsZero(), m.PasswordFile)
	if !m.hasUser() && (!m.StaticPassword.IsZero() || m.PasswordFile != "") {
		r.add("database.migrations.user", "is required with a password for migrations")
	}
	if d.ApplicationRole != "" && d.ApplicationRole == m.Role {
		r.add("database.application_role", "must be another role than database.migrations.role, which owns the tables")
	}
}
