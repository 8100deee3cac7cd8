package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTracing(t *testing.T) {
	t.Parallel()
	c, err := load(t, "tracing: {endpoint: 'http://collector:4317', sample_ratio: 0.01}")
	require.NoError(t, err)
	require.InDelta(t, 0.01, float64(c.Tracing.SampleRatio), 0)
	for section, want := range map[string]string{
		"endpoint: collector:4317":                           "must be an http or https URL",
		"tls: {ca_file: c}":                                  "is required with tracing.tls",
		"protocol: http/json":                                "tracing.protocol",
		"sample_ratio: 1.01":                                 "must be a number from 0 to 1",
		"sample_ratio: NaN":                                  "must be a number from 0 to 1",
		"sample_ratio: -0.1":                                 "must be a number from 0 to 1",
		"endpoint: 'http://c:1', tls: {cert_file: c}":        "belong together",
		"endpoint: 'http://user:secret@collector.test:4317'": "must not contain a user or password",
	} {
		_, err := load(t, "tracing: {"+section+"}")
		require.ErrorContains(t, err, want, section)
	}
}
