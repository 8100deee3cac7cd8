package config

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"
)

// SchemaRegistry has the schemas of values in Confluent's wire format. Without a URL such
// values are not decoded.
type SchemaRegistry struct {
	// URL is one, or a list of the instances of one registry.
	URL            []string `yaml:"url"`
	Username       string   `yaml:"username"`
	StaticPassword Secret   `yaml:"password"`
	PasswordFile   string   `yaml:"password_file"`
	// StaticToken is a bearer token. It is used instead of the user, if there are both.
	StaticToken Secret      `yaml:"token"`
	TokenFile   string      `yaml:"token_file"`
	TLS         RegistryTLS `yaml:"tls"`
	// Timeout is for one schema, IngestTimeout for the schemas that a batch of the ingest
	// waits for.
	Timeout       Duration `yaml:"timeout"`
	IngestTimeout Duration `yaml:"ingest_timeout"`
}

// RegistryTLS has the same keys as Kafka's.
type RegistryTLS KafkaTLS

// Config returns the TLS configuration. It reads the files, so call it for every new
// connection.
func (t RegistryTLS) Config() (*tls.Config, error) { return KafkaTLS(t).config("schema_registry.tls") }

func defaultSchemaRegistry() SchemaRegistry {
	return SchemaRegistry{Timeout: Duration(2 * time.Second), IngestTimeout: Duration(200 * time.Millisecond)}
}

// Configured reports whether there is a Schema Registry.
func (s SchemaRegistry) Configured() bool { return len(s.URL) > 0 }

// Authorize adds the credentials to a request. It reads their files, so call it for every
// request.
func (s SchemaRegistry) Authorize(request *http.Request) error {
	token, err := secretFrom(s.StaticToken, "schema_registry.token_file", s.TokenFile)
	if err != nil {
		return err
	}
	password, err := secretFrom(s.StaticPassword, "schema_registry.password_file", s.PasswordFile)
	if err != nil {
		return err
	}
	switch {
	case token != "":
		request.Header.Set("Authorization", "Bearer "+token)
	case s.Username != "":
		request.SetBasicAuth(s.Username, password)
	}
	return nil
}

func (s SchemaRegistry) validate(r *report) {
	for i, address := range s.URL {
		path := "schema_registry.url"
		if len(s.URL) > 1 {
			path = fmt.Sprintf("%s[%d]", path, i)
		}
		r.webURL(path, address)
	}
	hasPassword, hasToken := !s.StaticPassword.IsZero() || s.PasswordFile != "", !s.StaticToken.IsZero() || s.TokenFile != ""
	if !s.Configured() && (s.Username != "" || hasPassword || hasToken || s.TLS != RegistryTLS{}) {
		r.add("schema_registry.url", "is required with the other keys of its section")
	}
	if hasPassword && s.Username == "" {
		r.add("schema_registry.username", "is required with a password")
	}
	exclusive(r, "schema_registry.password", !s.StaticPassword.IsZero(), s.PasswordFile)
	exclusive(r, "schema_registry.token", !s.StaticToken.IsZero(), s.TokenFile)
	r.certificate("schema_registry.tls", s.TLS.CertFile, s.TLS.KeyFile)
	r.atLeast("schema_registry.timeout", s.Timeout, time.Millisecond)
	r.atMost("schema_registry.timeout", s.Timeout, 10*time.Second) // a request of the API waits for it
	r.atLeast("schema_registry.ingest_timeout", s.IngestTimeout, 0)
	r.atMost("schema_registry.ingest_timeout", s.IngestTimeout, 5*time.Second) // the ingest stands still meanwhile
}
