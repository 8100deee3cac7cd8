package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGroupsAreNamedByRules(t *testing.T) {
	t.Parallel()
	c, err := load(t, "groups:\n  rules:\n    \"*Timeout*\": slow\n")
	require.NoError(t, err)
	require.NotNil(t, c.Groups.Grouping())
	require.Equal(t, 1000, c.Groups.MaxPerTopic)
}

func TestGroupsRefuse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"groups:\n  rules:\n    \"*\": all\n": "groups.rules",
		"groups:\n  max_per_topic: 0\n":       "groups.max_per_topic",
		"groups:\n  max_per_topic: 1000000\n": "groups.max_per_topic",
		"groups:\n  limit: 3\n":               "unknown key",
		"groups:\n  rules: [a]\n":             "must be a section",
	} {
		_, err := load(t, text)
		require.ErrorContains(t, err, want, text)
	}
}
