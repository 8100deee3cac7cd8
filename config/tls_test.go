package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/internal/certtest"
)

func TestTheServersCertificateIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{cert_file: f}":      "file:1: server.tls: cert_file and key_file belong together: set both or neither",
		"{key_file: f}":       "file:1: server.tls: cert_file and key_file belong together: set both or neither",
		"{client_ca_file: f}": "file:1: server.tls.client_ca_file: has no effect without server.tls.cert_file and server.tls.key_file",
	} {
		require.Equal(t, []string{want}, problemsOf(t, "server: {tls: "+text+"}"))
	}
}

func TestEveryWrongCertificateFileIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	one, other := certtest.Write(t, authority.Issue(t, "one")), certtest.Write(t, authority.Issue(t, "other"))
	missing := filepath.Join(t.TempDir(), "none")
	for want, change := range map[string]func(*config.Config){
		"server.tls.cert_file: open ": func(c *config.Config) { c.Server.TLS = config.ServerTLS{CertFile: missing, KeyFile: one.Key} },
		"server.tls.key_file: open ":  func(c *config.Config) { c.Server.TLS = config.ServerTLS{CertFile: one.Cert, KeyFile: missing} },
		"server.tls.cert_file and server.tls.key_file: tls: private key does not match public key": func(c *config.Config) {
			c.Server.TLS = config.ServerTLS{CertFile: one.Cert, KeyFile: other.Key}
		},
		"server.tls.client_ca_file: no certificate in ": func(c *config.Config) {
			c.Server.TLS = config.ServerTLS{CertFile: one.Cert, KeyFile: one.Key, ClientCAFile: one.Key}
		},
		"database.ssl_root_cert: open ": func(c *config.Config) { c.Database.SSLRootCert = missing },
		"database.ssl_cert and database.ssl_key: ": func(c *config.Config) {
			c.Database.SSLCert, c.Database.SSLKey = one.Cert, other.Key
		},
		"kafka.tls.cert_file: open ":  func(c *config.Config) { c.Kafka.TLS.CertFile, c.Kafka.TLS.KeyFile = missing, one.Key },
		"temporal.tls.ca_file: no ":   func(c *config.Config) { c.Temporal.TLS.CAFile = one.Key },
		"temporal.tls.key_file: open": func(c *config.Config) { c.Temporal.TLS.CertFile, c.Temporal.TLS.KeyFile = one.Cert, missing },
	} {
		c := config.Default()
		change(c)
		require.ErrorContains(t, c.CheckFiles(), want)
	}
	c := config.Default()
	c.Server.TLS = config.ServerTLS{CertFile: one.Cert, KeyFile: one.Key, ClientCAFile: one.Cert}
	c.Database.SSLRootCert, c.Database.SSLCert, c.Database.SSLKey = one.Cert, one.Cert, one.Key
	require.NoError(t, c.CheckFiles())
	require.NoError(t, os.Remove(one.Key))
	require.ErrorIs(t, c.CheckFiles(), os.ErrNotExist)
}
