package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// pageArgs are the named parameters of a statement of a page. The statement is kept with numbered parameters, since
// pgx.NamedArgs would parse its text anew for each page.
type pageArgs pgx.NamedArgs

// numbered is a statement with numbered parameters, as the server reads it, and the names of the parameters.
type numbered struct {
	sql   string
	names []string
}

// maxKept bounds the statements that are kept. Each combination of a filter's fields has a statement of its own.
const maxKept = 1000

var kept struct {
	sync.Mutex
	statements map[string]numbered
}

// RewriteQuery implements pgx.QueryRewriter.
func (a pageArgs) RewriteQuery(_ context.Context, _ *pgx.Conn, sql string, _ []any) (string, []any, error) {
	kept.Lock()
	statement, isKept := kept.statements[sql]
	kept.Unlock()
	if !isKept {
		var err error
		if statement, err = a.keep(sql); err != nil {
			return "", nil, err
		}
	}
	values := make([]any, len(statement.names))
	for i, name := range statement.names {
		values[i] = a[name]
	}
	return statement.sql, values, nil
}

func (a pageArgs) keep(sql string) (statement numbered, err error) {
	names := make(pgx.NamedArgs, len(a))
	for name := range a {
		names[name] = name
	}
	var values []any
	if statement.sql, values, err = names.RewriteQuery(context.Background(), nil, sql, nil); err != nil {
		return statement, err
	}
	for i, value := range values {
		name, isGiven := value.(string)
		if !isGiven {
			return statement, fmt.Errorf("parameter %d of a statement is not given: %s", i+1, statement.sql)
		}
		statement.names = append(statement.names, name)
	}
	kept.Lock()
	defer kept.Unlock()
	if kept.statements == nil || len(kept.statements) >= maxKept {
		kept.statements = map[string]numbered{}
	}
	kept.statements[sql] = statement
	return statement, nil
}
