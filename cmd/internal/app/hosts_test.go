package app

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"dlqmanager/auth"
	"dlqmanager/config"
	"dlqmanager/dlq"
	"dlqmanager/telemetry"
)

// composed is the configuration of a program in docker-compose.yaml. It listens on a free loopback port, and its dependencies
// do not answer.
func composed(t *testing.T, service string) (*config.Config, string) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../../docker-compose.yaml"}, cli.WithDiscardEnvFile)
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	var environ []string
	for name, value := range project.Services[service].Environment {
		environ = append(environ, name+"="+*value)
	}
	cfg, err := config.Load("", environ)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close())
	cfg.Server.Host, cfg.Server.Port, cfg.Server.DrainDelay = "127.0.0.1", address.Port, 0
	cfg.Worker.Host, cfg.Worker.MetricsPort = "127.0.0.1", address.Port
	cfg.Database.Host, cfg.Database.Port, cfg.Temporal.Address, cfg.Kafka.Brokers = "127.0.0.1", 1, "127.0.0.1:1", []string{"127.0.0.1:1"}
	return cfg, address.String()
}

// statusFor sends a request with this Host header. It returns 0 if there is no answer.
func statusFor(t *testing.T, address, path, host string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	require.NoError(t, err)
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestPrometheusOfComposeMayScrapeAndForeignNamesMayNot(t *testing.T) {
	t.Parallel()
	var prometheus struct {
		Jobs []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	data, err := os.ReadFile("../../../deploy/compose/prometheus.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, &prometheus))
	targets := prometheus.Jobs[0].Static[0].Targets
	require.Len(t, targets, 2)
	for _, target := range targets {
		service, _, _ := strings.Cut(target, ":")
		cfg, address := composed(t, service)
		run := map[string]Service{"api": RunAPI, "worker": RunWorker}[service]
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, cfg, new(logs)) }()
		require.Eventually(t, func() bool { return statusFor(t, address, "/healthz", "localhost") == http.StatusOK },
			20*time.Second, 20*time.Millisecond, service)
		require.Equal(t, http.StatusOK, statusFor(t, address, "/metrics", target))
		for _, path := range []string{"/metrics", "/readyz", "/healthz", "/debug/log-level", "/api/v1/dlq"} {
			if path != "/api/v1/dlq" || service == "api" {
				require.Equal(t, http.StatusForbidden, statusFor(t, address, path, "evil.example"), "%s%s", service, path)
			}
		}
		cancel()
		require.NoError(t, <-ended)
	}
}

func TestTheHealthCheckReachesAServerByItsOwnName(t *testing.T) {
	t.Parallel()
	var host string
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host = r.Host })}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	require.NoError(t, Health{Address: listener.Addr().String()}.Check(t.Context()))
	require.True(t, dlq.IsOwnHost(host, nil), host)
	require.Equal(t, "localhost", host, "not the address, which may be a name that resolves")
}

func TestAWorkersMetricsAskForATokenOfItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	tokens := map[string]string{}
	for name, topics := range map[string][]string{"prometheus": nil, "limited": {"orders.*"}} {
		tokens[name] = auth.NewToken()
		entry, err := auth.Entry{Name: name, Role: dlq.RoleViewer, Topics: topics}.Marshal(tokens[name])
		require.NoError(t, err)
		require.NoError(t, auth.Append(path, entry))
	}
	p := &parts{cfg: config.Default(), log: zap.NewNop(), registry: prometheus.NewRegistry()}
	p.cfg.Worker.TokensFile = path
	checks := map[string]telemetry.Check{}
	handler, err := p.metricsHandler(checks)
	require.NoError(t, err)
	require.NoError(t, checks["tokens"](t.Context()))
	server, err := telemetry.Listen("127.0.0.1:0", nil, handler, http.NotFoundHandler(), checks, p.log)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	ask := func(path string, headers ...string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Address()+path, http.NoBody)
		require.NoError(t, err)
		request.Header["Authorization"] = headers
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, response.StatusCode == http.StatusUnauthorized, response.Header.Get("WWW-Authenticate") != "")
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, ask("/metrics", "Bearer "+tokens["prometheus"]))
	require.Equal(t, http.StatusOK, ask("/metrics", "bearer "+tokens["prometheus"]))
	require.Equal(t, http.StatusForbidden, ask("/metrics", "Bearer "+tokens["limited"]))
	for _, headers := range [][]string{
		nil, {"Bearer " + auth.NewToken()}, {"Basic " + tokens["prometheus"]}, {tokens["prometheus"]},
		{"Bearer " + tokens["prometheus"], "Bearer " + tokens["prometheus"]},
	} {
		require.Equal(t, http.StatusUnauthorized, ask("/metrics", headers...), strconv.Itoa(len(headers)))
	}
	require.Equal(t, http.StatusOK, ask("/readyz"), "probes have no token")

	p.cfg.Worker.TokensFile = "/nowhere/tokens"
	_, err = p.metricsHandler(checks)
	require.ErrorContains(t, err, "worker.tokens_file: open /nowhere/tokens")
}
