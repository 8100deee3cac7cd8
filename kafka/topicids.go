package kafka

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicIDs tells topics apart that had the same name one after another. Offsets belong
// to the one that they were read from.
type topicIDs struct {
	mu sync.Mutex
	// current are the ids at the last assignment, for brokers whose fetch responses
	// carry none (before Kafka 3.1).
	current map[string][16]byte
}

func newTopicIDs() *topicIDs { return &topicIDs{current: map[string][16]byte{}} }

// of returns the id of the topic that the records were fetched from.
func (t *topicIDs) of(topic kgo.FetchTopic) [16]byte {
	if topic.TopicID != ([16]byte{}) {
		return topic.TopicID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known(topic.Topic)
}

// known is the id of the topic at the last assignment. A broker before Kafka 2.8 knows
// no topic ids at all: there the name must do, and a topic that was deleted and created
// again is taken for the one before. It is read on from the offset that the other had
// reached, or from its start where that is beyond its end. When such a broker is upgraded
// to one that knows ids, every topic is another one, and is taken in a second time.
func (t *topicIDs) known(topic string) [16]byte {
	if id := t.current[topic]; id != ([16]byte{}) {
		return id
	}
	sum := sha256.Sum256([]byte("topic name " + topic))
	return [16]byte(sum[:16])
}

// A broker that does not know a topic yet is asked again. One that was deleted meanwhile
// must not hold up the others.
const (
	learnPause = 200 * time.Millisecond
	learnLimit = 25
)

// learn asks a broker for the ids of topics; the client's own metadata may be older. It
// takes those that the broker does not know out of the map: they are assigned anew when
// they are there.
func (t *topicIDs) learn(ctx context.Context, client *kgo.Client, topics map[string]map[int32]kgo.Offset) error {
	if len(topics) == 0 {
		return nil // a request without topics would ask for all
	}
	request := kmsg.NewPtrMetadataRequest()
	for topic := range topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = new(topic)
		request.Topics = append(request.Topics, wanted)
	}
	for try := 1; ; try++ {
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("topic ids: %w", err)
		}
		unknown, err := t.note(response)
		if err != nil || len(unknown) == 0 {
			return err
		}
		if try == learnLimit {
			for _, topic := range unknown {
				delete(topics, topic)
			}
			return nil
		}
		if sleep(ctx, learnPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// note keeps the ids of a response, and returns the topics that the broker does not know.
func (t *topicIDs) note(response *kmsg.MetadataResponse) (unknown []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range response.Topics {
		if topic.Topic == nil {
			continue
		}
		err := kerr.ErrorForCode(topic.ErrorCode)
		switch {
		case topic.TopicID != [16]byte{} || err == nil:
			t.current[*topic.Topic] = topic.TopicID
		case kerr.IsRetriable(err):
			unknown = append(unknown, *topic.Topic)
		default:
			return nil, fmt.Errorf("topic id of %s: %w", *topic.Topic, err)
		}
	}
	return unknown, nil
}
