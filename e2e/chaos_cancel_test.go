package e2e

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

const (
	cancelledRows    = 6 // rows that are written by hand, with few retries; each is cancelled cancelRounds times
	cancelledInScope = 4
	cancelRounds     = 3
)

// cancelRetries starts single retries and soon cancels their workflows: before, during or
// after their claim.
func (c *chaos) cancelRetries(d *dice) bool {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	temporal, err := client.DialContext(ctx, client.Options{HostPort: c.temporal.server.Address, Logger: quiet{}})
	if err != nil {
		c.journal.note("cancel: %v", err)
		return false
	}
	defer temporal.Close()
	var hit atomic.Int64
	var retries sync.WaitGroup
	cancelOne := func(id string, rounds int, seed uint64) {
		dice := rand.New(rand.NewPCG(seed, 4))
		retries.Go(func() {
			for range rounds {
				wait := time.Duration(dice.Int64N(int64(50 * time.Millisecond)))
				if !c.cancelRetry(ctx, temporal, id, wait) {
					return
				}
				hit.Add(1)
			}
		})
	}
	for i := range cancelledRows {
		if id, err := c.insertByHand(ctx, cancelTopic, handwritten{status: "PENDING", max: cancelRounds}); err == nil {
			cancelOne(id, cancelRounds, d.number+uint64(i))
		}
	}
	rows, err := c.pool.Query(ctx, `
		SELECT id::text FROM dlq.dlq_messages WHERE status = 'PENDING' AND dlq_topic = $1 ORDER BY seq LIMIT $2`, d.topic.dlq, cancelledInScope)
	if err == nil {
		ids, _ := pgx.CollectRows(rows, pgx.RowTo[string])
		for i, id := range ids {
			c.singles.Add(1)
			cancelOne(id, 1, d.number+uint64(cancelledRows+i))
		}
	}
	retries.Wait()
	c.journal.note("cancel: %d retries ended cancelled", hit.Load())
	return hit.Load() > 0
}

// cancelRetry starts a retry of the message, cancels it after wait, and reports whether it
// ended as cancelled.
func (c *chaos) cancelRetry(ctx context.Context, temporal client.Client, id string, wait time.Duration) bool {
	answer := c.askRetry(ctx, "retry one to cancel it", id)
	if !answer.ok() {
		return false
	}
	workflow := "retry-message-" + id
	pause(ctx, wait)
	if err := temporal.CancelWorkflow(ctx, workflow, ""); err != nil {
		c.journal.note("cancel: %s: %v", id, err)
		return false
	}
	for ctx.Err() == nil {
		described, err := temporal.DescribeWorkflowExecution(ctx, workflow, "")
		if err != nil {
			c.journal.note("cancel: %s: %v", id, err)
			return false
		}
		info := described.GetWorkflowExecutionInfo()
		switch info.GetStatus() {
		case enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
			pause(ctx, 50*time.Millisecond)
		case enums.WORKFLOW_EXECUTION_STATUS_CANCELED:
			c.hands.cancelled(info.GetExecution().GetRunId())
			c.journal.count("variant: single retry cancelled")
			return true
		default:
			c.journal.count("variant: single retry ended before its cancel")
			return false
		}
	}
	c.journal.note("cancel: %s does not end", id)
	return false
}

// openRetries is how many single retries are still running; -1 if Temporal does not answer.
func (c *chaos) openRetries() int {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	temporal, err := client.DialContext(ctx, client.Options{HostPort: c.temporal.server.Address, Logger: quiet{}})
	if err != nil {
		return -1
	}
	defer temporal.Close()
	n, err := temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: "WorkflowType = 'RetryMessage' AND ExecutionStatus = 'Running'",
	})
	if err != nil {
		return -1
	}
	return int(n.GetCount())
}

// quiet is a logger for Temporal's client.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
