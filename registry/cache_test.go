package registry

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCacheForgetsTheSchemasThatWereNotUsedForLongest(t *testing.T) {
	t.Parallel()
	c := newCache()
	schemas := make([]*schema, 5)
	for i := range schemas {
		schemas[i] = &schema{size: maxCachedText / 3}
	}
	known := func(id uint32) bool {
		s, err := c.get(id)
		require.NoError(t, err)
		return s != nil
	}
	for id := range uint32(3) {
		c.add(id, schemas[id])
	}
	require.True(t, known(0))
	c.add(3, schemas[3])
	require.Equal(t, []bool{true, false, true, true}, []bool{known(0), known(1), known(2), known(3)})
	c.add(3, schemas[4]) // replaces the schema of id 3
	require.True(t, known(0))
}

func TestUnusableIDsDoNotDisplaceSchemas(t *testing.T) {
	t.Parallel()
	c := newCache()
	c.add(1, &schema{size: 1})
	gone := errors.New("gone")
	for id := range uint32(2 * maxUnusable) {
		c.addUnusable(id+10, gone)
	}
	s, err := c.get(1)
	require.NoError(t, err)
	require.NotNil(t, s)
	require.Len(t, c.unusable, maxUnusable)
	_, err = c.get(2*maxUnusable + 9)
	require.ErrorIs(t, err, gone)
}
