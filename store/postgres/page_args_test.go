package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestStatementsOfPagesGetNumberedParameters(t *testing.T) {
	t.Parallel()
	const sql = `SELECT @b::int, '@c', @a::int, @b::int -- @d`
	var statements pageStatements
	for n := range 2 { // the second time the text is known
		batch := &pgx.Batch{}
		batch.Queue(`BEGIN`)
		batch.Queue(sql, pgx.NamedArgs{"a": n, "b": nil, "unused": 1})
		require.NoError(t, statements.number(batch))
		require.Equal(t, `BEGIN`, batch.QueuedQueries[0].SQL)
		require.Equal(t, `SELECT $1::int, '@c', $2::int, $1::int -- @d`, batch.QueuedQueries[1].SQL)
		require.Equal(t, []any{nil, n}, batch.QueuedQueries[1].Arguments)
	}
}

func TestAStatementOfAPageNeedsAllItsParameters(t *testing.T) {
	t.Parallel()
	batch := &pgx.Batch{}
	batch.Queue(`SELECT @a::int, @b::int`, pgx.NamedArgs{"a": 1})
	require.ErrorContains(t, new(pageStatements).number(batch), "parameter 2")
}

func TestOnlySoManyStatementsOfPagesAreKept(t *testing.T) {
	t.Parallel()
	var statements pageStatements
	for n := range 2*maxPreparable + 1 {
		_, err := statements.of(fmt.Sprintf("SELECT %d", n), nil)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(statements.known), maxPreparable)
}
