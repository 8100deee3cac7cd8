package dlq

import "strings"

// Command is a request to a job that has not ended. Its JSON is the detail of the request's operation in the audit. Every
// job can be cancelled; the other commands are for bulk retries.
type Command struct {
	Name string `json:"command"`
	// RateLimit is the limit that CommandRate sets, in messages per second; 0 for none.
	RateLimit *int `json:"rate_limit,omitempty"`
	// Reason is the reason that a paused job shows.
	Reason string `json:"-"`
}

// The names of commands.
const (
	CommandPause  = "pause"
	CommandResume = "resume"
	CommandCancel = "cancel"
	CommandRate   = "rate_limit"
)

// IsInEffect tells from the job's row whether the command has taken effect.
func (c Command) IsInEffect(j *Job) bool {
	switch c.Name {
	case CommandPause:
		return j.State == JobPaused && strings.Contains(j.Reason, c.Reason)
	case CommandResume:
		return j.State == JobRunning
	case CommandRate:
		return j.Spec.RateLimit == *c.RateLimit
	default: // the job may have become COMPLETED or FAILED before it was cancelled
		return j.State.IsFinal()
	}
}
