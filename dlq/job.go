package dlq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"dlqmanager/dlq/fingerprint"
)

// PageSize is the maximum number of messages that a lane claims, publishes and finalizes together. A
// crash can send at most PageSize messages of each lane twice.
const PageSize = 100

// PageBytes is the maximum size of the messages of a page together, in bytes. A larger message is
// a page by itself. PageBytes bounds the memory of a lane.
const PageBytes = 4 << 20

// ChangeBatch is the maximum number of messages that a job reads in one transaction. The job changes the messages among
// them that match. Larger batches are hardly faster, and hold their locks longer.
const ChangeBatch = 1000

// JobKind is what a job does with the messages of its scope.
type JobKind string

const (
	// KindRetry sends PENDING messages back.
	KindRetry JobKind = "retry"
	// KindRevive makes DEAD messages PENDING. It sets their RetryCount to 0. A MaxRetries of 0 becomes 1.
	KindRevive JobKind = "revive"
	// KindDead makes PENDING and RETRYING messages DEAD.
	KindDead JobKind = "dead"
	// KindDelete removes messages that are not RETRYING, with their bytes and attempts.
	KindDelete JobKind = "delete"
	// KindRestore brings archived messages back: each becomes a new PENDING message of its chain. It
	// skips messages that were restored before or that an edited copy has replaced.
	KindRestore JobKind = "restore"
)

// JobKinds lists every kind.
var JobKinds = []JobKind{KindRetry, KindRevive, KindDead, KindDelete, KindRestore}

// jobKinds are the rules of each kind.
var jobKinds = map[JobKind]struct {
	statuses   []Status
	beside     []JobKind
	permission Permission
}{
	KindRetry:   {[]Status{StatusPending}, []JobKind{KindRevive, KindDead, KindRestore}, PermMessageRetry},
	KindRevive:  {[]Status{StatusDead}, []JobKind{KindRetry}, PermMessageRevive},
	KindDead:    {[]Status{StatusPending, StatusRetrying}, []JobKind{KindRetry}, PermMessageDead},
	KindDelete:  {[]Status{StatusPending, StatusResolved, StatusDead}, nil, PermMessageDelete},
	KindRestore: {[]Status{StatusResolved, StatusDead}, []JobKind{KindRetry}, PermMessageRevive},
}

// Statuses are the statuses of the messages that a job of this kind sends or changes; none for an unknown kind.
func (k JobKind) Statuses() []Status { return slices.Clone(jobKinds[k].statuses) }

// Beside are the kinds of the jobs that may run on messages of the same topic beside a job of this kind. Two retries would
// break the order of a key. A deletion would remove messages that a retry is about to send. With two jobs that change
// messages, chance would decide which change comes last. No kind is in its own list, so a second request for the same
// work conflicts with the running job, and joins it.
func (k JobKind) Beside() []JobKind { return slices.Clone(jobKinds[k].beside) }

// Permission is needed for each message of a job of this kind, beside PermJobCreate; empty for an unknown kind.
func (k JobKind) Permission() Permission { return jobKinds[k].permission }

// JobState is the state of a job.
type JobState string

const (
	// JobRunning is reading its scope, and sending or changing messages.
	JobRunning JobState = "RUNNING"
	// JobPausing claims no more messages, but some claimed pages are not finalized yet.
	JobPausing JobState = "PAUSING"
	// JobPaused sends nothing: an operator paused the job, its target refuses everything, or
	// too many messages came back. None of its messages are RETRYING.
	JobPaused JobState = "PAUSED"
	// JobCancelling claims and changes nothing more, but some claimed pages are not finalized yet. It cannot be resumed.
	JobCancelling JobState = "CANCELLING"
	// JobCompleted has read its whole scope.
	JobCompleted JobState = "COMPLETED"
	// JobCancelled was cancelled by an operator. None of its messages are RETRYING.
	JobCancelled JobState = "CANCELLED"
	// JobFailed met a permanent error, or its workflow was terminated or never started.
	JobFailed JobState = "FAILED"
)

// JobStates lists every state.
var JobStates = []JobState{JobRunning, JobPausing, JobPaused, JobCancelling, JobCompleted, JobCancelled, JobFailed}

// IsFinal reports whether a job in this state has ended.
func (s JobState) IsFinal() bool {
	return s == JobCompleted || s == JobCancelled || s == JobFailed
}

// Order is whether a bulk retry keeps the order of the messages of a key.
type Order string

const (
	// OrderKey keeps the order. While a message waits, the later messages of its key wait too. After a message has failed,
	// the later messages of its key are skipped.
	OrderKey Order = "key"
	// OrderNone sends each message regardless of the other messages of its key.
	OrderNone Order = "none"
)

