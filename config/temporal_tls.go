package config

import (
	"context"
	"crypto/tls"
	"net"

	"go.temporal.io/sdk/contrib/envconfig"
	"google.golang.org/grpc/credentials"
)

// check reads the files. Its errors name the keys.
func (t TemporalTLS) check() error {
	if t.CAFile != "" {
		if _, err := readAuthorities("temporal.tls.ca_file", t.CAFile); err != nil {
			return err
		}
	}
	if t.CertFile != "" {
		if _, err := readCertificate("temporal.tls.cert_file", t.CertFile, "temporal.tls.key_file", t.KeyFile); err != nil {
			return err
		}
	}
	return nil
}

// renewedTLS reads the certificates of a profile for every connection. gRPC itself would use
// those of the start.
type renewedTLS struct {
	credentials.TransportCredentials
	profile envconfig.ClientConfigProfile
}

// ClientHandshake begins TLS on a new connection.
func (r renewedTLS) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	options, err := r.profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return nil, nil, err
	}
	current := options.ConnectionOptions.TLS
	current.MinVersion = tls.VersionTLS12
	return credentials.NewTLS(current).ClientHandshake(ctx, authority, conn)
}

// Clone is called for every client of gRPC.
func (r renewedTLS) Clone() credentials.TransportCredentials {
	return renewedTLS{r.TransportCredentials.Clone(), r.profile}
}
