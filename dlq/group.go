package dlq

import (
	"crypto/sha256"
	"fmt"
	"time"

	"dlqmanager/dlq/fingerprint"
)

// MaxGroups is the default limit on the groups of a dead-letter topic, so that a flood of unique errors does not become a
// flood of groups. Further causes fall into the overflow group of the topic. A group gives way to a new group if it has no
// messages and nobody has annotated, held or fixed it.
const MaxGroups = 1000

// GroupRetention is how long a group that may give way is kept after its last arrival, unless a new group needs its place.
const GroupRetention = 30 * 24 * time.Hour

// RuleOverflow is the rule of overflow groups, for messages of a topic that has reached its maximum number of groups.
const RuleOverflow fingerprint.Rule = "overflow"

// Overflow is the fingerprint of the overflow group of a dead-letter topic.
func Overflow(dlqTopic string) fingerprint.Fingerprint {
	sum := sha256.Sum256([]byte("overflow\x00" + dlqTopic))
	return fingerprint.Fingerprint{Key: [16]byte(sum[:16]), Version: fingerprint.Version, Scope: dlqTopic, Rule: RuleOverflow}
}

// GroupID is the id of the group with a fingerprint: the fingerprint's key as a UUID of version 8. Without a fingerprint, it is zero.
func GroupID(f *fingerprint.Fingerprint) ID {
	if f.Version == 0 {
		return ID{}
	}
	id := ID(f.Key)
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

// storableFingerprint is a fingerprint as a store keeps it.
func storableFingerprint(f fingerprint.Fingerprint) fingerprint.Fingerprint {
	for _, text := range []*string{&f.Scope, (*string)(&f.Rule), &f.Class, &f.Frame, &f.Message} {
		*text = bounded(*text, maxOperationText)
	}
	return f
}

// GroupNotFound is ErrNotFound for a group. Links to removed groups lead to this error.
func GroupNotFound(id ID) error { return fmt.Errorf("group %s: %w", id, ErrNotFound) }

// GroupState is the decision of operators about a group.
type GroupState string

const (
	// GroupOpen means that nobody has decided anything, or that a decision has ended.
	GroupOpen GroupState = "open"
	// GroupHeld has a known cause that is not fixed. Its alerts are quiet until a condition of its Hold is met.
	GroupHeld GroupState = "held"
	// GroupFixed has a fixed cause. A record that fails after the fix opens the group again, as a regression.
	GroupFixed GroupState = "fixed"
)

// GroupStates lists every state.
var GroupStates = []GroupState{GroupOpen, GroupHeld, GroupFixed}

// Hold says when a held group opens again: as soon as one of its conditions is met. A zero condition does not count.
type Hold struct {
	Until time.Time
	// Count is met when so many further messages have arrived.
	Count int64
	// Rate is met when so many messages have arrived within an hour.
	Rate int64
}

// IsZero reports whether the hold has no condition.
func (h *Hold) IsZero() bool { return h.Until.IsZero() && h.Count == 0 && h.Rate == 0 }

// Group is the messages that failed for the same cause.
type Group struct {
	ID ID
	// Fingerprint has no Key: the ID was made from the key.
	Fingerprint fingerprint.Fingerprint

	FirstSeen time.Time
	LastSeen  time.Time
	// Arrived is how many messages were ever stored in the group, including the messages that
	// were deleted or archived since. LastHour is how many messages arrived in about the last hour.
	Arrived  int64
	LastHour int64
	// Counts count the messages that exist, by dead-letter topic, original topic and status.
	Counts []GroupCount
	// Sample is one of the newest messages; zero if the group has no message.
	Sample ID

	Owner  string
	Ticket string
	Note   string

	State   GroupState
	StateAt time.Time
	// StateReason says why a held or fixed group is open again.
	StateReason string
	// Hold is set for a held group. Hold.Count is how many more messages have to arrive until the group opens.
	Hold Hold
	// RegressedBy is the message that failed after the fix; zero if none did.
	RegressedBy ID

	// IsPartial is set when some messages of the group are, or were, in dead-letter topics that the
	// principal may not see. Arrived, LastHour and RegressedBy include these messages.
	IsPartial bool
}

// Reasons why a group is open again.
const (
	RegressionReason = "regression: a message that was written after the fix has failed"
	HoldUntilReason  = "no longer held: its time has come"
	HoldCountReason  = "no longer held: as many messages as allowed have arrived"
	HoldRateReason   = "no longer held: as many messages as allowed have arrived in an hour"
)

// GroupCount counts messages of a group.
type GroupCount struct {
	DLQTopic      string `json:"dlq_topic"`
	OriginalTopic string `json:"original_topic"`
	Status        Status `json:"status"`
	Messages      int64  `json:"messages"`
}

// GroupSort is the order of a list of groups.
type GroupSort string

// The orders of groups. All are descending.
const (
	GroupsByFirstSeen GroupSort = "first_seen" // the newest causes first
	GroupsByLastSeen  GroupSort = "last_seen"
	GroupsByPending   GroupSort = "pending" // the number of PENDING messages
)

// GroupSorts lists every order.
var GroupSorts = []GroupSort{GroupsByFirstSeen, GroupsByLastSeen, GroupsByPending}

// GroupQuery selects groups. Empty fields do not restrict them.
type GroupQuery struct {
	// Topic is a dead-letter topic or an original topic of some of the messages.
	Topic string
	// State is the state of the groups. Without a state, groups without messages are left out.
	State GroupState
	// Within is a regular expression that the dead-letter topic of at least one message must match. Messages of other
	// topics are not counted. See Principal.Within.
	Within string

	Sort     GroupSort
	After    *Place
	PageSize int
}

// GroupChange changes the notes of operators about a group. Nil fields stay as they are.
type GroupChange struct {
	Owner  *string
	Ticket *string
	Note   *string
	// State is GroupOpen or GroupHeld. A held group needs a Hold.
	State *GroupState
	Hold  Hold
}

// maxGroupText is the maximum size of a stored note, in bytes. The API accepts fewer bytes.
const maxGroupText = 8 << 10

// Storable is the change as a store keeps it: every text is bounded and can be stored.
func (c GroupChange) Storable() GroupChange {
	for _, text := range []**string{&c.Owner, &c.Ticket, &c.Note} {
		if *text != nil {
			short := bounded(**text, maxGroupText)
			*text = &short
		}
	}
	return c
}

// EndOffset is the end of a partition: the offset of its next record.
type EndOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// GroupFix is when a cause was fixed, and the ends of the partitions of the original topics at that time.
type GroupFix struct {
	At   time.Time
	Ends []EndOffset
	// Ticket replaces the ticket of the group, unless nil.
	Ticket *string
}

// A record with an offset from before the fix counts as newer than the fix if it was written more than regressionGrace
// after the fix: the topic was deleted and created again. Clocks differ by less than regressionGrace.
const regressionGrace = time.Hour

// Precedes reports whether a message failed after the fix.
//
// The message's offset in its original topic decides. In a partition that was created after the fix, all records are newer.
// If the offset is unknown, or the topic had no message in the group at the fix, the time at which the record was written
// decides.
func (f *GroupFix) Precedes(a *Arrival) bool {
	written := a.Origin.Timestamp
	if written.IsZero() {
		written = a.Record.Timestamp
	}
	if a.Origin.Partition == nil || a.Origin.Offset == nil {
		return written.After(f.At)
	}
	knownTopic := false
	for _, end := range f.Ends {
		if end.Topic != a.Origin.Topic {
			continue
		}
		knownTopic = true
		if end.Partition == *a.Origin.Partition {
			return *a.Origin.Offset >= end.Offset || a.Origin.Timestamp.After(f.At.Add(regressionGrace))
		}
	}
	return knownTopic || written.After(f.At)
}
