package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// ServerTLS are the PEM files for the API's HTTPS. Without a certificate the API serves plain HTTP.
type ServerTLS struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ClientCAFile has the certificate authorities for client certificates. If it is set, every client needs a certificate.
	ClientCAFile string `yaml:"client_ca_file"`
}

// Configured reports whether the API serves HTTPS.
func (t ServerTLS) Configured() bool { return t.CertFile != "" }

// Config reads the files and returns the TLS configuration of the server.
func (t ServerTLS) Config() (*tls.Config, error) {
	pair, err := t.certificate()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
	}
	if t.ClientCAFile == "" {
		return config, nil
	}
	if config.ClientCAs, err = readAuthorities("server.tls.client_ca_file", t.ClientCAFile); err != nil {
		return nil, err
	}
	// VerifyConnection is also called for resumed sessions, so a renewed file applies to resumed sessions too.
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verifyClient(state.PeerCertificates, config.ClientCAs, pair.Certificate[0])
	}
	return config, nil
}

// HealthcheckConfig is the configuration of a client on the same machine. The client presents the server's own certificate. It
// does not verify the server's certificate, since that certificate does not name the loopback address.
func (t ServerTLS) HealthcheckConfig() (*tls.Config, error) {
	pair, err := t.certificate()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // the connection stays on this machine and carries no secret
		// A certificate in Certificates is not sent if the server asks for other certificate authorities.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	}, nil
}

func (t ServerTLS) certificate() (tls.Certificate, error) {
	return readCertificate("server.tls.cert_file", t.CertFile, "server.tls.key_file", t.KeyFile)
}

// verifyClient accepts client certificates of the authorities. It also accepts the server's own certificate, which only the
// health check presents.
func verifyClient(chain []*x509.Certificate, authorities *x509.CertPool, own []byte) error {
	if len(chain) == 0 {
		return errors.New("server.tls.client_ca_file: the client has no certificate")
	}
	if bytes.Equal(chain[0].Raw, own) {
		return nil
	}
	options := x509.VerifyOptions{
		Roots: authorities, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return fmt.Errorf("server.tls.client_ca_file: %w", err)
	}
	return nil
}

func (t ServerTLS) checkFiles(string) error {
	if !t.Configured() {
		return nil
	}
	_, err := t.Config()
	return err
}

func (t ServerTLS) validate(s section) {
	s.checkPair(t.CertFile, t.KeyFile)
	s.refuse(t.ClientCAFile != "" && !t.Configured(), "client_ca_file", "has no effect without server.tls.cert_file and server.tls.key_file")
}
