package kafka

import (
	"context"
	"maps"
	"slices"
	"time"
)

const (
	// targetIDAge is how old the id of a target may be. An id of before does no harm: a topic
	// that was made anew is recognised by its other id.
	targetIDAge = 10 * time.Second
	// targetIDTimeout bounds the request. Without an answer the message is delivered, but nobody can
	// tell whether a consumer got past the message.
	targetIDTimeout = 2 * time.Second
)

// nameTopicIDs adds the ids of the topics to the acknowledgements. The request comes afterwards, so that
// no message waits for the answer while Kafka is away.
func (d *dispatch) nameTopicIDs(ctx context.Context) {
	acknowledged := map[string]bool{}
	for i := range d.sends {
		if s := &d.sends[i]; s.acknowledgement != nil {
			acknowledged[s.record.Topic] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, targetIDTimeout)
	defer cancel()
	topics := slices.Collect(maps.Keys(acknowledged))
	described, _ := describeTopics(ctx, d.publisher.batched, topics, targetIDAge) // without an answer they stay unknown
	for i := range d.sends {
		s := &d.sends[i]
		if topic, found := described[s.record.Topic]; found && topic.ErrorCode == 0 && s.acknowledgement != nil {
			s.acknowledgement.TopicID = topicIDOr(topic.TopicID, s.record.Topic)
		}
	}
}
