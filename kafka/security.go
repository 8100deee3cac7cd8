package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Values of Options.SecurityProtocol.
const (
	Plaintext     = "PLAINTEXT"
	SSL           = "SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SASLSSL       = "SASL_SSL"
)

// Values of SASL.Mechanism.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// SASL is who we are.
type SASL struct {
	Mechanism string
	User      string
	// Password is called for every new connection, so that a rotated secret is
	// used without a restart.
	Password func() (string, error)
}

// TLS names PEM files. They are read for every new connection.
type TLS struct {
	// CAFile holds the authorities to trust; empty means the system's.
	CAFile string
	// CertFile and KeyFile identify us to the broker (mTLS); both or none.
	CertFile string
	KeyFile  string
	// ServerName replaces the broker's host name in the check of its
	// certificate.
	ServerName string
}

const dialTimeout = 5 * time.Second

func (o Options) usesTLS() bool {
	return upper(o.SecurityProtocol) == SSL || upper(o.SecurityProtocol) == SASLSSL
}

func (o Options) usesSASL() bool {
	return upper(o.SecurityProtocol) == SASLPlaintext || upper(o.SecurityProtocol) == SASLSSL
}

func (o Options) validateSecurity() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("kafka."+format, args...)) }
	switch upper(o.SecurityProtocol) {
	case Plaintext, SSL, SASLPlaintext, SASLSSL:
	default:
		bad("security_protocol: %q is none of %s, %s, %s, %s", o.SecurityProtocol, Plaintext, SSL, SASLPlaintext, SASLSSL)
	}
	if o.usesSASL() {
		switch upper(o.SASL.Mechanism) {
		case Plain, ScramSHA256, ScramSHA512:
		default:
			bad("sasl.mechanism: %q is none of %s, %s, %s", o.SASL.Mechanism, Plain, ScramSHA256, ScramSHA512)
		}
		if o.SASL.User == "" {
			bad("sasl.user: %s needs it", o.SecurityProtocol)
		}
		if o.SASL.Password == nil {
			bad("sasl.password: %s needs it", o.SecurityProtocol)
		}
	} else if o.SASL.Mechanism != "" || o.SASL.User != "" {
		bad("sasl: security_protocol %s does not use it; set %s or %s", o.SecurityProtocol, SASLPlaintext, SASLSSL)
	}
	if o.usesTLS() {
		if _, err := o.TLS.config("broker"); err != nil {
			bad("tls: %w", err)
		}
	} else if o.TLS != (TLS{}) {
		bad("tls: security_protocol %s does not use it; set %s or %s", o.SecurityProtocol, SSL, SASLSSL)
	}
	return errs
}

// dial opens one connection, with the certificates as they are now.
func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plainDialer := &net.Dialer{Timeout: dialTimeout}
	if !o.usesTLS() {
		return plainDialer.DialContext(ctx, network, address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config, err := o.TLS.config(host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout) // for the handshake too
	defer cancel()
	return (&tls.Dialer{NetDialer: plainDialer, Config: config}).DialContext(ctx, network, address)
}

func (t TLS) config(host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if t.ServerName != "" {
		config.ServerName = t.ServerName
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: no certificate in %s", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("give both cert_file and key_file, or neither")
	}
	if t.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file and key_file: %w", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// mechanism returns nil when there is nothing to authenticate with.
func (o Options) mechanism() sasl.Mechanism {
	if !o.usesSASL() {
		return nil
	}
	user, password := o.SASL.User, o.SASL.Password
	scramAuth := func(context.Context) (scram.Auth, error) {
		secret, err := password()
		return scram.Auth{User: user, Pass: secret}, err
	}
	switch upper(o.SASL.Mechanism) {
	case ScramSHA256:
		return scram.Sha256(scramAuth)
	case ScramSHA512:
		return scram.Sha512(scramAuth)
	default:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			secret, err := password()
			return plain.Auth{User: user, Pass: secret}, err
		})
	}
}
