package kafka

import (
	"context"
	"sync"
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

// targetIDs are the ids of the topics that were sent to last.
type targetIDs struct {
	mu    sync.Mutex
	known map[string]targetID
}

type targetID struct {
	id [16]byte
	at time.Time
}

// nameTopicIDs adds the ids of the topics to the acknowledgements. The request comes afterwards, so that
// no message waits for the answer while Kafka is away.
func (d *dispatch) nameTopicIDs(ctx context.Context) {
	var topics []string
	seen := map[string]bool{}
	for i, r := range d.records {
		if d.acknowledgements[i] != nil && !seen[r.Topic] {
			seen[r.Topic] = true
			topics = append(topics, r.Topic)
		}
	}
	ids := d.publisher.currentTopicIDs(ctx, topics)
	for i, r := range d.records {
		if a := d.acknowledgements[i]; a != nil {
			a.TopicID = ids[r.Topic]
		}
	}
}

// currentTopicIDs are the ids of topics, as far as they are known now or soon.
func (p *Publisher) currentTopicIDs(ctx context.Context, topics []string) map[string][16]byte {
	ids := map[string][16]byte{}
	var unknown []string
	p.targetIDs.mu.Lock()
	for _, topic := range topics {
		if known := p.targetIDs.known[topic]; time.Since(known.at) < targetIDAge {
			ids[topic] = known.id
		} else {
			unknown = append(unknown, topic)
		}
	}
	p.targetIDs.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, targetIDTimeout)
	defer cancel()
	asked := time.Now()
	described, _ := describeTopics(ctx, p.batched, unknown) // without an answer they stay unknown
	p.targetIDs.mu.Lock()
	defer p.targetIDs.mu.Unlock()
	for name, topic := range described {
		if topic.ErrorCode == 0 {
			id := topicIDOr(topic.TopicID, name)
			ids[name], p.targetIDs.known[name] = id, targetID{id, asked}
		}
	}
	return ids
}
