package dlq

import (
	"fmt"
	"time"
)

// Verified tells whether a consumer got past a delivered message. Verified is empty for messages
// that were not delivered.
type Verified string

// The values of Verified.
const (
	// VerifiedYes means that the consumer group has committed an offset beyond the message,
	// and that the message has not come back.
	VerifiedYes Verified = "yes"
	// VerifiedNo means that the group has not done so yet, or that the message has come back.
	VerifiedNo Verified = "no"
	// VerifiedUnknown means that neither of the two can be known.
	VerifiedUnknown Verified = "unknown"
)

// VerifiedReason says why a message is not verified. docs/verified.md explains each reason.
type VerifiedReason string

// The values of VerifiedReason. The first goes with VerifiedNo, all further with VerifiedUnknown.
const (
	ReasonCameBack VerifiedReason = "came_back"
	// ReasonNoTarget: delivered without Kafka.
	ReasonNoTarget VerifiedReason = "no_target"
	// ReasonHTTP: an endpoint has no consumer group.
	ReasonHTTP VerifiedReason = "http_target"
	// ReasonNoOffset: Kafka named no offset or topic id.
	ReasonNoOffset VerifiedReason = "no_offset"
	// ReasonTopicChanged: the topic was deleted, or created again.
	ReasonTopicChanged VerifiedReason = "topic_changed"
	// ReasonShareGroup: a share group commits no offsets.
	ReasonShareGroup VerifiedReason = "share_group"
	// ReasonRetryTopics: the consumer may have passed the message to a retry topic.
	ReasonRetryTopics VerifiedReason = "retry_topics"
	// ReasonNoGroup: the headers name no consumer group, and none is configured.
	ReasonNoGroup VerifiedReason = "no_group"
	// ReasonNotRead: the offsets of the group have not been fetched yet.
	ReasonNotRead VerifiedReason = "not_read"
	// ReasonRefused: Kafka refuses to show the offsets of the group.
	ReasonRefused VerifiedReason = "refused"
	// ReasonGroupGone: the group has no offset of the topic: the group is gone, or does not read the topic.
	ReasonGroupGone VerifiedReason = "group_gone"
	// ReasonOutdated: the offsets of the group are older than WatermarksOutdated.
	ReasonOutdated VerifiedReason = "outdated"
)

// UnknownReasons are the reasons of VerifiedUnknown.
var UnknownReasons = []VerifiedReason{ReasonNoTarget, ReasonHTTP, ReasonNoOffset, ReasonTopicChanged, ReasonShareGroup,
	ReasonRetryTopics, ReasonNoGroup, ReasonNotRead, ReasonRefused, ReasonGroupGone, ReasonOutdated}

// FamilyRetryable is the family of dead letters that went through retry topics.
const FamilyRetryable = "spring-retryable-topic"

// WatermarksOutdated is the maximum age of watermarks, which are the committed offsets of consumer groups. With older
// watermarks, the messages that no consumer has passed count as unknown: Kafka is unavailable, or ingest is behind in a
// dead-letter topic into which the messages can come back.
const WatermarksOutdated = 2 * time.Minute

// Verdict tells whether a message is verified, and names its target.
type Verdict struct {
	Verified Verified
	Reason   VerifiedReason
	// Target is a topic or the name of an endpoint; empty when unknown.
	Target string
}

// Verifications counts the delivered messages of a bulk retry.
type Verifications struct {
	Yes     int64 `json:"yes"`
	No      int64 `json:"no"`
	Unknown int64 `json:"unknown"`
	// CameBack counts the messages of No that came back.
	CameBack int64 `json:"came_back"`
	// Reasons counts Unknown by reason.
	Reasons map[VerifiedReason]int64 `json:"reasons"`
	// IsPartial is set when more than VerificationLimit messages that the job has delivered
	// can still be found. Then only the newest were counted.
	IsPartial bool `json:"partial"`
}

// Add counts messages.
func (v *Verifications) Add(d Verdict, messages int64) {
	switch d.Verified {
	case VerifiedYes:
		v.Yes += messages
	case VerifiedNo:
		v.No += messages
		if d.Reason == ReasonCameBack {
			v.CameBack += messages
		}
	case VerifiedUnknown:
		v.Unknown += messages
		if v.Reasons == nil {
			v.Reasons = map[VerifiedReason]int64{}
		}
		v.Reasons[d.Reason] += messages
	}
}

// VerificationLimit is how many messages of a bulk retry are counted at most.
const VerificationLimit = 20_000

// VerifyGroups are the consumer groups of topics, for dead letters that name no consumer group.
type VerifyGroups struct {
	// Expressions match original topics, in the order of compareGlobs. Groups has the consumer
	// group of each expression.
	Expressions, Groups []string
}

// NewVerifyGroups maps globs of original topics to consumer groups, or returns the first problem found.
func NewVerifyGroups(groups map[string]string) (*VerifyGroups, error) {
	for glob, group := range groups {
		if group == "" {
			return nil, fmt.Errorf("the consumer group of %q is empty", glob)
		}
	}
	of, err := newGlobMap(groups)
	v := &VerifyGroups{}
	for _, g := range of {
		v.Expressions, v.Groups = append(v.Expressions, g.matches.String()), append(v.Groups, g.value)
	}
	return v, err
}

// WatermarkLease is the right of a process to publish watermarks. It ends when a later lease begins.
type WatermarkLease struct {
	Holder ID
	Epoch  int64
}

// WatermarkScope has all that is to be fetched: the consumer groups that may have failed on
// messages, and the Kafka topics that messages were delivered to.
type WatermarkScope struct {
	Groups  []string
	Targets []WatermarkTarget
}

// WatermarkTarget is a topic with the id that the topic had when messages of a dead-letter topic were
// delivered.
type WatermarkTarget struct {
	ID      int32
	Topic   string
	TopicID ID
	// DLQTopics are the dead-letter topics into which the messages can come back. The first is the topic that the messages
	// were in.
	DLQTopics []string
}

// Watermarks are the committed offsets of groups at a moment.
type Watermarks struct {
	// At is when the fetch of Groups began.
	At time.Time
	// Targets are the targets whose offsets are replaced, with the time when the fetch of each began.
	Targets map[int32]time.Time
	// Groups has every group that was fetched, with Kafka's reason for a refusal. The reason is empty if Kafka did not
	// refuse.
	Groups map[string]string
	// Away are the groups whose coordinator is unavailable. Their offsets were not fetched, and the earlier offsets stay.
	Away []string
	// Committed are the offsets of the groups.
	Committed []Watermark
	// Changed are the targets whose topic does not exist any more.
	Changed []int32
}

// Watermark is the committed offset of a group: the next offset to read.
type Watermark struct {
	Group     string
	Target    int32
	Partition int32
	Offset    int64
}
