package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
)

const (
	// targetIDAge is how old the id of a target may be. An id of before is no harm: a topic
	// that was made anew is recognised by its other id.
	targetIDAge = 10 * time.Second
	// targetIDTimeout bounds the request, since a message is sent without the id too.
	targetIDTimeout = 2 * time.Second
)

// openTopics are the topics of the records, without those that are closed.
func (d *dispatch) openTopics() []string {
	var topics []string
	seen := map[string]bool{}
	for _, r := range d.records {
		if !seen[r.Topic] && !d.closed.has(r.Topic, dlq.AnyPartition) {
			seen[r.Topic] = true
			topics = append(topics, r.Topic)
		}
	}
	return topics
}

// currentTopicIDs are the ids of topics, as far as they are known now or soon.
func (p *Publisher) currentTopicIDs(ctx context.Context, topics []string) map[string][16]byte {
	ids := map[string][16]byte{}
	if len(topics) == 0 {
		return ids // a request without topics would ask for all
	}
	ctx, cancel := context.WithTimeout(ctx, targetIDTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = new(topic)
		request.Topics = append(request.Topics, wanted)
	}
	response, err := p.batched.RequestCachedMetadata(ctx, request, targetIDAge)
	if err != nil {
		return ids
	}
	for _, topic := range response.Topics {
		if topic.Topic != nil && topic.ErrorCode == 0 {
			ids[*topic.Topic] = topicIDOr(topic.TopicID, *topic.Topic)
		}
	}
	return ids
}
