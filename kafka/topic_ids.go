package kafka

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicIDs knows the ids of topics, which tell a re-created topic from the deleted topic of
// the same name. An offset belongs to a topic id.
type topicIDs struct {
	mu sync.Mutex
	// current has the ids at the last assignment, for brokers whose fetch responses have
	// no topic ids (before Kafka 3.1).
	current map[string][16]byte
}

// of returns the id of the topic that the records were fetched from.
func (t *topicIDs) of(topic kgo.FetchTopic) [16]byte {
	if topic.TopicID != ([16]byte{}) {
		return topic.TopicID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known(topic.Topic)
}

// known is the id of the topic at the last assignment. Brokers before Kafka 2.8 have no
// topic ids, so the id is then a hash of the name, and a re-created topic counts as the
// same topic. Ingest continues at the offset of the deleted topic, or
// at the start if that offset is beyond the end. When such a broker is upgraded to a
// version with ids, every topic gets another id and is ingested a second time.
func (t *topicIDs) known(topic string) [16]byte {
	return topicIDOr(t.current[topic], topic)
}

// topicIDOr is the id, or the hash of the name if the broker has no ids.
func topicIDOr(id [16]byte, topic string) [16]byte {
	if id != ([16]byte{}) {
		return id
	}
	sum := sha256.Sum256([]byte("topic name " + topic))
	return [16]byte(sum[:16])
}

// A broker may not know a new topic yet, so refresh asks several times. The number is
// limited, so that a deleted topic does not delay other topics.
const (
	refreshPause    = 200 * time.Millisecond
	refreshAttempts = 25
)

// refresh asks a broker for the ids of topics, and removes topics that the broker does not know
// from the map. The group assigns them again once they exist.
func (t *topicIDs) refresh(ctx context.Context, client *kgo.Client, topics map[string]map[int32]kgo.Offset) error {
	names := slices.Collect(maps.Keys(topics))
	for try := 1; ; try++ {
		described, err := describeTopics(ctx, client, names, 0)
		if err != nil {
			return fmt.Errorf("topic ids: %w", err)
		}
		unknown, err := t.remember(described)
		if err != nil || len(unknown) == 0 {
			return err
		}
		if try == refreshAttempts {
			for _, topic := range unknown {
				delete(topics, topic)
			}
			return nil
		}
		if sleep(ctx, refreshPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// remember keeps the ids of a response, and returns the topics that the broker does not
// know.
func (t *topicIDs) remember(described map[string]kmsg.MetadataResponseTopic) (unknown []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, topic := range described {
		err := kerr.ErrorForCode(topic.ErrorCode)
		switch {
		case topic.TopicID != [16]byte{} || err == nil:
			t.current[name] = topic.TopicID
		case kerr.IsRetriable(err):
			unknown = append(unknown, name)
		default:
			return nil, fmt.Errorf("topic id of %s: %w", name, withGrant(err, kmsg.ACLOperationRead, name, ""))
		}
	}
	return unknown, nil
}

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
