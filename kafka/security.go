package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Values of SASL.Mechanism.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// SASL is how connections authenticate.
type SASL struct {
	Mechanism string
	User      string
	// Password is called for every new connection, so that a rotated secret is
	// used without a restart.
	Password func() (string, error)
}

const dialTimeout = 5 * time.Second

// dial opens a connection, with the certificates as they are now.
func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	plainDialer := &net.Dialer{Timeout: dialTimeout} // tls.Dialer applies the timeout to the handshake too
	if o.TLS == nil {
		return plainDialer.DialContext(ctx, network, address)
	}
	config, err := o.TLS()
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{NetDialer: plainDialer, Config: config}).DialContext(ctx, network, address)
}

// mechanism returns nil when no mechanism is set.
func (s SASL) mechanism() sasl.Mechanism {
	scramAuth := func(context.Context) (scram.Auth, error) {
		secret, err := s.Password()
		return scram.Auth{User: s.User, Pass: secret}, err
	}
	switch s.Mechanism {
	case Plain:
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			secret, err := s.Password()
			return plain.Auth{User: s.User, Pass: secret}, err
		})
	case ScramSHA256:
		return scram.Sha256(scramAuth)
	case ScramSHA512:
		return scram.Sha512(scramAuth)
	default:
		return nil
	}
}
