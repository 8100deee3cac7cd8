package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS names the PEM files of connections to a dependency, whose certificate is always verified.
type TLS struct {
	// CAFile holds the trusted certificates; empty means the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's own, for mTLS.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the expected name in the server's certificate, if not
	// the host name.
	ServerName string `yaml:"server_name"`

	path string // of the section, for errors
}

func (t TLS) isSet() bool { return t.CAFile+t.CertFile+t.KeyFile+t.ServerName != "" }

// Config returns the TLS configuration. The files are read, so call Config for every new
// connection.
func (t TLS) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var err error
	if t.CAFile != "" {
		if config.RootCAs, err = readAuthorities(below(t.path, "ca_file"), t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile != "" {
		certificate, err := readCertificate(below(t.path, "cert_file"), t.CertFile, below(t.path, "key_file"), t.KeyFile)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

func (t TLS) checkFiles(path string) error {
	t.path = path
	_, err := t.Config()
	return err
}

func (t TLS) validate(s section) { s.checkPair(t.CertFile, t.KeyFile) }

// checkPair checks that a certificate and its key are given together.
func (s section) checkPair(certFile, keyFile string) {
	s.refuse((certFile == "") != (keyFile == ""), "", "cert_file and key_file belong together: set both or neither")
}

// readAuthorities reads the trusted certificates of a PEM file. Its errors name the key.
func readAuthorities(key, path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate in %s", key, path)
	}
	return pool, nil
}

// readCertificate reads a certificate and its private key. Its errors name the keys of the configuration.
func readCertificate(certKey, certFile, keyKey, keyFile string) (tls.Certificate, error) {
	certificate, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", certKey, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", keyKey, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s and %s: %w", certKey, keyKey, err)
	}
	return pair, nil
}
