package app

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/internal/certtest"
)

// refused calls ask until its error begins with the setting and quotes the other side. This may take several calls. A server
// that refuses a client's certificate closes the connection. A client that is still writing then sees only a broken connection.
func refused(t *testing.T, setting, said string, ask func() error) error {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; {
		err := ask()
		require.Error(t, err)
		if strings.HasPrefix(err.Error(), setting) && strings.Contains(err.Error(), said) {
			return err
		}
		if time.Now().After(deadline) {
			require.Fail(t, "the error does not name the setting", "want %q and %q in: %v", setting, said, err)
		}
	}
}

// The port answers without a token, so its answers must not have the names of the settings.
func TestTheLogNamesTheSettingOfADependencyThatIsUnavailable(t *testing.T) {
	t.Parallel()
	broker, temporal := startSecureKafka(t, false), startSecureTemporal(t, tls.NoClientCert)
	const secret = "marked-secret"
	key := "accepted"
	temporal.apiKey.Store(&key)
	health, out := launchAPI(t, func(c *config.Config) {
		c.Kafka = broker.section(t, "SSL")
		c.Kafka.TLS.CAFile = certtest.File(t, certtest.NewAuthority(t).PEM())
		c.Temporal.Address, c.Temporal.TLS.CAFile = temporal.address, certtest.File(t, temporal.authority.PEM())
		c.Temporal.StaticAPIKey = config.NewSecret(secret)
	})
	require.Eventually(t, func() bool {
		err := health.Check(t.Context())
		require.Error(t, err)
		require.NotContains(t, err.Error(), "kafka.tls")
		lines := out.String()
		return strings.Contains(lines, `"dependency":"kafka","error":"kafka.tls.ca_file: `) &&
			strings.Contains(lines, `"dependency":"temporal","error":"temporal.api_key: `) &&
			strings.Contains(lines, `"waiting for temporal"`)
	}, 20*time.Second, 50*time.Millisecond, out)
	require.NotContains(t, out.String(), secret)
}

func TestAnErrorThatIsNotAboutASettingStaysAsItIs(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	for _, dependency := range []string{"database", "kafka", "ingest", "temporal", "worker"} {
		for _, err := range []error{nil, dlq.ErrUnavailable, context.DeadlineExceeded, errors.New("connection refused")} {
			require.Equal(t, err, explain(cfg, dependency, err), dependency)
		}
	}
	notice := &dlq.NoticeError{Notice: "the database is read-only"}
	require.Equal(t, error(notice), explain(cfg, "database", notice))
	cause := errors.New("x509: certificate signed by unknown authority")
	require.ErrorIs(t, explain(cfg, "database", cause), cause)
}
