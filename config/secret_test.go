package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.yaml.in/yaml/v3"

	"dlqmanager/config"
)

func TestSecretIsHiddenInEveryForm(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	secret := config.NewSecret(text)
	require.Equal(t, text, secret.Reveal())
	holder := struct {
		Public config.Secret
		hidden config.Secret
		Map    map[string]config.Secret
	}{secret, secret, map[string]config.Secret{"a": secret}}

	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%f", "%p", "%T", "%c"} {
		require.NotContains(t, fmt.Sprintf(verb, secret), text, verb)
		require.NotContains(t, fmt.Sprintf(verb, secret), "68756e74", verb)
		require.NotContains(t, fmt.Sprintf(verb, &secret), text, verb)
		require.NotContains(t, fmt.Sprintf(verb, holder), text, verb)
		require.NotContains(t, fmt.Sprintf(verb, holder), "68756e74", verb)
	}
	require.Equal(t, "[redacted]", fmt.Sprintf("%v", secret))
	require.Equal(t, "[redacted]", fmt.Sprintf("%#v", secret))
	require.Equal(t, "[redacted]", secret.GoString())
	require.Empty(t, fmt.Sprint(config.Secret{}), "that there is none may be seen")

	encoded, err := json.Marshal(holder)
	require.NoError(t, err)
	require.JSONEq(t, `{"Public":"[redacted]","Map":{"a":"[redacted]"}}`, string(encoded))

	encoded, err = yaml.Marshal(struct{ Public config.Secret }{secret})
	require.NoError(t, err)
	require.Equal(t, "public: '[redacted]'\n", string(encoded))

	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", secret, "holder", holder)
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), zapcore.DebugLevel)
	zap.New(core).Info("x", zap.Any("secret", secret), zap.Any("holder", holder), zap.Reflect("again", secret))
	require.NotContains(t, out.String(), text)
	require.Contains(t, out.String(), "[redacted]")
}

func TestConfigurationNeverPrintsItsSecrets(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
database: {host: db, name: dlq, user: app, password: secret-one}
kafka:
  brokers: [k:9092]
  security_protocol: SASL_PLAINTEXT
  sasl: {mechanism: PLAIN, user: u, password: secret-two}
`, "TEMPORAL_API_KEY=secret-three")
	require.NoError(t, err)
	asJSON, err := json.Marshal(c)
	require.NoError(t, err)
	asYAML, err := yaml.Marshal(c)
	require.NoError(t, err)
	redacted, err := json.Marshal(c.Redacted())
	require.NoError(t, err)
	all := fmt.Sprintf("%v %+v %#v %v %+v %#v", c, c, c, *c, *c, *c) + string(asJSON) + string(asYAML) + string(redacted) + c.Database.URL()
	for _, secret := range []string{"secret-one", "secret-two", "secret-three"} {
		require.NotContains(t, all, secret)
	}
	require.Contains(t, string(redacted), `"password":"[redacted]"`)
	require.Contains(t, string(redacted), `"api_key":"[redacted]"`)
	require.Contains(t, string(redacted), `"max_open_conns":25`, "defaults are shown too")
}

func TestErrorsDoNotRepeatSecrets(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"database: {host: h, password: [hunter2]}",
		"database: {host: h, password: {hunter2: x}}",
		"database: {host: h, password: !x hunter2}",
		"kafka: {brokers: [a:1], sasl: {password: hunter2}}",
		"temporal: {api_key: hunter2, api_key_file: f}",
	} {
		require.NotContains(t, fmt.Sprint(problemsOf(t, text)), "hunter2")
	}
}

func TestPasswordFileIsReadEveryTime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	set := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	set("first\n")
	c, err := config.Load("", []string{
		"DLQ_DATABASE_HOST=db", "DLQ_DATABASE_NAME=dlq", "DLQ_DATABASE_USER=app", "DLQ_DATABASE_PASSWORD_FILE=" + file,
		"DLQ_KAFKA_BROKERS=k:9092", "DLQ_KAFKA_SECURITY_PROTOCOL=SASL_SSL", "DLQ_KAFKA_SASL_MECHANISM=PLAIN",
		"DLQ_KAFKA_SASL_USER=u", "DLQ_KAFKA_SASL_PASSWORD_FILE=" + file, "DLQ_TEMPORAL_API_KEY_FILE=" + file,
	})
	require.NoError(t, err)
	require.NoError(t, c.CheckFiles())
	databasePassword := func() (string, error) {
		_, password, err := c.Database.Credentials()
		return password, err
	}

	for content, want := range map[string]string{
		"first\n": "first", "second\r\n": "second", "third": "third",
		" spaces stay ": " spaces stay ", "only one line break\n\n": "only one line break\n",
	} {
		set(content)
		for _, read := range []func() (string, error){databasePassword, c.Kafka.SASL.Password, c.Temporal.APIKey} {
			password, err := read()
			require.NoError(t, err)
			require.Equal(t, want, password)
		}
	}

	set("\n")
	_, err = databasePassword()
	require.ErrorContains(t, err, "the file is empty")
	require.NoError(t, os.Remove(file))
	_, err = c.Kafka.SASL.Password()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = c.Database.Credentials()
	require.ErrorIs(t, err, os.ErrNotExist)
	set(string(make([]byte, 70_000)))
	_, err = databasePassword()
	require.ErrorContains(t, err, "not a secret")
}

func TestSecretAndItsFileTogetherAreRefused(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"file:1: database.password_file: cannot be used together with database.password: remove one of them",
		"file:2: kafka.sasl.password_file: cannot be used together with kafka.sasl.password: remove one of them",
		"DLQ_TEMPORAL_API_KEY_FILE: temporal.api_key_file: cannot be used together with temporal.api_key: remove one of them",
	}, problemsOf(t, `database: {host: db, name: dlq, user: app, password: a, password_file: f}
kafka: {brokers: [k:1], security_protocol: SASL_SSL, sasl: {mechanism: PLAIN, user: u, password: a, password_file: f}}
`, "DLQ_TEMPORAL_API_KEY=a", "DLQ_TEMPORAL_API_KEY_FILE=b"))

	_, err := load(t, "database: {host: db, name: dlq, user: app, password: '', password_file: f}")
	require.NoError(t, err, "an empty password is none")
}