// JobSpec is the request of an operator for a job. Stores persist a specification as JSON. The fields after Reason are for
// KindRetry only.
type JobSpec struct {
	Kind JobKind `json:"kind"`
	Filter
	// Reason is the operator's note, kept for the record.
	Reason string `json:"reason,omitempty"`
	// RateLimit is in messages per second over the whole job; 0 is no limit.
	RateLimit int   `json:"rate_limit,omitempty"`
	Order     Order `json:"order,omitempty"`
	// Ramp is nil for a retry without steps.
	Ramp *Ramp `json:"ramp,omitempty"`
	// IncludeSuspicious also sends messages whose headers are known to attack consumers.
	IncludeSuspicious bool `json:"include_suspicious,omitempty"`
	// TargetTopic is where the messages go instead of their original topics; see Targets.Of.
	TargetTopic string `json:"target_topic,omitempty"`
}

// ChangedStatuses are the Statuses of the job's kind that also match the filter.
func (s JobSpec) ChangedStatuses() []Status {
	return slices.DeleteFunc(s.Kind.Statuses(), func(status Status) bool { return !slices.Contains(s.EffectiveStatuses(), status) })
}

// Storable is the specification as a store keeps it, and shares no memory with s.
func (s JobSpec) Storable() JobSpec {
	s.Filter = s.Filter.Storable()
	s.Reason = StorableText(s.Reason)
	s.RateLimit = StorableCount(s.RateLimit)
	s.Order = Order(StorableText(string(s.Order)))
	if s.Ramp != nil {
		ramp := *s.Ramp
		ramp.Steps = slices.Clone(ramp.Steps)
		s.Ramp = &ramp
	}
	s.Archived = s.Kind == KindRestore
	return s
}

// IsSameWork reports whether two specifications ask for the same job. The reason is not compared, and neither is the rate
// limit, which an operator can change later. The ramp is compared: a request with a ramp must not join a job without a
// ramp.
func (s JobSpec) IsSameWork(other JobSpec) bool {
	canonical := func(s JobSpec) JobSpec {
		s = s.Storable()
		s.RateLimit, s.Reason = 0, ""
		s.Order = cmp.Or(s.Order, OrderKey)
		return s
	}
	first, _ := json.Marshal(canonical(s)) // every field of a specification can be encoded
	second, _ := json.Marshal(canonical(other))
	return bytes.Equal(first, second)
}

// Ramp sends a few messages first, waits, and sends more only if few came back.
type Ramp struct {
	// Steps are how many messages each step sends. After the last step, the job sends all further messages without a step limit.
	Steps []int `json:"steps,omitempty"`
	// Wait is how long to wait after each step for messages that come back.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// MaxCameBack is the fraction, from 0 to 1, of sent messages that may come back before the job pauses itself.
	MaxCameBack float64 `json:"max_came_back,omitempty"`
	// Confirm is empty or ConfirmVerified. With ConfirmVerified, the next step begins only when each sent message has
	// VerifiedYes or came back.
	Confirm string `json:"confirm,omitempty"`
}

// ConfirmVerified is the value of Ramp.Confirm.
const ConfirmVerified = "verified"

