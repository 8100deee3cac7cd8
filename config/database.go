package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Database is the PostgreSQL server. Without a host, messages are kept in memory.
type Database struct {
	// Host is a name, an address, or the directory of a Unix socket.
	Host string `yaml:"host"`
	Port int    `yaml:"port" default:"5432" check:"1 to 65535"`
	Name string `yaml:"name"`
	DatabaseUser
	// SSLMode is libpq's sslmode, with the same default: TLS if the server offers TLS.
	SSLMode string `yaml:"ssl_mode" default:"prefer" check:"one of disable, allow, prefer, require, verify-ca, verify-full"`
	// SSLRootCert is a file of trusted certificates. If it is empty, the system's certificates are trusted.
	SSLRootCert string `yaml:"ssl_root_cert"`
	// SSLCert and SSLKey are the files with the client's certificate and its key. These files and SSLRootCert are read for
	// every new connection.
	SSLCert         string   `yaml:"ssl_cert"`
	SSLKey          string   `yaml:"ssl_key"`
	MaxOpenConns    int      `yaml:"max_open_conns" default:"25" check:"1 to 10000"`
	MaxIdleConns    int      `yaml:"max_idle_conns" default:"5"`
	ConnMaxLifetime Duration `yaml:"conn_max_lifetime" default:"5m" check:"at least 1s"`
	ConnectTimeout  Duration `yaml:"connect_timeout" default:"5s" check:"at least 1s"`
	// The server enforces StatementTimeout. 0 is no limit.
	StatementTimeout Duration `yaml:"statement_timeout" default:"30s"`
	// Migrations has the user and the role for migrations, which a worker applies.
	Migrations Migrations `yaml:"migrations"`
	// ApplicationRole is the role that the users of the programs are members of. A worker grants this role the rights that the
	// programs need. It is empty if the programs' user owns the tables.
	ApplicationRole string `yaml:"application_role"`
}

// DatabaseUser is a database user and its password. The files are read for every new connection.
type DatabaseUser struct {
	User string `yaml:"user"`
	// UserFile is for secret stores that issue a new user with every password.
	UserFile string `yaml:"user_file" file:"secret"`
	// StaticPassword is empty if PasswordFile is set or if no password is needed.
	StaticPassword Secret `yaml:"password"`
	PasswordFile   string `yaml:"password_file" file:"secret"`
}

func (u DatabaseUser) isSet() bool { return u.User != "" || u.UserFile != "" }

// credentials returns the current user and password. path is the path of the section, which errors name.
func (u DatabaseUser) credentials(path string) (user, password string, err error) {
	if user, err = secretFrom(NewSecret(u.User), path+".user_file", u.UserFile); err != nil {
		return "", "", err
	}
	password, err = secretFrom(u.StaticPassword, path+".password_file", u.PasswordFile)
	return user, password, err
}

// Migrations are the user and the role for migrations. Without a user, migrations run with the user of the program.
type Migrations struct {
	DatabaseUser
	// Role owns the tables. The user for migrations is a member of Role. Role is empty if that user owns the tables.
	Role string `yaml:"role"`
}

// Configured reports whether a database is configured.
func (d Database) Configured() bool { return d.Host != "" }

// Credentials returns the current user and password. It may read them from files, so call it for every new connection.
func (d Database) Credentials() (user, password string, err error) { return d.credentials("database") }

// MigrationCredentials returns the current user and password for migrations. Like Credentials, it may read them from files.
func (d Database) MigrationCredentials() (user, password string, err error) {
	if !d.Migrations.isSet() {
		return d.Credentials()
	}
	return d.Migrations.credentials("database.migrations")
}

// URL is the connection URL for logs and for pgxpool.ParseConfig. It has no password, which Credentials returns.
func (d Database) URL() string {
	query := url.Values{
		"sslmode": {d.SSLMode}, "sslrootcert": {d.SSLRootCert}, "sslcert": {d.SSLCert}, "sslkey": {d.SSLKey},
		"connect_timeout":   {strconv.Itoa(int(d.ConnectTimeout.Std() / time.Second))},
		"statement_timeout": {strconv.FormatInt(d.StatementTimeout.Std().Milliseconds(), 10)},
	}
	maps.DeleteFunc(query, func(_ string, values []string) bool { return values[0] == "" || values[0] == "0" })
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
	// Some parsers of connection URLs do not read + as a space.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String()
}

// CheckCertificates reads the files of the certificates. The error names the key of the configuration.
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

func (d Database) checkFiles(string) error { return d.CheckCertificates() }

func (d Database) validate(s section) {
	if !d.Configured() {
		s.refuse(s.given(""), "host", "is required; remove the section and its variables to keep messages in memory")
		return
	}
	if !strings.HasPrefix(d.Host, "/") {
		s.check("host", "host", reflect.ValueOf(d.Host))
	}
	s.check("name", "required", reflect.ValueOf(d.Name))
	if d.UserFile == "" {
		s.check("user", "required", reflect.ValueOf(d.User))
	}
	s.refuse(d.StatementTimeout != 0 && d.StatementTimeout < Duration(time.Millisecond),
		"statement_timeout", "must be 0s for no limit, or at least 1ms, not %s", d.StatementTimeout)
	s.refuse(d.SSLRootCert != "" && slices.Contains([]string{"disable", "allow", "prefer"}, d.SSLMode),
		"ssl_root_cert", "has no effect with ssl_mode %q: use require, verify-ca or verify-full", d.SSLMode)
	s.refuse((d.SSLCert == "") != (d.SSLKey == ""), "", "ssl_cert and ssl_key belong together: set both or neither")
	s.refuse(d.SSLCert != "" && d.SSLKey != "" && d.SSLMode == "disable", "ssl_cert", "has no effect with ssl_mode %q", d.SSLMode)
	s.check("max_idle_conns", fmt.Sprintf("0 to %d", max(d.MaxOpenConns, 0)), reflect.ValueOf(d.MaxIdleConns))
	m := d.Migrations
	s.refuse(!m.isSet() && (!m.StaticPassword.IsZero() || m.PasswordFile != ""),
		"migrations.user", "is required with a password for migrations")
	s.refuse(d.ApplicationRole != "" && d.ApplicationRole == m.Role,
		"application_role", "must be another role than database.migrations.role, which owns the tables")
}
