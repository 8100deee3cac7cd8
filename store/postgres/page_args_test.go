package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatementsOfPagesGetNumberedParameters(t *testing.T) {
	t.Parallel()
	for n := range 2 { // the second time the text is known
		sql, values, err := pageArgs{"a": n, "b": nil, "unused": 1}.RewriteQuery(t.Context(), nil, `SELECT @b::int, '@c', @a::int, @b::int -- @d`, nil)
		require.NoError(t, err)
		require.Equal(t, `SELECT $1::int, '@c', $2::int, $1::int -- @d`, sql)
		require.Equal(t, []any{nil, n}, values)
	}
}

func TestAStatementOfAPageNeedsAllItsParameters(t *testing.T) {
	t.Parallel()
	_, _, err := pageArgs{"a": 1}.RewriteQuery(t.Context(), nil, `SELECT @a::int, @b::int`, nil)
	require.ErrorContains(t, err, "parameter 2")
}

func TestOnlySoManyStatementsOfPagesAreKept(t *testing.T) {
	t.Parallel()
	for n := range 2*maxKept + 1 {
		_, _, err := pageArgs{}.RewriteQuery(t.Context(), nil, fmt.Sprintf("SELECT %d", n), nil)
		require.NoError(t, err)
	}
	kept.Lock()
	defer kept.Unlock()
	require.LessOrEqual(t, len(kept.statements), maxKept)
}