// Job is one retry or change of many messages, with its progress. A snapshot fixed its scope when the job or its plan was
// created. The fields Lanes, MultiTarget, Waiting and CameBack are for KindRetry only. Only a job of KindRetry can be
// paused.
type Job struct {
	// ID is generated by the caller of CreateJob, and is also the token of the claims.
	ID         ID       `json:"id"`
	WorkflowID string   `json:"workflow_id"`
	Spec       JobSpec  `json:"spec"`
	State      JobState `json:"state"`
	// Reason says why the job is paused, waits, was cancelled or failed, or why its count or its last batch failed.
	Reason string `json:"reason"`
	Lanes  int    `json:"lanes"`
	// UpperBound is the highest Seq that was assigned before the job or its plan was created. Later messages are
	// not in the scope, so a message that comes back is not sent in an endless loop.
	UpperBound int64 `json:"upper_bound"`
	// Planned is the scope of the job's plan. If Planned is nil, CreateJob takes a snapshot.
	Planned *Scope `json:"-"`
	// Matched is how many messages the scope had when they were counted, before the first of them was sent or changed.
	Matched int64 `json:"matched"`
	// Counting is set until the messages have been counted. Until then Matched is 0 and
	// MultiTarget is unknown.
	Counting bool `json:"counting"`
	// MultiTarget is set when the messages have more than one target topic. Then the
	// lanes scan on while one topic is closed.
	MultiTarget bool      `json:"multi_target"`
	Counts      JobCounts `json:"counts"`
	// Waiting is how many messages are in the job's queues, because their target is closed or an earlier
	// message of their key is not finished. The waiting messages are PENDING, and not part of Counts.
	Waiting int64 `json:"waiting"`
	// CameBack is how many of the sent messages failed again and are in a dead-letter
	// topic again. The number still grows after the job has ended.
	CameBack int64 `json:"came_back"`
	// RecentPerSecond is the average rate over about the last ten seconds, in messages per second. It comes from the
	// samples that workers have recorded.
	RecentPerSecond float64 `json:"recent_per_second"`
	// StartedAt, EndedAt and UpdatedAt are UTC; EndedAt is nil until the end.
	StartedAt time.Time  `json:"started_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	EndedAt   *time.Time `json:"ended_at"`
}

// Owner is the owner of the messages that the job has claimed.
func (j *Job) Owner() Owner { return Owner{WorkflowID: j.WorkflowID, Token: j.ID.String()} }

// JobCounts are exact at any time, because they are written in the transaction that
// changes the messages they count.
type JobCounts struct {
	// Retried were acknowledged by their target.
	Retried int64 `json:"retried"`
	// Failed were not delivered, and are PENDING again.
	Failed int64 `json:"failed"`
	// Dead could not be delivered and will not be retried.
	Dead int64 `json:"dead"`
	// Changed were revived, marked dead, deleted or restored by the job.
	Changed int64 `json:"changed,omitempty"`
	// Skipped were matched, but neither sent nor changed: blocked by a failed message of their key,
	// changed or removed by another client in the meantime, locked, or not reached before the end.
	Skipped int64 `json:"skipped"`
}

// Plus is the sum with the counts of other messages.
func (c JobCounts) Plus(other JobCounts) JobCounts {
	return JobCounts{Retried: c.Retried + other.Retried, Failed: c.Failed + other.Failed, Dead: c.Dead + other.Dead,
		Changed: c.Changed + other.Changed, Skipped: c.Skipped + other.Skipped}
}

// Done is how many of the matched messages are finished.
func (c JobCounts) Done() int64 { return c.Retried + c.Failed + c.Dead + c.Changed + c.Skipped }

// Sent is how many messages were tried or changed: all finished messages but the skipped ones.
func (c JobCounts) Sent() int64 { return c.Retried + c.Failed + c.Dead + c.Changed }

// Place is the place of the job in a list, the newest first.
func (j *Job) Place() Place { return PlaceAt(j.StartedAt, j.ID) }

// JobQuery selects jobs. An empty field does not restrict them.
type JobQuery struct {
	Kinds  []JobKind
	Topic  string
	States []JobState
	// Actor is who asked for the job, or joined it, as the audit says.
	Actor string
	// From (inclusive) and To (exclusive) bound the time at which the job was started.
	From, To time.Time
	// Within is a regular expression that topics must match. It comes from Principal.Within.
	Within string
	// If Within is set, a job whose Filter.Topic is an original topic is selected only if its Filter.Within is in Limits.
	Limits []string

	// After is the last job of the previous page.
	After    *Place
	PageSize int
}

// ChangeStep is the result of one batch of a job that changes messages.
type ChangeStep struct {
	// Changed is how many messages this batch has changed, and Total how many the job has changed so far.
	Changed, Total int64
	// Done is set when the whole scope has been read.
	Done bool
	// Stopped is set when the job is not running. Then nothing was changed.
	Stopped bool
}

// JobPreview describes the effect of a job. ByErrorClass, ByTarget and SkipReasons are for
// KindRetry only.
type JobPreview struct {
	Scope
	// Digest identifies the matched messages, as Effect.Digest does.
	Digest int64
	// Matched messages would be sent or changed. Skipped messages match the filter, but would not be sent or changed.
	Matched int64
	Skipped int64
	// ByStatus counts the matched and the skipped messages. ByErrorClass and ByTarget count the
	// matched messages, the most frequent first, at most PreviewRows each.
	ByStatus     map[Status]int64
	ByErrorClass []PreviewCount
	ByTarget     []PreviewCount
	// ByGroup counts the matched messages by group; Groups is how many groups there are.
	ByGroup []PreviewGroup
	Groups  int64
	// SkipReasons counts the skipped messages by reason.
	SkipReasons []PreviewCount
	// Sample are some of the messages that would be sent or changed, the oldest first.
	Sample []Message
}

// PreviewCount is a name and its number of messages.
type PreviewCount struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// PreviewGroup is a group and its number of messages in a preview.
type PreviewGroup struct {
	// ID is zero for messages without a group.
	ID ID
	// Fingerprint has no Key, and is zero if ID is zero.
	Fingerprint fingerprint.Fingerprint
	Count       int64
}

// Limits of a preview: entries in each list, and messages in the sample.
const (
	PreviewRows   = 20
	PreviewSample = 10
)

// NoErrorClass is the name in a preview for messages without an error class.
const NoErrorClass = "(none)"

// Reasons for which a bulk retry does not send a message that matches its filter.
const (
	SkipResolved   = "already resolved"
	SkipDead       = "dead"
	SkipRetrying   = "being retried by another workflow"
	SkipExhausted  = "no retries left"
	SkipNoOrigin   = "its original topic is a dead-letter topic or an internal one"
	SkipForeign    = "its original topic does not follow from the name of its dead-letter topic, and your grants do not cover it"
	SkipSuspicious = "its headers are suspicious; include_suspicious sends it"
)
