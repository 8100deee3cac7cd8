package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"dlqmanager/config"
	"dlqmanager/internal/certtest"
	"dlqmanager/internal/temporaltest"
)

// secureTemporal is a proxy with TLS in front of the development server, which has no TLS.
type secureTemporal struct {
	address   string
	authority *certtest.Authority    // issues the certificates of the proxy and of its clients
	apiKey    atomic.Pointer[string] // the accepted key; nil accepts every call
	listener  *countingListener
}

// countingListener counts the connections that it has accepted, and can close them.
type countingListener struct {
	net.Listener
	accepted chan net.Conn
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- conn
	}
	return conn, err
}

func (l *countingListener) closeAccepted() {
	for {
		select {
		case conn := <-l.accepted:
			_ = conn.Close()
		default:
			return
		}
	}
}

// startSecureTemporal runs the proxy until the test ends. The options change the certificate of the proxy.
func startSecureTemporal(t *testing.T, clientAuth tls.ClientAuthType, options ...certtest.Option) *secureTemporal {
	t.Helper()
	s := &secureTemporal{authority: certtest.NewAuthority(t)}
	upstream, err := grpc.NewClient(temporaltest.Address(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = upstream.Close() })
	forward, err := proxy.NewWorkflowServiceProxyServer(proxy.WorkflowServiceProxyOptions{
		Client: workflowservice.NewWorkflowServiceClient(upstream), DisableHeaderForwarding: true,
	})
	require.NoError(t, err)

	server := grpc.NewServer(grpc.UnaryInterceptor(s.checkKey), grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{s.authority.Issue(t, "temporal", options...)}, MinVersion: tls.VersionTLS12,
		ClientCAs: s.authority.Pool(), ClientAuth: clientAuth,
	})))
	workflowservice.RegisterWorkflowServiceServer(server, forward)
	grpc_health_v1.RegisterHealthServer(server, healthy{client: grpc_health_v1.NewHealthClient(upstream)})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address, s.listener = listener.Addr().String(), &countingListener{listener, make(chan net.Conn, 1000)}
	go func() { _ = server.Serve(s.listener) }()
	t.Cleanup(server.Stop)
	return s
}

type healthy struct {
	grpc_health_v1.UnimplementedHealthServer
	client grpc_health_v1.HealthClient
}

func (h healthy) Check(ctx context.Context, request *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return h.client.Check(ctx, request)
}

func (s *secureTemporal) checkKey(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	key := s.apiKey.Load()
	given, _ := metadata.FromIncomingContext(ctx)
	if sent := given.Get("authorization"); key != nil && (len(sent) != 1 || sent[0] != "Bearer "+*key) {
		return nil, status.Error(codes.Unauthenticated, "Request unauthorized: the API key is unknown or has expired")
	}
	return handle(ctx, request)
}

// section is the configuration of connections that trust the proxy.
func (s *secureTemporal) section(t *testing.T) config.Temporal {
	t.Helper()
	section := config.Default().Temporal
	section.Address, section.TLS.CAFile = s.address, certtest.File(t, s.authority.PEM())
	return section
}

// temporalParts returns the parts of a program that uses this Temporal server.
func temporalParts(t *testing.T, section config.Temporal) *parts {
	t.Helper()
	cfg := config.Default()
	cfg.Temporal = section
	require.NoError(t, cfg.CheckFiles())
	p, err := assemble(cfg, "test", &logs{})
	require.NoError(t, err)
	t.Cleanup(p.close)
	return p
}

// askTemporal runs the readiness check.
func (p *parts) askTemporal(t *testing.T) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return p.explained("temporal", p.workflows.Ping)(ctx)
}

func TestWorkflowsRunOverMutualTLSWithAnAPIKey(t *testing.T) {
	t.Parallel()
	server := startSecureTemporal(t, tls.RequireAndVerifyClientCert)
	files, key := certtest.Write(t, server.authority.Issue(t, "dlq-manager")), rand.Text()
	server.apiKey.Store(&key)
	section := server.section(t)
	section.TLS.CertFile, section.TLS.KeyFile = files.Cert, files.Key
	section.APIKeyFile = certtest.File(t, []byte(key+"\n"))
	p := temporalParts(t, section)
	require.NoError(t, p.askTemporal(t))

	queue := temporaltest.TaskQueue(t)
	running := worker.New(p.temporal, queue, worker.Options{})
	running.RegisterWorkflowWithOptions(func(workflow.Context) (string, error) { return "done", nil }, workflow.RegisterOptions{Name: "greet"})
	require.NoError(t, running.Start())
	t.Cleanup(running.Stop)
	run, err := p.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, "greet")
	require.NoError(t, err)
	var result string
	require.NoError(t, run.Get(t.Context(), &result))
	require.Equal(t, "done", result)
}

func TestAnAPIKeyForTemporalMayChangeWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	server := startSecureTemporal(t, tls.NoClientCert)
	before, after := rand.Text(), rand.Text()
	server.apiKey.Store(&before)
	section := server.section(t)
	section.APIKeyFile = certtest.File(t, []byte(before))
	p := temporalParts(t, section)
	require.NoError(t, p.askTemporal(t))

	server.apiKey.Store(&after)
	err := p.askTemporal(t)
	require.ErrorContains(t, err, "temporal.api_key_file: ")
	require.ErrorContains(t, err, "Request unauthorized: the API key is unknown or has expired")
	require.NotContains(t, err.Error(), before)
	certtest.Replace(t, section.APIKeyFile, []byte(after))
	require.NoError(t, p.askTemporal(t))
}

