package ctl_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const hiddenMessage = `{"id": "01a214f0-d99b-85ca-9c4b-208d64cffa24", "dlq_topic": "orders.dlq.v1", "original_topic": "orders.v1", "error_message": "no ***",
	"error_class": null, "payload": {"email": "***", "n": 9007199254740993}, "key": {"base64": "Kioq", "size": 3},
	"value": {"base64": "eyJlbWFpbCI6IioqKiJ9", "size": 15}, "headers": [{"key": "a", "value": "PGI+", "text": "<b>"}, {"key": "b", "value": null, "text": null},
	{"key": "c", "value": "/g==", "text": null}], "masked": true, "masked_paths": ["value.email", "key"],
	"schema": {"format": "AVRO", "id": 7, "subject": "orders-value", "version": 2, "message_type": "Order"}}`

const messageRoute = "GET /api/v1/dlq/messages/01a214f0-d99b-85ca-9c4b-208d64cffa24"

func answerJSON(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, content)
	}
}

func TestAFixtureHasTheMessageAsFilesAndATestThatLoadsThem(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{messageRoute: answerJSON(hiddenMessage)})
	folder := filepath.Join(t.TempDir(), "orders", "fixture")
	ran := s.dlqctl(t, "fixture", "01a214f0-d99b-85ca-9c4b-208d64cffa24", "--dir", folder)
	require.Zero(t, ran.code, ran.err)
	require.Contains(t, ran.err, "Hidden: value.email, key")
	require.Contains(t, ran.err, "Written to "+folder)
	require.Contains(t, ran.out, "fixture_test.go")
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		return string(content)
	}
	require.Equal(t, "***", read("key"))
	require.Equal(t, `{"email":"***"}`, read("value"))
	require.JSONEq(t, `[{"key":"a","value":"<b>"},{"key":"b","value":null},{"key":"c","value_base64":"/g=="}]`, read("headers.json"))
	require.Contains(t, read("payload.json"), "9007199254740993")
	require.Contains(t, read("schema.json"), `"subject": "orders-value"`)
	var about map[string]any
	require.NoError(t, json.Unmarshal([]byte(read("message.json")), &about))
	require.Equal(t, []any{"value.email", "key"}, about["masked_paths"])

	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module fixture\n\ngo 1.21\n"), 0o600))
	test := exec.CommandContext(t.Context(), "go", "test", "-v", ".")
	test.Dir, test.Env = folder, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOTOOLCHAIN=local")
	output, err := test.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), `c: "\xfe"`)

	again := s.dlqctl(t, "fixture", "01a214f0-d99b-85ca-9c4b-208d64cffa24", "--dir", folder)
	require.Equal(t, 1, again.code)
	require.Contains(t, again.err, "exists: name another folder with --dir")
	require.Contains(t, s.dlqctl(t, "fixture", "01a214f0-d99b-85ca-9c4b-208d64cffa24", "--test", "cobol").err, "--test is go, java or none")
	java := filepath.Join(t.TempDir(), "x")
	require.Zero(t, s.dlqctl(t, "fixture", "01a214f0-d99b-85ca-9c4b-208d64cffa24", "--dir", java, "--test", "java").code)
	require.FileExists(t, filepath.Join(java, "FixtureTest.java"))
}

func TestAFixtureOfARevealedMessageIsRefused(t *testing.T) {
	t.Parallel()
	revealed := strings.Replace(hiddenMessage, `"masked": true`, `"unmasked_until": "2026-02-20T10:40:00.000+00:00"`, 1)
	s := server(t, map[string]http.HandlerFunc{messageRoute: answerJSON(revealed)})
	folder := filepath.Join(t.TempDir(), "x")
	ran := s.dlqctl(t, "fixture", "01a214f0-d99b-85ca-9c4b-208d64cffa24", "--dir", folder)
	require.Equal(t, 1, ran.code)
	require.Contains(t, ran.err, "a fixture is masked")
	require.NoDirExists(t, folder)
}

func TestUnmaskNeedsAReason(t *testing.T) {
	t.Parallel()
	var body string
	s := server(t, map[string]http.HandlerFunc{"POST /api/v1/dlq/messages/01a214f0-d99b-85ca-9c4b-208d64cffa24/unmask": func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		body = string(content)
		answerJSON(hiddenMessage)(w, r)
	}})
	require.Contains(t, s.dlqctl(t, "messages", "unmask", "01a214f0-d99b-85ca-9c4b-208d64cffa24").err, "--reason is missing")
	require.Empty(t, body)
	ran := s.dlqctl(t, "messages", "unmask", "01a214f0-d99b-85ca-9c4b-208d64cffa24", "--reason", "ticket 4711", "-o", "json")
	require.Zero(t, ran.code, ran.err)
	require.JSONEq(t, `{"reason":"ticket 4711"}`, body)
	require.Contains(t, ran.out, "01a214f0")
}
