package dlq

import (
	"errors"
	"fmt"
)

// AnyPartition stands for a topic as a whole, such as a topic that does not exist or is not writable, or for an HTTP endpoint.
const AnyPartition int32 = -1

// Target is the partition that a message is sent to.
type Target struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

// String is "orders[3]", or "orders" for the topic as a whole.
func (t Target) String() string {
	if t.Partition == AnyPartition {
		return t.Topic
	}
	return fmt.Sprintf("%s[%d]", t.Topic, t.Partition)
}

// Acknowledgement is where a target has written a message. An endpoint has neither a topic
// id, nor a partition (AnyPartition), nor an offset.
type Acknowledgement struct {
	Topic string `json:"topic,omitempty"`
	// TopicID is the id of the topic at about the time of the delivery; zero when unknown.
	TopicID   ID    `json:"topic_id,omitzero"`
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// Columns are the partition and the offset, both nil when the target has none.
func (a *Acknowledgement) Columns() (partition *int32, offset *int64) {
	if a == nil || a.Partition == AnyPartition {
		return nil, nil
	}
	return &a.Partition, &a.Offset
}

// Target is the topic and its id, each nil when it is unknown.
func (a *Acknowledgement) Target() (topic *string, topicID *ID) {
	if a == nil || a.Topic == "" {
		return nil, nil
	}
	if !a.TopicID.IsZero() {
		topicID = &a.TopicID
	}
	return &a.Topic, topicID
}

// Delivery is the result of publishing one message.
type Delivery struct {
	// Target is where the message was, or would have been, written; with AnyPartition when no partition was chosen.
	Target Target
	// Partitions is how many partitions the topic has; 0 when unknown.
	Partitions int
	// Acknowledgement is nil when the message failed, or when its offset is unknown.
	Acknowledgement *Acknowledgement
	// Unsent is set when Kafka is not configured. Such a message counts as delivered, but was not sent.
	Unsent bool
	// Err is nil when the target has acknowledged the message, and when Unsent is set. Otherwise Err
	// wraps ErrTargetClosed, or is a *DeliveryError or a *BlockedError.
	Err error
}

// ErrTargetClosed means that a message was not sent, since the caller listed its target as closed.
var ErrTargetClosed = errors.New("not sent, since its target is known to be closed")
