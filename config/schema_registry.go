package config

import "net/http"

// SchemaRegistry has the schemas of values in Confluent's wire format. Without a URL such values are not decoded.
type SchemaRegistry struct {
	// URL lists the instances of the registry.
	URL            []string `yaml:"url" check:"web URL"`
	Username       string   `yaml:"username"`
	StaticPassword Secret   `yaml:"password"`
	PasswordFile   string   `yaml:"password_file" file:"secret"`
	// StaticToken is a bearer token. If a user is configured too, the token is used.
	StaticToken Secret `yaml:"token"`
	TokenFile   string `yaml:"token_file" file:"secret"`
	TLS         TLS    `yaml:"tls"`
	// Timeout is how long a request of the API waits for a schema and the schemas that it references.
	Timeout Duration `yaml:"timeout" default:"2s" check:"at least 1ms; at most 10s"`
	// IngestTimeout is how long the ingest waits for the schemas of a batch. The ingest stores nothing during this time.
	IngestTimeout Duration `yaml:"ingest_timeout" default:"200ms" check:"at most 5s"`
}

// Configured reports whether there is a Schema Registry.
func (r SchemaRegistry) Configured() bool { return len(r.URL) > 0 }

// Authorize adds the credentials to a request. It may read them from files, so call it for every request.
func (r SchemaRegistry) Authorize(request *http.Request) error {
	token, err := secretFrom(r.StaticToken, "schema_registry.token_file", r.TokenFile)
	if err != nil {
		return err
	}
	password, err := secretFrom(r.StaticPassword, "schema_registry.password_file", r.PasswordFile)
	if err != nil {
		return err
	}
	switch {
	case token != "":
		request.Header.Set("Authorization", "Bearer "+token)
	case r.Username != "":
		request.SetBasicAuth(r.Username, password)
	}
	return nil
}

func (r SchemaRegistry) validate(s section) {
	hasPassword := !r.StaticPassword.IsZero() || r.PasswordFile != ""
	hasToken := !r.StaticToken.IsZero() || r.TokenFile != ""
	s.refuse(!r.Configured() && (r.Username != "" || hasPassword || hasToken || r.TLS.isSet()),
		"url", "is required with the other keys of its section")
	s.refuse(hasPassword && r.Username == "", "username", "is required with a password")
}
