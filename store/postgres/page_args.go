package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
)

// preparable is a statement with numbered parameters, as the server reads it, and the names of the parameters.
type preparable struct {
	sql   string
	names []string
}

// maxPreparable bounds the statements that are kept. Each combination of a filter's fields has a statement of its own.
const maxPreparable = 1000

// pageStatements keeps the statements of pages by their texts. pgx would parse the texts anew for each page.
type pageStatements struct {
	mu    sync.Mutex
	known map[string]preparable
}

var ofPages pageStatements

// number replaces the named parameters of a batch by numbered parameters.
func (n *pageStatements) number(batch *pgx.Batch) error {
	for _, query := range batch.QueuedQueries {
		if len(query.Arguments) == 0 {
			continue
		}
		args, isNamed := query.Arguments[0].(pgx.NamedArgs)
		if !isNamed {
			continue
		}
		statement, err := n.of(query.SQL, args)
		if err != nil {
			return err
		}
		values := make([]any, len(statement.names))
		for i, name := range statement.names {
			values[i] = args[name]
		}
		query.SQL, query.Arguments = statement.sql, values
	}
	return nil
}

func (n *pageStatements) of(sql string, args pgx.NamedArgs) (preparable, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if statement, isKnown := n.known[sql]; isKnown {
		return statement, nil
	}
	own := make(pgx.NamedArgs, len(args))
	for name := range args {
		own[name] = name
	}
	text, values, err := own.RewriteQuery(context.Background(), nil, sql, nil)
	if err != nil {
		return preparable{}, err
	}
	statement := preparable{sql: text, names: make([]string, len(values))}
	for i, value := range values {
		name, isGiven := value.(string)
		if !isGiven {
			return preparable{}, fmt.Errorf("parameter %d of a statement is not given: %s", i+1, text)
		}
		statement.names[i] = name
	}
	if n.known == nil || len(n.known) >= maxPreparable {
		n.known = map[string]preparable{}
	}
	n.known[sql] = statement
	return statement, nil
}
