package app

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/internal/temporaltest"
)

// silentAddress is an address that accepts connections and never answers.
func silentAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func serveStatus(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.URL
}

// findingsOf are the findings of Doctor -json for these checks.
func findingsOf(t *testing.T, cfg *config.Config, checks ...string) (found []finding) {
	t.Helper()
	var out bytes.Buffer
	err := Doctor(t.Context(), []string{"-json"}, func() (*config.Config, error) { return cfg, nil }, &out)
	var answer struct {
		Healthy  bool      `json:"healthy"`
		Findings []finding `json:"findings"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer), out.String())
	require.Equal(t, err == nil, answer.Healthy, "%v", err)
	for _, f := range answer.Findings {
		for _, check := range checks {
			if f.Check == check {
				found = append(found, f)
			}
		}
	}
	return found
}

func TestDoctorAsksEveryEndpoint(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Temporal.Address = temporaltest.Address(t)
	cfg.Targets.AllowedNetworks = []string{"127.0.0.1/32"}
	cfg.Targets.Endpoints = config.Endpoints{}
	for name, address := range map[string]string{
		"c-silent": "http://" + silentAddress(t), "a-well": serveStatus(t, http.StatusMethodNotAllowed), "b-away": serveStatus(t, http.StatusBadGateway),
		"d-private": "http://127.0.0.2:1/?token=s3cret",
	} {
		cfg.Targets.Endpoints[name] = config.Endpoint{URL: address, Timeout: config.Duration(100 * time.Millisecond), Concurrency: 1}
	}
	const name, do = "targets.endpoints.", "see that it runs and is reachable; messages for it wait meanwhile"
	require.Equal(t, []finding{
		{name + "a-well", levelOK, "it answers", ""},
		{name + "b-away", levelWarn, "it answered 502 Bad Gateway", do},
		{name + "c-silent", levelWarn, "no answer within 100ms", do},
		{name + "d-private", levelWarn, "the address 127.0.0.2 is not public; an administrator can add its network to targets.allowed_networks", do},
	}, findingsOf(t, cfg, name+"a-well", name+"b-away", name+"c-silent", name+"d-private"))
}

func TestDoctorAsksEveryInstanceOfTheRegistry(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Temporal.Address = temporaltest.Address(t)
	wrong, page := serveStatus(t, http.StatusUnauthorized), serveStatus(t, http.StatusNotFound)
	cfg.SchemaRegistry.URL = []string{wrong, page}
	found := findingsOf(t, cfg, "schema_registry")
	require.Len(t, found, 2)
	require.Equal(t, wrong+": schema_registry.password: the schema registry refuses the credentials (401)", found[0].What)
	require.Equal(t, page+": it is not a schema registry: it does not list subjects", found[1].What)
}

func TestDoctorIsStrictOnRequest(t *testing.T) {
	t.Parallel()
	cfg := config.Default() // warns that database and Kafka are not configured
	cfg.Temporal.Address = temporaltest.Address(t)
	load := func() (*config.Config, error) { return cfg, nil }
	require.NoError(t, Doctor(t.Context(), nil, load, io.Discard))
	err := Doctor(t.Context(), []string{"-strict"}, load, io.Discard)
	require.ErrorContains(t, err, "doctor: failures: 0, warnings: ")
	require.Equal(t, 1, exitCode(err, io.Discard))
}

func TestDoctorSaysThatArchiveTopicsWouldBeIngested(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Temporal.Address = temporaltest.Address(t)
	cfg.Kafka.Brokers, cfg.Kafka.DLQTopicPattern = []string{"127.0.0.1:1"}, []string{"failed-*"}
	found := findingsOf(t, cfg, "configuration")
	require.Len(t, found, 2)
	require.Contains(t, found[1].What, "is itself a dead-letter topic")
}

func TestDoctorReportsAnInvalidConfiguration(t *testing.T) {
	t.Parallel()
	load := func() (*config.Config, error) {
		return config.Load("", []string{"DLQ_SERVER_PORT=many", "DLQ_KAFKA_MAX_RETRIES=0"})
	}
	var out bytes.Buffer
	require.EqualError(t, Doctor(t.Context(), []string{"-json"}, load, &out), "doctor: failures: 2, warnings: 0")
	require.JSONEq(t, `{"healthy": false, "findings": [
		{"check": "configuration", "level": "fail", "what": "DLQ_KAFKA_MAX_RETRIES: kafka.max_retries: must be 1 to 1000, not 0", "do": "correct it; docs/configuration.md explains the keys"},
		{"check": "configuration", "level": "fail", "what": "DLQ_SERVER_PORT: server.port: must be a whole number that fits, not \"many\"", "do": "correct it; docs/configuration.md explains the keys"}
	]}`, out.String())
	out.Reset()
	require.Error(t, Doctor(t.Context(), nil, load, &out))
	require.Contains(t, out.String(), "FAIL  configuration: DLQ_SERVER_PORT: server.port: ")

	out.Reset()
	require.ErrorIs(t, Doctor(t.Context(), []string{"-h"}, load, &out), flag.ErrHelp)
	require.Equal(t, doctorHelp, out.String())
	for _, args := range [][]string{{"-v"}, {"now"}} {
		require.Equal(t, 2, exitCode(Doctor(t.Context(), args, load, io.Discard), io.Discard), args)
	}
}
