package app

import (
	"context"
	"fmt"
	"strings"

	"dlqmanager/config"
)

// hint is a part of an error's text, and the setting that the error is about.
type hint struct{ text, setting string }

// explained adds the name of the setting to the errors of a dependency.
func (p *parts) explained(dependency string, try func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return explain(p.cfg, dependency, try(ctx)) }
}

// explain adds the name of the setting that an error is about, if the text of the error tells. The libraries have no common
// types for these errors, and gRPC passes on only their texts.
func explain(cfg *config.Config, dependency string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, h := range hints(cfg, dependency) {
		if strings.Contains(text, h.text) && !strings.Contains(text, h.setting+": ") {
			return fmt.Errorf("%s: %w", h.setting, err)
		}
	}
	return err
}

// hints are the hints for a dependency, in the order of their precedence.
func hints(cfg *config.Config, dependency string) []hint {
	switch dependency {
	case "database":
		return append([]hint{
			{"requires a valid client certificate", "database.ssl_cert"},
			{"certificate authentication failed", "database.ssl_cert"},
			{"no encryption", "database.ssl_mode"},
			{"server refused TLS connection", "database.ssl_mode"},
			{"(SQLSTATE 28P01)", orFile("database.password", cfg.Database.PasswordFile)},
			{"(SQLSTATE 28000)", orFile("database.user", cfg.Database.UserFile)},
			{"(SQLSTATE 3D000)", "database.name"},
		}, tlsHints("database.ssl_root_cert", "database.host", "database.ssl_cert", "database.host")...)
	case "kafka", "ingest":
		return append([]hint{
			{"SASL_AUTHENTICATION_FAILED", orFile("kafka.sasl.password", cfg.Kafka.SASL.PasswordFile)},
			{"UNSUPPORTED_SASL_MECHANISM", "kafka.sasl.mechanism"},
			{"ILLEGAL_SASL_STATE", "kafka.security_protocol"},
			{"is TLS missing?", "kafka.security_protocol"}, // the texts of this hint and the next two are from the client library
			{"is TLS misconfigured on the client or the broker?", "kafka.security_protocol"},
			{"is this a plaintext connection speaking to a tls endpoint?", "kafka.security_protocol"},
			{"first record does not look like a TLS handshake", "kafka.security_protocol"},
		}, tlsHints("kafka.tls.ca_file", "kafka.tls.server_name", "kafka.tls.cert_file", "kafka.brokers")...)
	case "temporal":
		return append(tlsHints("temporal.tls.ca_file", "temporal.tls.server_name", "temporal.tls.cert_file", "temporal.address"),
			hint{"Unauthenticated", orFile("temporal.api_key", cfg.Temporal.APIKeyFile)},
			hint{"PermissionDenied", orFile("temporal.api_key", cfg.Temporal.APIKeyFile)},
			hint{"first record does not look like a TLS handshake", "temporal.tls.enabled"},
			hint{"error reading server preface", "temporal.tls.enabled"})
	case "schema_registry":
		const tls = "schema_registry.tls."
		return append(tlsHints(tls+"ca_file", tls+"server_name", tls+"cert_file", "schema_registry.url"),
			hint{"server gave HTTP response to HTTPS client", "schema_registry.url"},
			hint{"first record does not look like a TLS handshake", "schema_registry.url"},
			hint{"refuses the credentials", orFile("schema_registry.password", cfg.SchemaRegistry.PasswordFile)})
	default:
		return nil
	}
}

// tlsHints are the hints for errors of crypto/tls and crypto/x509.
func tlsHints(authorities, name, own, address string) []hint {
	return []hint{
		{"certificate signed by unknown authority", authorities},
		{"x509: certificate is valid for", name},
		{"x509: certificate is not valid for any names", name},
		{"x509: cannot validate certificate for", name},
		{"x509: certificate has expired or is not yet valid", address}, // the certificate of the server
		{"remote error: tls: ", own},
	}
}

// orFile is the key of a secret. If the secret is in a file, it is the key of the file.
func orFile(key, file string) string {
	if file != "" {
		return key + "_file"
	}
	return key
}
