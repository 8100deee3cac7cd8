package dlq

import "time"

// Buckets is the number of parts into which the messages of a topic are divided, by the low
// bits of their KeyHash.
const Buckets = 1024

// BucketRange are the buckets from First to Last.
type BucketRange struct{ First, Last int }

// ShareBuckets divides the buckets between at most Buckets lanes, so that each lane has about the same number of messages,
// and all lanes end at about the same time. messages has the number of messages in each bucket. A bucket is never divided.
func ShareBuckets(messages *[Buckets]int64, lanes int) []BucketRange {
	shares := make([]BucketRange, lanes)
	weight := func(bucket int) int64 { return Buckets*messages[bucket] + 1 } // empty buckets are divided evenly
	left, next := int64(0), 0
	for bucket := range Buckets {
		left += weight(bucket)
	}
	for n := range shares {
		waiting := lanes - n // this lane and the lanes after it: each gets at least one bucket
		share, taken, first := left/int64(waiting), weight(next), next
		for next++; next <= Buckets-waiting && taken+weight(next)/2 <= share; next++ {
			taken += weight(next)
		}
		shares[n] = BucketRange{first, next - 1}
		left -= taken
	}
	return shares
}

// Lane is one attempt to run a lane. A lane is one of the parallel scans of a bulk retry. Each lane of a job has its own
// range of buckets, so a key stays in one lane.
type Lane struct {
	Job         ID
	Number      int
	Buckets     BucketRange
	Owner       Owner
	Spec        JobSpec
	UpperBound  int64
	MultiTarget bool
	// State is the state of the job when the lane was opened.
	State JobState
	// ScanFirst lets a claim continue the scan although a queue is due, so that the queues do not starve the scan.
	ScanFirst bool
	// Bounded limits how many messages a claim reads. A filter that matches few messages needs this limit.
	Bounded bool
	// Epoch is the number of this attempt at the lane. Only the newest attempt may claim and finalize.
	Epoch int
}

// Has reports whether messages with this key hash belong to the lane.
func (l *Lane) Has(keyHash int32) bool {
	bucket := int(keyHash & (Buckets - 1))
	return l.Buckets.First <= bucket && bucket <= l.Buckets.Last
}

// LaneAttempt identifies an attempt at a lane, and orders the attempts.
type LaneAttempt struct {
	// Scheduled is when the activity was scheduled, by Temporal's clock.
	Scheduled time.Time
	// Number is Temporal's attempt number of that activity, from 1.
	Number int
}

// PageEnvelope is a message that a lane has claimed.
type PageEnvelope struct {
	Envelope
	// Blocked is set when an earlier message of the key failed in this job. The message has to be skipped.
	Blocked bool
}

// LaneClaim is the result of a claim: a page to send, or the reason why there is none.
type LaneClaim struct {
	Page []PageEnvelope
	// Queue is the queue that the page was claimed from; nil for a page from the scan.
	Queue *Queue
	// Closed are the closed targets of the job.
	Closed []Target
	// Bytes is the size of the messages of Page. When Bytes exceeds the limit of the call (PageBytes, for a claim), the
	// messages come without their records: usually a single message. Store.ClaimedPage reads the records.
	Bytes int64
	// Wait is how long to wait before the next claim: the rate limit allows nothing now, or the lane is not done although Page is empty.
	Wait time.Duration
	// If the claim found nothing to send, Next is the queue that is due first, or nil if the lane has no queue.
	Next *Queue
	// StepLimitReached is set when the ramp's step may send no more messages.
	StepLimitReached bool
	// Limited is set when the job has a rate limit or a step limit.
	Limited bool
	// Stopped is set when the job is not running, or a newer attempt has the lane. Messages may be left.
	Stopped bool
}

// Wait names the queue into which a message is requeued.
type Wait struct {
	// Target is the closed target. If OfKey is set, the message waits in the queue of its key instead.
	Target Target
	OfKey  bool
	// Tries is how often in a row the queue was tried without success. If Tries is 0, an existing queue keeps its state.
	Tries int
	// For is how long to wait before the next try.
	For time.Duration
}

// PageResult is the result of finalizing a page.
type PageResult struct {
	// Counts are the lane's totals.
	Counts JobCounts
	// Ended is how many messages were finalized. The lane no longer owned the other messages.
	Ended int
}

// RequeuePage returns outcomes that requeue a page whose attempt was interrupted. The claims are not counted, and the queue is due at once.
func RequeuePage(page []PageEnvelope) []PageOutcome {
	outcomes := make([]PageOutcome, len(page))
	for i := range page {
		outcomes[i] = PageOutcome{
			Outcome:    Outcome{ID: page[i].ID, Result: ResultWaiting, Error: "its page was interrupted"},
			RetryCount: page[i].RetryCount, Wait: Wait{Target: Target{Partition: AnyPartition}},
		}
	}
	return outcomes
}
