package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Temporal is the server that runs the workflows. Its address and credentials come from these sources, the highest precedence
// first:
//
//  1. this program's variables, DLQ_TEMPORAL_ADDRESS and the like;
//  2. Temporal's variables, TEMPORAL_ADDRESS, TEMPORAL_API_KEY, TEMPORAL_TLS_…;
//  3. a profile that TEMPORAL_PROFILE or TEMPORAL_CONFIG_FILE names;
//  4. the temporal section of the file;
//  5. the default profile of Temporal's own configuration file.
//
// The values of a profile and of the section are never mixed, except for the namespace. Otherwise the API key of one server
// could be sent to the address of another.
type Temporal struct {
	// Address is host:port; empty if not configured.
	Address   string `yaml:"address" check:"host:port"`
	Namespace string `yaml:"namespace" default:"default" check:"required"`
	TaskQueue string `yaml:"task_queue" default:"dlq-manager" check:"required"`
	// UIURL is the base URL of the Web UI, for links in answers.
	UIURL        string `yaml:"ui_url" check:"web URL"`
	StaticAPIKey Secret `yaml:"api_key"`
	// APIKeyFile is read again for every call.
	APIKeyFile string      `yaml:"api_key_file" file:"secret"`
	TLS        TemporalTLS `yaml:"tls"`

	// resolved has the values of profiles and variables.
	resolved *envconfig.ClientConfigProfile
}

// TemporalTLS configures the encryption of connections.
type TemporalTLS struct {
	// Enabled may be omitted, since files, a server name or an API key imply TLS.
	Enabled *bool `yaml:"enabled"`
	TLS
}

// Configured reports whether an address is configured. Without an address, ClientOptions uses client.DefaultHostPort.
func (t Temporal) Configured() bool { return t.Address != "" }

// APIKey returns the current API key. It is empty when no key is configured.
func (t Temporal) APIKey() (string, error) {
	return secretFrom(t.StaticAPIKey, "temporal.api_key_file", t.APIKeyFile)
}

// A connection that is idle for keepAliveTime is pinged. It is closed if no answer comes within keepAliveTimeout, so after 15
// seconds in all. The SDK's default is 45 seconds. Servers refuse clients that ping more often than every 10 seconds. The
// eleventh second is a margin for the network's jitter.
const (
	keepAliveTime    = 11 * time.Second
	keepAliveTimeout = 4 * time.Second
)

// ClientOptions returns the connection options: address, namespace, TLS and
// credentials. The caller adds its logger and metrics.
func (t Temporal) ClientOptions() (client.Options, error) {
	profile := t.profile()
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, fmt.Errorf("temporal: %w", err)
	}
	options.HostPort = cmp.Or(options.HostPort, client.DefaultHostPort)
	connection := &options.ConnectionOptions
	connection.KeepAliveTime, connection.KeepAliveTimeout = keepAliveTime, keepAliveTimeout
	if t.APIKeyFile != "" {
		options.Credentials = client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) { return t.APIKey() })
		if connection.TLS == nil && !connection.TLSDisabled {
			connection.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	if connection.TLS != nil {
		connection.TLS.MinVersion = tls.VersionTLS12
	}
	if connection.TLS != nil && profile.TLS != nil {
		connection.DialOptions = append(connection.DialOptions,
			grpc.WithTransportCredentials(renewedTLS{credentials.NewTLS(connection.TLS), profile}))
	}
	return options, nil
}

// profile converts the section to the configuration type of the Temporal SDK.
func (t Temporal) profile() envconfig.ClientConfigProfile {
	profile := envconfig.ClientConfigProfile{TLS: t.TLS.profile()}
	if t.resolved != nil {
		profile = *t.resolved
	}
	profile.Address, profile.Namespace = t.Address, t.Namespace
	profile.APIKey = t.StaticAPIKey.Reveal()
	return profile
}

func (t TemporalTLS) profile() *envconfig.ClientConfigTLS {
	if t == (TemporalTLS{}) {
		return nil
	}
	return &envconfig.ClientConfigTLS{
		Disabled:         t.Enabled != nil && !*t.Enabled,
		ServerCACertPath: t.CAFile,
		ClientCertPath:   t.CertFile,
		ClientKeyPath:    t.KeyFile,
		ServerName:       t.ServerName,
	}
}

func (t Temporal) checkFiles(path string) error {
	var err error
	if t.TLS.checkFiles(path+".tls") == nil { // otherwise the section tls reports the error
		_, err = t.ClientOptions()
	}
	return err
}

func (t TemporalTLS) validate(s section) {
	t.TLS.validate(s)
	isOff := t.Enabled != nil && !*t.Enabled
	s.refuse(isOff && t.CAFile+t.CertFile+t.ServerName != "", "", "has settings, but enabled: false switches it off")
}
