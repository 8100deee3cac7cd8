package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/internal/certtest"
	"dlqmanager/internal/temporaltest"
)

// logs collects the log of a program.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startAPI runs the API with messages in memory until the test ends. It returns when the API is ready.
func startAPI(t *testing.T, change func(*config.Config)) (Health, *logs) {
	t.Helper()
	health, out := launchAPI(t, change)
	require.Eventually(t, func() bool { return health.Check(t.Context()) == nil }, 20*time.Second, 20*time.Millisecond, out)
	return health, out
}

// launchAPI is startAPI without the wait.
func launchAPI(t *testing.T, change func(*config.Config)) (Health, *logs) {
	t.Helper()
	cfg := config.Default()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cfg.Server.Port = listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	cfg.Server.DrainDelay = 0
	cfg.Temporal.Address, cfg.Temporal.TaskQueue = temporaltest.Address(t), temporaltest.TaskQueue(t)
	change(cfg)
	require.NoError(t, cfg.CheckFiles())

	out := &logs{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- RunAPI(ctx, cfg, out) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return APIHealth(cfg), out
}

// get requests /healthz on a new connection, and returns the server's certificate.
func get(base string, client *tls.Config) ([]byte, error) {
	transport := &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get(base + "/healthz")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, err
	}
	return response.TLS.PeerCertificates[0].Raw, nil
}

func TestTheAPIServesARenewedCertificateWithoutARestart(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	first, second := authority.Issue(t, "first"), authority.Issue(t, "second")
	files := certtest.Write(t, first)
	health, out := startAPI(t, func(c *config.Config) {
		c.Server.TLS = config.ServerTLS{CertFile: files.Cert, KeyFile: files.Key}
	})
	trusting := &tls.Config{RootCAs: authority.Pool()}
	served, err := get(health.URL(), trusting)
	require.NoError(t, err)
	require.Equal(t, first.Certificate[0], served)
	_, err = get(health.URL(), &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version not supported")
	_, err = get(strings.Replace(health.URL(), "https", "http", 1), nil)
	require.Error(t, err, "plain HTTP")

	certificate, key := certtest.PEM(t, second)
	certtest.Replace(t, files.Cert, certificate)
	const refusal = "the certificate cannot be renewed"
	require.Eventually(t, func() bool {
		served, err := get(health.URL(), trusting)
		require.NoError(t, err)
		require.Equal(t, first.Certificate[0], served, "until the key belongs to it")
		return strings.Contains(out.String(), refusal)
	}, 10*time.Second, 50*time.Millisecond)
	require.Contains(t, out.String(), "server.tls.cert_file and server.tls.key_file: tls: private key does not match public key")

	certtest.Replace(t, files.Key, key)
	require.Eventually(t, func() bool {
		served, err := get(health.URL(), trusting)
		require.NoError(t, err)
		return bytes.Equal(second.Certificate[0], served)
	}, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, 1, strings.Count(out.String(), refusal), "it is logged once")
	require.Contains(t, out.String(), "the certificate was renewed")
}

// Clients verify the server's certificate, but do not tell the server. So the server itself logs why clients refuse it.
func TestTheAPIReportsThatItsOwnCertificateIsNoLongerValid(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	files := certtest.Write(t, authority.Issue(t, "server", certtest.Expired()))
	health, out := startAPI(t, func(c *config.Config) {
		c.Server.TLS = config.ServerTLS{CertFile: files.Cert, KeyFile: files.Key}
	})
	trusting := &tls.Config{RootCAs: authority.Pool()}
	_, err := get(health.URL(), trusting)
	require.ErrorContains(t, err, "x509: certificate has expired or is not yet valid")
	const report = "server.tls.cert_file: the certificate expired at "
	require.Contains(t, out.String(), report)

	accepted := func() bool {
		_, err := get(health.URL(), trusting)
		return err == nil
	}
	files.Replace(t, authority.Issue(t, "server"))
	require.Eventually(t, accepted, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, 1, strings.Count(out.String(), report), "it is logged once")
	files.Replace(t, authority.Issue(t, "server", certtest.Expired()))
	require.Eventually(t, func() bool { return !accepted() }, 10*time.Second, 50*time.Millisecond)
	require.Equal(t, 2, strings.Count(out.String(), report), "it is logged again")
}

func TestClientsNeedACertificateOfTheConfiguredAuthorities(t *testing.T) {
	t.Parallel()
	servers, clients, strangers := certtest.NewAuthority(t), certtest.NewAuthority(t), certtest.NewAuthority(t)
	files := certtest.Write(t, servers.Issue(t, "server", certtest.ServerOnly()))
	authorities := certtest.File(t, clients.PEM())
	health, out := startAPI(t, func(c *config.Config) { // returns when the health check has succeeded
		c.Server.TLS = config.ServerTLS{CertFile: files.Cert, KeyFile: files.Key, ClientCAFile: authorities}
	})
	ask := func(certificate tls.Certificate) error {
		_, err := get(health.URL(), &tls.Config{
			RootCAs:              servers.Pool(),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil },
		})
		return err
	}
	known := clients.Issue(t, "client")
	require.NoError(t, ask(known))
	require.ErrorContains(t, ask(tls.Certificate{}), "tls: certificate required")
	require.ErrorContains(t, ask(strangers.Issue(t, "stranger")), "tls: bad certificate")
	require.Contains(t, out.String(), "server.tls.client_ca_file: x509: certificate signed by unknown authority")
	require.ErrorContains(t, ask(clients.Issue(t, "client", certtest.Expired())), "tls: bad certificate")
	require.Contains(t, out.String(), "server.tls.client_ca_file: x509: certificate has expired or is not yet valid")
	require.Error(t, ask(clients.Issue(t, "another server", certtest.ServerOnly())))
	stolen := servers.Issue(t, "server", certtest.ServerOnly())
	require.Error(t, ask(stolen), "only the server's own certificate is that of the health check")

	session := &tls.Config{
		RootCAs: servers.Pool(), Certificates: []tls.Certificate{known}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	_, err := get(health.URL(), session)
	require.NoError(t, err)
	certtest.Replace(t, authorities, strangers.PEM())
	require.Eventually(t, func() bool {
		_, err := get(health.URL(), session)
		return err != nil
	}, 10*time.Second, 50*time.Millisecond, "a session from before must not be resumed")
}

func TestTheHealthcheckCommandSpeaksHTTPS(t *testing.T) {
	t.Parallel()
	files := certtest.Write(t, certtest.NewAuthority(t).Issue(t, "server", certtest.ForHost("dlq.example")))
	health, _ := startAPI(t, func(c *config.Config) {
		c.Server.TLS = config.ServerTLS{CertFile: files.Cert, KeyFile: files.Key}
	})
	_, port, err := net.SplitHostPort(health.Address)
	require.NoError(t, err)
	environ := []string{"DLQ_SERVER_PORT=" + port, "DLQ_SERVER_TLS_CERT_FILE=" + files.Cert, "DLQ_SERVER_TLS_KEY_FILE=" + files.Key}
	require.NoError(t, idleCommand()(t.Context(), []string{"healthcheck"}, environ, io.Discard))
	require.Error(t, idleCommand()(t.Context(), []string{"healthcheck"}, environ[:1], io.Discard), "without TLS")
}

func TestHealthIsAskedOnLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"0.0.0.0": "http://127.0.0.1:80", "::": "http://127.0.0.1:80", "127.0.0.1": "http://127.0.0.1:80", "::1": "http://[::1]:80",
	} {
		require.Equal(t, want, Health{Address: net.JoinHostPort(host, strconv.Itoa(80))}.URL())
	}
}
