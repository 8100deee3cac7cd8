package config

import (
	"context"
	"crypto/tls"
	"net"

	"go.temporal.io/sdk/contrib/envconfig"
	"google.golang.org/grpc/credentials"
)

// renewedTLS reads the certificates of a profile again for every connection. gRPC itself would keep the certificates from the
// start of the program.
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

// Clone is called for every gRPC client.
func (r renewedTLS) Clone() credentials.TransportCredentials {
	return renewedTLS{r.TransportCredentials.Clone(), r.profile}
}
