package dlq

import "time"

// Buckets is into how many parts the messages of a topic are divided, by the low bits of
// their KeyHash.
const Buckets = 1024

// Lane is one attempt at one of the parallel scans of a bulk retry. The lanes of a job
// share the buckets, so a key never changes lanes.
type Lane struct {
	Bulk        ID
	Number      int
	Of          int
	Owner       Owner
	Spec        BulkSpec
	UpperBound  int64
	MultiTarget bool
	// State is that of the job when the lane was opened.
	State BulkState
	// ScanFirst lets a claim go on with the scan while a queue is due, so that neither
	// starves the other.
	ScanFirst bool
	// Bounded lets a claim look at a bounded part of the scope only: where the lane has
	// few of the messages, one that looks until it has a page may take too long.
	Bounded bool
	// Epoch is which attempt at the lane this is. Only the newest may claim
	// and finalize.
	Epoch int
	// ByModulo says that an earlier version has started the job: a message is in lane
	// Number when KeyHash % Of == Number.
	ByModulo bool
}

// Buckets are the first and the last bucket of the lane.
func (l *Lane) Buckets() (first, last int) {
	if l.Of <= 1 || l.ByModulo {
		return 0, Buckets - 1
	}
	return l.Number * Buckets / l.Of, (l.Number+1)*Buckets/l.Of - 1
}

// Has reports whether messages of this key hash are the lane's.
func (l *Lane) Has(keyHash int32) bool {
	if l.ByModulo {
		return int(keyHash)%max(l.Of, 1) == l.Number
	}
	first, last := l.Buckets()
	bucket := int(keyHash & (Buckets - 1))
	return first <= bucket && bucket <= last
}

// LaneAttempt tells the attempts at a lane apart, and which of two is the later one.
type LaneAttempt struct {
	// Scheduled is when the activity was scheduled, by Temporal's clock.
	Scheduled time.Time
	// Number is the attempt at that activity, from 1.
	Number int
}

// IsBefore reports whether another attempt is later.
func (a LaneAttempt) IsBefore(other LaneAttempt) bool {
	if a.Scheduled.Equal(other.Scheduled) {
		return a.Number < other.Number
	}
	return a.Scheduled.Before(other.Scheduled)
}

// PageEnvelope is a message that a lane has claimed.
type PageEnvelope struct {
	Envelope
	// Blocked says that the job has failed an earlier message of the key: this one
	// is to be skipped.
	Blocked bool
}

// LaneClaim is what a lane may send next.
type LaneClaim struct {
	Page []PageEnvelope
	// Queue is the queue that the page was taken from; nil when it comes from the
	// scan.
	Queue *LaneQueue
	// Closed are the targets that the job knows to be closed.
	Closed []Target
	// Bytes is how many bytes the messages of Page have. When it is more than was
	// asked for (PageBytes, of a claim), the page is one message that came without its
	// value and headers: Store.ClaimedPage reads it.
	Bytes int64
	// Wait is how long to wait before asking again, when the rate limit allows
	// nothing now.
	Wait time.Duration
	// Next is the queue of the lane that is due first, when the claim found nothing
	// to send; nil when none is left.
	Next *LaneQueue
	// StepLimitReached says that the allowance of a ramp's step is used up.
	StepLimitReached bool
	// Limited says that a rate limit or an allowance is in force.
	Limited bool
	// Stopped says that nothing may be claimed: the job does not run, or a
	// newer attempt has the lane. It says nothing of what is left.
	Stopped bool
}

// LaneQueue holds messages of a lane that wait for one and the same thing: a target
// that is closed, or an earlier message of their key.
type LaneQueue struct {
	// Target is what is closed; of a queue of a key it is the topic.
	Target Target
	// OfKey says that it is the queue of a key.
	OfKey bool
	// Tries is how often in a row the target, or the first message of the key, was
	// asked in vain.
	Tries int
	// Due is how long until it may be asked again.
	Due time.Duration
	// Reason and Category say why it waits.
	Reason   string
	Category Category
}

// Wait is what a message waits for that a lane has given back.
type Wait struct {
	// Target is closed, unless OfKey says that the message's key waits.
	Target Target
	OfKey  bool
	// Tries is how often in a row it was asked in vain; 0 when it was not asked, and
	// the queue stays as it is.
	Tries int
	// For is how long to wait before it is asked again.
	For time.Duration
}

// PageResult is what finalizing a page of a lane came to.
type PageResult struct {
	// Counts are the lane's totals.
	Counts BulkCounts
	// Ended is how many messages of the page it ended. Others were no longer the
	// lane's.
	Ended int
}

// RequeuePage is the outcome of a page whose attempt was cut short: its messages go
// back uncounted, and are due at once.
func RequeuePage(page []PageEnvelope) []PageOutcome {
	outcomes := make([]PageOutcome, len(page))
	for i := range page {
		outcomes[i] = PageOutcome{
			Outcome:    Outcome{ID: page[i].ID, Result: ResultWaiting, Error: "its page was cut short"},
			RetryCount: page[i].RetryCount, Wait: Wait{Target: Target{Partition: AnyPartition}},
		}
	}
	return outcomes
}
