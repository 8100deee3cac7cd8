package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
	"dlqmanager/dlq"
)

func TestMaskingRulesAreCompiled(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
masking:
  secret: 0123456789abcdef
  rules:
    customers: {topics: ["orders.*", payments], value: [customer.email, "items.*.card"], key: "*", headers: [x-user], as: hash}
    none: {topics: other, headers: x}
`)
	require.NoError(t, err)
	rules, err := c.Masking.Compiled()
	require.NoError(t, err)
	require.NotNil(t, rules.For("orders.dlq"))
	require.NotNil(t, rules.For("x.dlq", "payments"))
	require.Nil(t, rules.For("x.dlq", "x"))
	require.NotContains(t, c.Redacted()["masking"], "0123456789abcdef")
	require.Equal(t, "[redacted]", c.Redacted()["masking"].(map[string]any)["secret"])
	shown := rules.For("orders.dlq").Show(&dlq.Detail{Record: dlq.Record{Key: []byte("alice")}}, nil)
	require.Regexp(t, "^hmac:[0-9a-f]{32}$", string(shown.Record.Key))

	none, err := config.Default().Masking.Compiled()
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestMistakesInMaskingRulesAreNamed(t *testing.T) {
	t.Parallel()
	_, err := load(t, `masking:
  rules:
    a:
      topics: ["or ders"]
      value: [customer.email, "a..b", "a[0]"]
      key: ["a*"]
      as: rot13
    b: {topics: [x]}
    c: {value: [x], as: hash}
    d: {topics: [x], vlaue: [x]}
  secret: short
`)
	require.Error(t, err)
	for _, want := range []string{
		"4: masking.rules.a.topics[0]: must be a topic name", "5: masking.rules.a.value[1]: has an empty name", "5: masking.rules.a.value[2]: has \"a[0]\"",
		"6: masking.rules.a.key[0]: has", "7: masking.rules.a.as: must be remove, mask, hash or last4", "8: masking.rules.b: hides nothing",
		"9: masking.rules.c.topics: is required", "10: masking.rules.d.vlaue: unknown key", "11: masking.secret: must have at least 16 bytes",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = load(t, "masking: {rules: {a: {topics: [x], tags: [PII, '']}}}")
	require.ErrorContains(t, err, "masking.rules.a.tags[1]: is empty")
	_, err = load(t, "masking: {rules: {a: {topics: [x], tags: [PII]}}}")
	require.ErrorContains(t, err, "masking.rules.a.tags: needs schema_registry.url")
	_, err = load(t, "{schema_registry: {url: ['http://registry:8081']}, masking: {rules: {a: {topics: [x], tags: PII}}}}")
	require.NoError(t, err)
	_, err = load(t, "masking: {rules: {a: {topics: [x], value: [x], as: hash}}}")
	require.ErrorContains(t, err, "masking.secret_file: is required for the form hash")
}

func TestTheMaskingSecretCanComeFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("short\n"), 0o600))
	c, err := load(t, "masking: {secret_file: "+file+", rules: {a: {topics: [x], value: [x], as: hash}}}")
	require.NoError(t, err)
	_, err = c.Masking.Compiled()
	require.ErrorContains(t, err, "masking.secret_file: must have at least 16 bytes")
	require.NoError(t, os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600))
	_, err = c.Masking.Compiled()
	require.NoError(t, err)
}

func TestTheEnvironmentHidesWholeMessagesOfTopics(t *testing.T) {
	t.Parallel()
	c, err := load(t, "", "DLQ_MASKING_RULES=customers=orders.*|refunds.*")
	require.NoError(t, err)
	rules, err := c.Masking.Compiled()
	require.NoError(t, err)
	shown := rules.For("refunds.dlq").Show(&dlq.Detail{Record: dlq.Record{Key: []byte("alice"), Value: []byte("{}")}}, nil)
	require.Equal(t, dlq.Record{Key: []byte("***"), Value: []byte("***"), Headers: []dlq.Header{}}, shown.Record)
}
