package kafka

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicIDOr returns the id, or a hash of the name if the broker has no topic ids, as before Kafka 2.8. A
// re-created topic then counts as the same topic. Ingest continues at the offset of the deleted topic, or
// at the start if that offset is beyond the end. When such a broker is upgraded to a version with ids,
// every topic gets another id and is ingested a second time.
func topicIDOr(id [16]byte, topic string) [16]byte {
	if id != ([16]byte{}) {
		return id
	}
	sum := sha256.Sum256([]byte("topic name " + topic))
	return [16]byte(sum[:16])
}

// A broker may not know a new topic yet, so topicIDs asks several times. The number of requests is limited,
// so that a deleted topic does not delay other topics.
const (
	topicIDsPause    = 200 * time.Millisecond
	topicIDsAttempts = 25
)

// topicIDs asks a broker for the ids of topics, which tell a re-created topic from the deleted topic of the
// same name. Positions are stored by topic id. The result lacks the topics that the broker does not know.
func topicIDs(ctx context.Context, client *kgo.Client, topics []string) (map[string][16]byte, error) {
	for try := 1; ; try++ {
		described, err := describeTopics(ctx, client, topics, 0)
		if err != nil {
			return nil, fmt.Errorf("topic ids: %w", err)
		}
		ids := map[string][16]byte{}
		for name, topic := range described {
			err := kerr.ErrorForCode(topic.ErrorCode)
			switch {
			case topic.TopicID != [16]byte{} || err == nil:
				ids[name] = topicIDOr(topic.TopicID, name)
			case !kerr.IsRetriable(err):
				return nil, fmt.Errorf("topic id of %s: %w", name, withGrant(err, kmsg.ACLOperationRead, name, ""))
			}
		}
		if len(ids) == len(described) || try == topicIDsAttempts {
			return ids, nil
		}
		if sleep(ctx, topicIDsPause); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

const (
	// targetIDAge is how old the id of a target may be. An outdated id does no harm: it differs from
	// the id of the re-created topic, so nothing takes the new topic for the old topic.
	targetIDAge = 10 * time.Second
	// targetIDTimeout bounds the request for ids. The messages are delivered by then. But without the id,
	// the manager cannot tell whether a consumer got past a message.
	targetIDTimeout = 2 * time.Second
)

// nameTopicIDs adds the ids of the topics to the acknowledgements. The request is made after the messages
// are acknowledged, so that no message waits for the answer while Kafka is unavailable.
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
	described, _ := describeTopics(ctx, d.publisher.batched, topics, targetIDAge) // without an answer the ids stay unknown
	for i := range d.sends {
		s := &d.sends[i]
		if topic, found := described[s.record.Topic]; found && topic.ErrorCode == 0 && s.acknowledgement != nil {
			s.acknowledgement.TopicID = topicIDOr(topic.TopicID, s.record.Topic)
		}
	}
}
