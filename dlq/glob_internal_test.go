package dlq

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLongestGlobThatMatchesATopicHasItsValue(t *testing.T) {
	t.Parallel()
	values, err := newGlobMap(map[string]string{"orders.x.v1": "name", "orders.*.v*": "longer", "orders.*": "shorter", "*.x.v1": "as long", "*.x.v*": "as long, with more wildcards", "*": "any"})
	require.NoError(t, err)
	for topic, want := range map[string]string{
		"orders.x.v1": "name", "orders.y.v1": "longer", "orders.y": "shorter", "shop.x.v1": "as long", "shop": "any",
	} {
		require.Equal(t, want, values.of(topic).value, topic)
	}
}
