package postgres

import (
	"context"
	"strconv"
	"time"
)

// Planner settings. Each of these statements is the first of a transaction, and applies until the
// end of the transaction. The planner's statistics do not show how the messages of a status are
// spread over topics, or that a key is rare. They are out of date while a bulk retry runs.
const (
	// inOrderSQL makes statements read an index in the requested order. Otherwise the planner uses the index of
	// a status that seems to be rare, and reads the messages of all topics. Without sorts, the estimated cost
	// of a page is high and would start the JIT, so the JIT is off too.
	inOrderSQL = `SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
	set_config('jit', 'off', true)`

	// byIndexSQL makes statements use indexes.
	byIndexSQL = `SELECT set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

	// onceByIndexSQL also makes the server plan a statement once for each connection, not for each call. For a statement that looks
	// up a few rows in many tables, planning takes longer than running.
	onceByIndexSQL = byIndexSQL + `, set_config('plan_cache_mode', 'force_generic_plan', true)`

	// lanePlanSQL makes the server plan the statements of a page once per connection, with indexes and in
	// order. Otherwise the server plans each claim, which takes a fifth of the claim's time, or keeps a plan
	// from a time when the tables were small. The statements wait only a second for a lock: the lane tries
	// again, and sends a heartbeat in between.
	lanePlanSQL = batchPlanSQL + `, set_config('enable_sort', 'off', true)`

	// shortWaitSQL is for an unlocked claim: the transaction that has locked a message may itself wait for the lane.
	shortWaitSQL = `SELECT set_config('lock_timeout', '100ms', true)`

	// batchPlanSQL does the same as lanePlanSQL for a bulk change, and allows sorts of the messages that the change locks.
	batchPlanSQL = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('jit', 'off', true), set_config('lock_timeout', '1s', true)`

	// batchTimeSQL limits each statement of a batch.
	batchTimeSQL = `SELECT set_config('statement_timeout', @batch_time, true)`

	// timeLimitSQL lets statements take as long as their caller waits, since half a scan is of no use.
	timeLimitSQL = `SELECT set_config('statement_timeout', @milliseconds, true)`
)

// timeLimit is the remaining time of ctx plus a second, in milliseconds. So the server ends
// a statement by itself when the program can no longer cancel the statement.
func timeLimit(ctx context.Context) string {
	deadline, limited := ctx.Deadline()
	if !limited {
		return "0" // no limit
	}
	return strconv.FormatInt((max(time.Until(deadline), 0) + time.Second).Milliseconds(), 10)
}
