package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	c, err := load(t, "links: {trace_url: 'https://tempo.example/trace/{trace_id}', kafka_url: 'https://kafka.example/{topic}?p={partition}&o={offset}'}")
	require.NoError(t, err)
	require.Equal(t, "https://tempo.example/trace/{trace_id}", c.Links.TraceURL)
	require.Equal(t, "https://kafka.example/{topic}?p={partition}&o={offset}", c.Links.KafkaURL)
	for section, want := range map[string]string{
		"trace_url: 'https://tempo.example/trace/'":            "file:1: links.trace_url: needs the placeholder {trace_id}",
		"trace_url: 'https://tempo.example/{topic}'":           "file:1: links.trace_url: has the unknown placeholder {topic}; known: {trace_id}",
		"kafka_url: 'https://a:b@kafka.example/{topic}'":       "file:1: links.kafka_url: must not contain a user or password",
		"kafka_url: 'https://kafka.example/{topic}/{replica}'": "file:1: links.kafka_url: has the unknown placeholder {replica}",
		"kafka_url: 'kafka.example/{topic}'":                   "file:1: links.kafka_url: must be an http or https URL",
	} {
		require.Contains(t, problemsOf(t, "links: {"+section+"}")[0], want, section)
	}
}
