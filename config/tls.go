package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS are the PEM files for connections to a dependency. The certificate of the dependency is always verified.
type TLS struct {
	// CAFile has the certificates to trust. If it is empty, the system's certificates are trusted.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are the client's certificate and its key, for mTLS.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the server's certificate must have, if it is not the host name.
	ServerName string `yaml:"server_name"`

	path string // the path of the section, for errors
}

func (t TLS) isSet() bool { return t.CAFile+t.CertFile+t.KeyFile+t.ServerName != "" }

// Config returns the TLS configuration. It reads the files, so call it for every new connection.
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

// checkPair refuses a certificate without a key, and a key without a certificate.
func (s section) checkPair(certFile, keyFile string) {
	s.refuse((certFile == "") != (keyFile == ""), "", "cert_file and key_file belong together: set both or neither")
}

// readAuthorities reads the trusted certificates of a PEM file. The error names the key of the configuration.
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

// readCertificate reads a certificate and its private key. The error names the keys of the configuration.
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
