package dlq

import (
	"encoding/json"
	"slices"
	"time"
)

// Operation is a row of the audit: a request for a change, and its outcome. It holds ids, counts and filters, but no
// values, keys or headers of messages. Its JSON has the columns of the table. A method that records its change takes the
// operation as its parameter asked. If asked is nil, the method records nothing.
type Operation struct {
	// The store sets At, and sets ID if it is zero.
	ID ID        `json:"id"`
	At time.Time `json:"-"`

	// Subject and Method come from the Principal, Address from its connection.
	Subject string `json:"subject"`
	Method  string `json:"method"`
	Address string `json:"address"`
	// Action is the permission that the request needed.
	Action Permission `json:"action"`
	// Topic is the topic of the request. If empty, the store takes the topic of the target.
	Topic string `json:"topic"`
	// Target is the kind of the thing that TargetID names. TargetID is zero if the request named no target. Then the store
	// sets TargetID.
	Target   OperationTarget `json:"target"`
	TargetID ID              `json:"target_id,omitzero"`
	// Reason is the operator's note.
	Reason     string           `json:"reason"`
	RequestID  string           `json:"request_id"`
	WorkflowID string           `json:"workflow_id"`
	Outcome    OperationOutcome `json:"outcome"`
	// Detail is JSON: the filter, the counts, or the error.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// Outside is the operation of somebody who acted in Temporal, whose users the manager does not know.
func Outside(action Permission, reason string) *Operation {
	return &Operation{Subject: "outside the API", Method: "temporal", Action: action, Reason: reason}
}

// CancelledBy is the operation that cancelled a job: the newest request to cancel among the operations on the job, which
// are sorted with the newest first. Without such a request, it is Outside.
func CancelledBy(operations []Operation) *Operation {
	for i := range operations {
		o := &operations[i]
		if o.command() == CommandCancel && (o.Outcome == OperationDone || o.Outcome == OperationAccepted) {
			return o
		}
	}
	return Outside(PermJobControl, "")
}

// AskedFor reports whether the API has recorded the command with this id. operations are the operations on the command's
// job.
func AskedFor(operations []Operation, id ID, command string) bool {
	return slices.ContainsFunc(operations, func(o Operation) bool {
		return o.ID == id && o.Outcome == OperationAccepted && o.command() == command
	})
}

func (o Operation) command() string { return o.detail().Command }

// operationDetail has the fields of details that are read again.
type operationDetail struct {
	Command     string `json:"command"`
	TargetTopic string `json:"target_topic"`
}

func (o Operation) detail() (d operationDetail) {
	_ = json.Unmarshal(o.Detail, &d) // other operations, and omitted details, do not have these fields
	return d
}

// ArchiveRun names a run of the archive, which the audit records once. The zero value is no run.
type ArchiveRun struct{ WorkflowID, RunID string }

// OperationTarget is a kind of thing that requests change.
type OperationTarget string

// The targets of operations.
const (
	TargetMessage OperationTarget = "message"
	TargetJob     OperationTarget = "job"
	TargetGroup   OperationTarget = "group"
	TargetArchive OperationTarget = "archive"
	TargetProcess OperationTarget = "process"
)

// OperationOutcome is how an operation ended.
type OperationOutcome string

const (
	// OperationDone means that the change was made, in the transaction of this row. In the
	// last row of a job or an export, the outcome means that all is done.
	OperationDone OperationOutcome = "done"
	// OperationAccepted means that a workflow makes the change, or that an export has begun.
	OperationAccepted OperationOutcome = "accepted"
	// OperationRefused means that the request was not allowed, or not possible.
	OperationRefused OperationOutcome = "refused"
	// OperationFailed means that an error prevented the change, or stopped a job or an export.
	OperationFailed OperationOutcome = "failed"
	// OperationCancelled means that a job has ended incomplete, or that the reader of an export has gone.
	OperationCancelled OperationOutcome = "cancelled"
	// OperationUnknown means that an error hides whether a workflow makes the change.
	OperationUnknown OperationOutcome = "unknown"
)

// OperationOutcomes lists every outcome.
var OperationOutcomes = []OperationOutcome{OperationDone, OperationAccepted, OperationRefused, OperationFailed, OperationCancelled, OperationUnknown}

// OutcomeOf is the outcome of a job that has ended in this state.
func OutcomeOf(state JobState) OperationOutcome {
	switch state {
	case JobCompleted:
		return OperationDone
	case JobCancelled:
		return OperationCancelled
	default:
		return OperationFailed
	}
}

// AuditFloor is the minimum age of an operation that a store may delete.
const AuditFloor = 30 * 24 * time.Hour

// Limits of a stored operation, in bytes.
const (
	maxOperationText   = 2 << 10
	maxOperationName   = 512
	maxOperationDetail = 64 << 10 // a filter with MaxFilterIDs ids has 39 KiB
)

// omittedDetail replaces a detail that is too long, or that PostgreSQL does not accept as JSON.
var omittedDetail = json.RawMessage(`{"omitted": true}`)

// Storable is the operation as a store keeps it: every text is bounded and can be stored.
func (o Operation) Storable() Operation {
	for _, name := range []*string{&o.Subject, &o.Method, &o.Address, (*string)(&o.Action), (*string)(&o.Target), &o.RequestID,
		&o.WorkflowID, (*string)(&o.Outcome)} {
		*name = bounded(*name, maxOperationName)
	}
	o.Topic, o.Reason = storableTopic(o.Topic), bounded(o.Reason, maxOperationText)
	switch detail := PayloadOf(o.Detail); {
	case len(o.Detail) == 0:
		o.Detail = nil
	case detail == nil || len(detail) > maxOperationDetail:
		o.Detail = omittedDetail
	}
	return o
}

// Identified is the operation with an id, which is new if the operation had none.
func (o Operation) Identified() Operation {
	if o.ID.IsZero() {
		o.ID = NewID()
	}
	return o
}

// On completes an operation with the target that was changed.
func (o Operation) On(id ID, topic string) Operation {
	if o.TargetID.IsZero() {
		o.TargetID = id
	}
	if o.Topic == "" {
		o.Topic = topic
	}
	return o
}

// joinedDetail is the detail of an operation that joined a job. The first operation of the job
// has the filter.
var joinedDetail = json.RawMessage(`{"joined": true}`)

// Created completes an operation with the job that it created.
func (o Operation) Created(j *Job) Operation {
	o.TargetID, o.WorkflowID = j.ID, j.WorkflowID
	return o.On(j.ID, j.Spec.Topic)
}

// Joined completes an operation with the running job that does the same work.
func (o Operation) Joined(j *Job) Operation {
	o.Detail = joinedDetail
	return o.Created(j)
}

// OperationQuery selects operations. An empty field does not restrict them.
type OperationQuery struct {
	Subject  string
	Action   Permission
	Topic    string
	TargetID ID
	Outcome  OperationOutcome
	// From is inclusive, To is exclusive.
	From, To time.Time
	// Within is a regular expression that topics must match. It comes from Principal.Within.
	Within string
	// If Within is set, an operation on a job whose Filter.Topic is an original topic is selected only if the Filter.Within
	// of the job is in Limits.
	Limits []string
	// SingleRetries selects the accepted requests to retry one message, each once.
	SingleRetries bool

	// After is the last operation of the previous page.
	After    *Place
	PageSize int
}

// ListSize is the largest size that the operation can have in the JSON of a list, in bytes.
func (o Operation) ListSize() int {
	return len(o.Detail) + 6*(len(o.Reason)+len(o.Topic)+8*maxOperationName)
}

// Place is the place of the operation in a list, the newest first.
func (o Operation) Place() Place { return PlaceAt(o.At, o.ID) }
