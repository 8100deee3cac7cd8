package postgres

import (
	"context"
	"strconv"
	"time"
)

// Settings of the planner for the transaction that they begin. It knows neither how
// the messages of a status are spread over topics nor that a key is rare, and what
// it believes of a status is out of date while a bulk retry runs.
const (
	// inOrderSQL makes statements read an index in the order that they ask for.
	// Otherwise the planner takes the index of statuses for one that it believes to
	// be rare, which leads to the messages of all topics. The few rows that are
	// sorted in the end then look so expensive that it would compile the statement.
	inOrderSQL = `SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
	set_config('jit', 'off', true)`

	// byIndexSQL makes statements look rows up by an index.
	byIndexSQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

	// lanePlanSQL makes the statements of a page be planned once for a connection,
	// by index, and in order. Otherwise the server plans a claim anew for each page,
	// which takes a fifth of its time, or keeps for long a plan that it made when the
	// tables were small. They wait for a lock for a second only: a lane tries again
	// by itself, and meanwhile shows that it lives.
	lanePlanSQL = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_sort', 'off', true), set_config('jit', 'off', true), set_config('lock_timeout', '1s', true)`

	// timeLimitSQL lets statements take as long as their caller does: one that reads
	// a whole scope is of no use half done.
	timeLimitSQL = `SELECT set_config('statement_timeout', @milliseconds, true)`
)

// timeLimit is as long as ctx allows, and a second, in milliseconds: the server ends
// a statement by itself when the program that wants to end it is gone.
func timeLimit(ctx context.Context) string {
	deadline, limited := ctx.Deadline()
	if !limited {
		return "0" // no end
	}
	return strconv.FormatInt((max(time.Until(deadline), 0) + time.Second).Milliseconds(), 10)
}
