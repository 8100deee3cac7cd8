package dlq

import "time"

// PageSize is how many messages a bulk retry claims, publishes and finalizes at
// once. It bounds what a crash can send twice: PageSize for each lane.
const PageSize = 100

// MaxBulkIDs is how many messages a bulk retry may name one by one.
const MaxBulkIDs = 1000

// BulkState is where a bulk retry stands.
type BulkState string

const (
	// BulkRunning is scanning and sending.
	BulkRunning BulkState = "RUNNING"
	// BulkPaused sends nothing: an operator paused it, its target refuses
	// everything, or too much came back. Nothing of it is RETRYING.
	BulkPaused BulkState = "PAUSED"
	// BulkCompleted went through its whole scope.
	BulkCompleted BulkState = "COMPLETED"
	// BulkCancelled was stopped by an operator; nothing is left RETRYING.
	BulkCancelled BulkState = "CANCELLED"
	// BulkFailed was stopped by an error that it could not get past.
	BulkFailed BulkState = "FAILED"
)

// IsFinal reports whether a bulk retry in this state has ended.
func (s BulkState) IsFinal() bool { return s != BulkRunning && s != BulkPaused }

// Order says what a bulk retry does with the messages behind one that failed.
type Order string

const (
	// OrderKey holds back the later messages of the key: they are skipped.
	OrderKey Order = "key"
	// OrderNone sends them all the same.
	OrderNone Order = "none"
)

// BulkSpec is what an operator asked to be retried, and how.
type BulkSpec struct {
	// Topic is a dead-letter topic or an original topic.
	Topic  string
	Filter BulkFilter
	// RateLimit is in messages per second over the whole job; 0 is no limit.
	RateLimit int
	Order     Order
	// Ramp is nil to send everything at once.
	Ramp *Ramp
	// Reason is why the operator does it, for those who look later.
	Reason string
}

// BulkFilter narrows a topic down. Zero fields do not restrict.
type BulkFilter struct {
	// Statuses name what is looked at; of that only PENDING is ever sent.
	Statuses []Status
	// ErrorContains is part of the error message, in any case.
	ErrorContains string
	// Key is the exact record key; nil does not restrict.
	Key []byte
	// CreatedFrom is inclusive, CreatedTo exclusive.
	CreatedFrom time.Time
	CreatedTo   time.Time
	// IDs are at most MaxBulkIDs.
	IDs []ID
}

// Ramp sends a few messages first and looks whether they come back before it
// sends more.
type Ramp struct {
	// Steps are how many messages each step sends; after them goes the rest.
	Steps []int
	// Wait is how long to look after each step.
	Wait time.Duration
	// MaxCameBack is the part of the messages sent so far, from 0 to 1, that
	// may come back; beyond it the job pauses itself.
	MaxCameBack float64
}

// BulkRetry is one retry of many messages: its scope, frozen at the start, and
// how far it has come.
type BulkRetry struct {
	// ID is the workflow's first run id.
	ID         ID
	WorkflowID string
	Spec       BulkSpec
	State      BulkState
	// Reason says why it is paused, waiting, cancelled or failed.
	Reason string
	Lanes  int
	// Bound is the Seq of the newest PENDING message at the start. What arrives later
	// is not taken, so that what comes back is not sent for ever.
	Bound int64
	// Matched is how many messages were retryable at the start and had not been
	// touched since when they were counted, which is before the first is sent.
	Matched int64
	// Counting says that they are being counted: Matched is 0, and Mixed not
	// known.
	Counting bool
	// Mixed says that they have more than one target. Then one target that is
	// closed does not stand for all.
	Mixed  bool
	Counts BulkCounts
	// CameBack is how many of those it sent have returned to a dead-letter
	// topic. It goes on counting after the end.
	CameBack int64
	// RecentPerSecond is the rate over about the last ten seconds.
	RecentPerSecond float64
	// StartedAt, EndedAt and UpdatedAt are UTC; EndedAt is nil until the end.
	StartedAt time.Time
	UpdatedAt time.Time
	EndedAt   *time.Time
}

// Owner is the claim token of the job's messages.
func (b *BulkRetry) Owner() Owner { return Owner{WorkflowID: b.WorkflowID, RunID: b.ID.String()} }

// BulkCounts are exact at any moment: they are written in the transaction that
// changes the messages they count.
type BulkCounts struct {
	// Retried were acknowledged by their target.
	Retried int64
	// Failed are PENDING again.
	Failed int64
	// Dead could not be delivered and will not be tried again.
	Dead int64
	// Skipped were matched but not sent: held back behind a failed message of
	// their key, retried or removed by someone else meanwhile, or not reached
	// before the end.
	Skipped int64
}

// Done is how many of the matched messages have been dealt with.
func (c BulkCounts) Done() int64 { return c.Retried + c.Failed + c.Dead + c.Skipped }

// Lane is one of the parallel scans of a bulk retry. A message is in lane
// Number when KeyHash % Of == Number, so a key never changes lanes.
type Lane struct {
	Bulk   ID
	Owner  Owner
	Spec   BulkSpec
	Bound  int64
	Mixed  bool
	Number int
	Of     int
	// Epoch is which attempt at the lane this is. Only the newest may claim
	// and finalize.
	Epoch int
}

// LaneClaim is what a lane may send next.
type LaneClaim struct {
	Envelopes []Envelope
	// Wait is how long to wait before asking again, when the rate limit allows
	// nothing now.
	Wait time.Duration
	// Spent says that the allowance of a ramp's step is used up.
	Spent bool
	// Throttled says that a rate limit or an allowance is in force.
	Throttled bool
	// Closed says that nothing may be claimed: the job does not run, or a
	// newer attempt has the lane. It says nothing of what is left.
	Closed bool
}

// PageResult is what finalizing a page of a lane came to.
type PageResult struct {
	// Counts are the lane's totals.
	Counts BulkCounts
	// Ended is how many messages of the page it ended: none where the page had
	// been taken back from the lane.
	Ended int
}

// BulkPreview is what a bulk retry would do.
type BulkPreview struct {
	// Matched are retryable, Skipped are in its scope but are not.
	Matched int64
	Skipped int64
	// ByStatus counts everything in scope; ByErrorClass and ByTarget count
	// what would be sent, the most frequent first, at most PreviewRows each.
	ByStatus     map[Status]int64
	ByErrorClass []PreviewCount
	ByTarget     []PreviewCount
	// SkipReasons says why what is skipped is.
	SkipReasons []PreviewCount
	// Sample are the first messages that would be sent.
	Sample []Message
}

// PreviewCount is a name and how many messages it stands for.
type PreviewCount struct {
	Name  string
	Count int64
}

// Bounds of a preview.
const (
	PreviewRows   = 20
	PreviewSample = 10
)

// Why a message in the scope of a bulk retry is not sent.
const (
	SkipResolved  = "already resolved"
	SkipDead      = "dead"
	SkipRetrying  = "being retried by another workflow"
	SkipExhausted = "no retries left"
	SkipNoOrigin  = "its original topic is a dead-letter topic"
)
