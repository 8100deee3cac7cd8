package kafkatest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/internal/certtest"
)

// SecureServer is a real Kafka whose further listeners are encrypted.
type SecureServer struct {
	*Server
	// SSL requires a client certificate. SASLSSL takes every mechanism; User and Outsider
	// have a password for SCRAM-SHA-512 and PLAIN.
	SSL, SASLSSL string
}

// RealSecureCluster starts a Kafka for one test. The authority issues the broker's certificate,
// and the broker accepts client certificates of the authority.
func RealSecureCluster(t testing.TB, authority *certtest.Authority) *SecureServer {
	t.Helper()
	needTools(t)
	lib, err := jars(Version)
	require.NoError(t, err)
	ports, err := freePorts(5)
	require.NoError(t, err)
	s := &SecureServer{
		Server: &Server{dir: t.TempDir(), jars: lib, heap: "320m", plain: local(ports[0]), sasl: local(ports[1])},
		SSL:    local(ports[2]), SASLSSL: local(ports[3]),
	}
	certificate, key := certtest.PEM(t, authority.Issue(t, "broker"))
	require.NoError(t, os.WriteFile(s.file("broker.pem"), append(key, certificate...), 0o600))
	require.NoError(t, os.WriteFile(s.file("clients.pem"), authority.PEM(), 0o600))
	require.NoError(t, s.format(append(s.properties(local(ports[4])), s.encryption(local(ports[4]))...), scramUsers()...))
	t.Cleanup(s.Kill)
	require.NoError(t, s.start())
	return s
}

// encryption has properties that replace or extend the properties of a Server.
func (s *SecureServer) encryption(controller string) []string {
	listeners := "PLAINTEXT://" + s.plain + ",SASL_PLAINTEXT://" + s.sasl + ",SSL://" + s.SSL + ",SASL_SSL://" + s.SASLSSL
	return []string{
		"listeners=" + listeners + ",CONTROLLER://" + controller,
		"advertised.listeners=" + listeners,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
		"listener.name.sasl_ssl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=" + scramModule,
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=" + scramModule,
		"listener.name.sasl_ssl.plain.sasl.jaas.config=" + plainModule(),
		"listener.name.ssl.ssl.client.auth=required",
		"ssl.keystore.type=PEM",
		"ssl.keystore.location=" + s.file("broker.pem"),
		"ssl.truststore.type=PEM",
		"ssl.truststore.location=" + s.file("clients.pem"),
	}
}
