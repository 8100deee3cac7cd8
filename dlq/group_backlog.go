package dlq

import "time"

// NewGroupAge is how long a group counts as new after its first message.
const NewGroupAge = time.Hour

// BacklogState is the state of a group for the alerts. Unlike GroupState, BacklogState tells an open
// group that is new, or open again after a fix, from other open groups.
type BacklogState string

// The states that a group has beside its GroupState.
const (
	BacklogNew       BacklogState = "new"
	BacklogRegressed BacklogState = "regressed"
)

// BacklogOpen is GroupOpen, for groups that are neither new nor regressed.
const BacklogOpen = BacklogState(GroupOpen)

// GroupBacklog counts, for one dead-letter topic and one state, the groups that have PENDING messages, and these messages.
type GroupBacklog struct {
	DLQTopic string
	State    BacklogState
	Groups   int64
	Pending  int64
	// OldestPending is the arrival of the oldest PENDING message of these groups. It is set only if the topic
	// has a held group: the oldest message of the topic may then be in a group whose alerts are quiet.
	OldestPending *time.Time
	// Causes are at most MaxBacklogCauses of these groups, if they are new, regressed or open. Of the
	// open groups, Causes has the largest. Of new and regressed groups, Causes has the groups whose first
	// messages are the oldest, so that a group does not lose its place to a later group.
	Causes []BacklogCause
}

// HasCauses reports whether a GroupBacklog of the state has Causes.
func (s BacklogState) HasCauses() bool {
	return s == BacklogNew || s == BacklogRegressed || s == BacklogOpen
}

// MaxBacklogCauses is how many groups of a dead-letter topic and a state are named.
const MaxBacklogCauses = 10

// BacklogCause is a group by its title, with its PENDING messages.
type BacklogCause struct {
	Title string
	// Place is the GroupPlace of the group.
	Place   string
	Pending int64
}

// HideCauses names the causes by their places if masking rules match the dead-letter topic or one of the topics in beside.
func (m *Masking) HideCauses(b *GroupBacklog, beside ...string) {
	if m.For(append(beside, b.DLQTopic)...) == nil {
		return
	}
	for i := range b.Causes {
		b.Causes[i].Title = b.Causes[i].Place
	}
}
