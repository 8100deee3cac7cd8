package dlq

import (
	"bytes"
	"encoding/json"
	"time"
)

// PageSize is how many messages a bulk retry claims, publishes and finalizes at
// once. It bounds what a crash can send twice: PageSize for each lane.
const PageSize = 100

// PageBytes is how many bytes the messages of a page have at most, unless it is a
// single one. It bounds the memory that a lane takes.
const PageBytes = 4 << 20

// BulkState is where a bulk retry stands.
type BulkState string

const (
	// BulkRunning is scanning and sending.
	BulkRunning BulkState = "RUNNING"
	// BulkPausing claims nothing more; the pages in hand have not ended yet.
	BulkPausing BulkState = "PAUSING"
	// BulkPaused sends nothing: an operator paused it, its target refuses
	// everything, or too much came back. Nothing of it is RETRYING.
	BulkPaused BulkState = "PAUSED"
	// BulkCancelling claims nothing more, and never will; the pages in hand have
	// not ended yet.
	BulkCancelling BulkState = "CANCELLING"
	// BulkCompleted went through its whole scope.
	BulkCompleted BulkState = "COMPLETED"
	// BulkCancelled was stopped by an operator; nothing is left RETRYING.
	BulkCancelled BulkState = "CANCELLED"
	// BulkFailed was stopped by an error that it could not get past.
	BulkFailed BulkState = "FAILED"
)

// IsFinal reports whether a bulk retry in this state has ended.
func (s BulkState) IsFinal() bool {
	return s == BulkCompleted || s == BulkCancelled || s == BulkFailed
}

// Order says what a bulk retry does with the messages behind one that failed.
type Order string

const (
	// OrderKey blocks the later messages of the key: they are skipped.
	OrderKey Order = "key"
	// OrderNone sends them all the same.
	OrderNone Order = "none"
)

// BulkSpec is what an operator asked to be retried, and how. Its JSON is how stores
// keep it.
type BulkSpec struct {
	Filter
	// RateLimit is in messages per second over the whole job; 0 is no limit.
	RateLimit int   `json:"rate_limit,omitempty"`
	Order     Order `json:"order,omitempty"`
	// Ramp is nil to send everything at once.
	Ramp *Ramp `json:"ramp,omitempty"`
	// Reason is why the operator does it, for those who look later.
	Reason string `json:"reason,omitempty"`
}

// IsSameWork reports whether two bulk retries ask for the same to be done. The rate
// limit is not part of it, since it can be changed, nor is the reason. The ramp is:
// whoever asks for care must not be handed a job that takes none.
func (s BulkSpec) IsSameWork(other BulkSpec) bool {
	canonical := func(s BulkSpec) []byte {
		s = s.Storable()
		s.RateLimit, s.Reason = 0, ""
		if s.Order == "" {
			s.Order = OrderKey
		}
		encoded, _ := json.Marshal(s) // no field of it can fail
		return encoded
	}
	return bytes.Equal(canonical(s), canonical(other))
}

// Ramp sends a few messages first and looks whether they come back before it
// sends more.
type Ramp struct {
	// Steps are how many messages each step sends; after them goes the rest.
	Steps []int `json:"steps,omitempty"`
	// Wait is how long to look after each step.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// MaxCameBack is the part of the messages sent so far, from 0 to 1, that
	// may come back; beyond it the job pauses itself.
	MaxCameBack float64 `json:"max_came_back,omitempty"`
}

// BulkRetry is one retry of many messages: its scope, frozen when it was asked for,
// and how far it has come.
type BulkRetry struct {
	// ID is made by whoever asks for the job. It is also the token of its claims.
	ID         ID        `json:"id"`
	WorkflowID string    `json:"workflow_id"`
	Spec       BulkSpec  `json:"spec"`
	State      BulkState `json:"state"`
	// Reason says why it is paused, waiting, cancelled or failed.
	Reason string `json:"reason"`
	Lanes  int    `json:"lanes"`
	// UpperBound is the last Seq that was given out when the job was created.
	// Messages that arrive later are not taken, so that those that come back are
	// not sent for ever.
	UpperBound int64 `json:"bound"`
	// Matched is how many messages were retryable when the job was created and
	// unchanged since when they were counted, which is before the first is sent.
	Matched int64 `json:"matched"`
	// Counting says that they are being counted: Matched is 0, and Mixed not
	// known.
	Counting bool `json:"counting"`
	// MultiTarget says that they have more than one target topic. Then one that is closed
	// does not stand for all.
	MultiTarget bool       `json:"mixed"`
	Counts      BulkCounts `json:"counts"`
	// Waiting is how many messages the job has come upon and could not send yet:
	// their partition is closed, or an earlier message of their key is not done.
	// They are PENDING, and not part of Counts.
	Waiting int64 `json:"waiting"`
	// CameBack is how many of those it sent have returned to a dead-letter
	// topic. It goes on counting after the end.
	CameBack int64 `json:"came_back"`
	// RecentPerSecond is the rate over about the last ten seconds.
	RecentPerSecond float64 `json:"recent_per_second"`
	// StartedAt, EndedAt and UpdatedAt are UTC; EndedAt is nil until the end.
	StartedAt time.Time  `json:"started_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

// Owner owns the messages that the job has claimed.
func (b *BulkRetry) Owner() Owner { return Owner{WorkflowID: b.WorkflowID, Token: b.ID.String()} }

// BulkCounts are exact at any moment: they are written in the transaction that
// changes the messages they count.
type BulkCounts struct {
	// Retried were acknowledged by their target.
	Retried int64 `json:"retried"`
	// Failed are PENDING again.
	Failed int64 `json:"failed"`
	// Dead could not be delivered and will not be tried again.
	Dead int64 `json:"dead"`
	// Skipped were matched but not sent: blocked by a failed message of
	// their key, retried or removed by someone else meanwhile, or not reached
	// before the end.
	Skipped int64 `json:"skipped"`
}

// Done is how many of the matched messages have been dealt with.
func (c BulkCounts) Done() int64 { return c.Retried + c.Failed + c.Dead + c.Skipped }

// Sent is how many messages were tried. What was skipped was not sent.
func (c BulkCounts) Sent() int64 { return c.Retried + c.Failed + c.Dead }

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

// NoErrorClass stands in a preview for messages whose error names no class.
const NoErrorClass = "(none)"

// Why a message in the scope of a bulk retry is not sent.
const (
	SkipResolved  = "already resolved"
	SkipDead      = "dead"
	SkipRetrying  = "being retried by another workflow"
	SkipExhausted = "no retries left"
	SkipNoOrigin  = "its original topic is a dead-letter topic"
)