func TestACertificateForTemporalMayChangeWhileTheProgramRuns(t *testing.T) {
	t.Parallel()
	server := startSecureTemporal(t, tls.RequireAndVerifyClientCert)
	files := certtest.Write(t, server.authority.Issue(t, "dlq-manager"))
	section := server.section(t)
	section.TLS.CertFile, section.TLS.KeyFile = files.Cert, files.Key
	p := temporalParts(t, section)
	require.NoError(t, p.askTemporal(t))

	stranger := certtest.NewAuthority(t)
	fails := func(setting, said string) {
		t.Helper()
		server.listener.closeAccepted()
		require.Eventually(t, func() bool {
			err := p.askTemporal(t)
			return err != nil && strings.HasPrefix(err.Error(), setting) && strings.Contains(err.Error(), said)
		}, 20*time.Second, 10*time.Millisecond)
	}
	works := func() bool { return p.askTemporal(t) == nil }
	files.Replace(t, stranger.Issue(t, "dlq-manager"))
	fails("temporal.tls.cert_file: ", "tls: unknown certificate authority")
	files.Replace(t, server.authority.Issue(t, "dlq-manager", certtest.Expired()))
	fails("temporal.tls.cert_file: ", "remote error: tls: expired certificate")
	files.Replace(t, server.authority.Issue(t, "dlq-manager"))
	require.Eventually(t, works, 20*time.Second, 10*time.Millisecond)
	certtest.Replace(t, section.TLS.CAFile, stranger.PEM())
	fails("temporal.tls.ca_file: ", "certificate signed by unknown authority")
	certtest.Replace(t, section.TLS.CAFile, server.authority.PEM())
	require.Eventually(t, works, 20*time.Second, 10*time.Millisecond)
}

func TestAnErrorOfTemporalNamesTheSettingThatIsWrong(t *testing.T) {
	t.Parallel()
	mutual, oneWay := startSecureTemporal(t, tls.RequireAndVerifyClientCert), startSecureTemporal(t, tls.NoClientCert)
	expired := startSecureTemporal(t, tls.NoClientCert, certtest.Expired())
	stranger, secret, accepted := certtest.NewAuthority(t), rand.Text(), rand.Text()
	oneWay.apiKey.Store(&accepted)
	unencrypted := temporaltest.Address(t)
	for name, c := range map[string]struct {
		change        func(*config.Temporal)
		setting, said string
	}{
		"authority": {func(s *config.Temporal) { s.TLS.CAFile = certtest.File(t, stranger.PEM()) },
			"temporal.tls.ca_file: ", "x509: certificate signed by unknown authority"},
		"host name": {func(s *config.Temporal) { s.TLS.ServerName = "temporal.example" },
			"temporal.tls.server_name: ", "but wanted to match temporal.example"},
		"API key": {func(s *config.Temporal) { s.StaticAPIKey = config.NewSecret(secret) },
			"temporal.api_key: ", "Request unauthorized: the API key is unknown or has expired"},
		"API key file": {func(s *config.Temporal) { s.APIKeyFile = certtest.File(t, []byte(secret)) },
			"temporal.api_key_file: ", "Request unauthorized: the API key is unknown or has expired"},
		"no client certificate": {func(s *config.Temporal) { *s = mutual.section(t) },
			"temporal.tls.cert_file: ", "remote error: tls: certificate required"},
		"client certificate of a stranger": {func(s *config.Temporal) {
			files := certtest.Write(t, stranger.Issue(t, "dlq-manager"))
			*s = mutual.section(t)
			s.TLS.CertFile, s.TLS.KeyFile = files.Cert, files.Key
		}, "temporal.tls.cert_file: ", "remote error: tls: unknown certificate authority"},
		"expired client certificate": {func(s *config.Temporal) {
			files := certtest.Write(t, mutual.authority.Issue(t, "dlq-manager", certtest.Expired()))
			*s = mutual.section(t)
			s.TLS.CertFile, s.TLS.KeyFile = files.Cert, files.Key
		}, "temporal.tls.cert_file: ", "remote error: tls: expired certificate"},
		"expired certificate of the server": {func(s *config.Temporal) { *s = expired.section(t) },
			"temporal.address: ", "x509: certificate has expired or is not yet valid"},
		"TLS where there is none": {func(s *config.Temporal) { s.Address = unencrypted },
			"temporal.tls.enabled: ", "first record does not look like a TLS handshake"},
		"no TLS where there is some": {func(s *config.Temporal) { s.TLS = config.TemporalTLS{} },
			"temporal.tls.enabled: ", "error reading server preface"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			section := oneWay.section(t)
			c.change(&section)
			p := temporalParts(t, section)
			err := refused(t, c.setting, c.said, func() error { return p.askTemporal(t) })
			require.NotContains(t, err.Error(), secret)
		})
	}
}
