package dlq

import "time"

// PageSize is how many messages a bulk retry claims, publishes and finalizes at
// once. It bounds what a crash can send twice: PageSize for each lane.
const PageSize = 100

// BulkState is where a bulk retry stands.
type BulkState string

const (
	// BulkRunning is scanning and sending.
	BulkRunning BulkState = "RUNNING"
	// BulkCompleted went through its whole scope.
	BulkCompleted BulkState = "COMPLETED"
	// BulkCancelled was stopped by an operator; nothing is left RETRYING.
	BulkCancelled BulkState = "CANCELLED"
	// BulkFailed was stopped by an error that it could not get past.
	BulkFailed BulkState = "FAILED"
)

// BulkRetry is one retry of a whole topic: its scope, frozen at the start, and
// how far it has come.
type BulkRetry struct {
	// ID is the workflow's first run id.
	ID         ID
	WorkflowID string
	Topic      string
	State      BulkState
	// Reason says why it failed or was cancelled.
	Reason string
	Lanes  int
	// Bound is the Seq of the newest message at the start. What arrives later
	// is not taken, so that what comes back is not sent for ever.
	Bound int64
	// Matched is how many messages were retryable at the start.
	Matched int64
	Counts  BulkCounts
	// StartedAt, EndedAt and UpdatedAt are UTC; EndedAt is nil while it runs.
	StartedAt time.Time
	UpdatedAt time.Time
	EndedAt   *time.Time
}

// BulkCounts are exact at any moment: they are written in the transaction that
// changes the messages they count.
type BulkCounts struct {
	// Retried were acknowledged by their target.
	Retried int64
	// Failed are PENDING again.
	Failed int64
	// Dead could not be delivered and will not be tried again.
	Dead int64
	// Skipped were matched but not sent: retried or removed by someone else
	// meanwhile, or not reached before the end.
	Skipped int64
}

// Done is how many of the matched messages have been dealt with.
func (c BulkCounts) Done() int64 { return c.Retried + c.Failed + c.Dead + c.Skipped }

// Lane is one of the parallel scans of a bulk retry. A message is in lane
// Number when KeyHash % Of == Number, so a key never changes lanes.
type Lane struct {
	Bulk   ID
	Owner  Owner
	Topic  string
	Bound  int64
	Number int
	Of     int
}
