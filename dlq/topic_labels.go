package dlq

import "sync"

// Headers name original topics, and any client that writes to a dead-letter topic chooses them. Without a bound, such a
// client could fill the memory of a program and of the metrics server.
const (
	maxTopicLabels = 1000
	// OtherTopics is the label of the topics beyond the bound.
	OtherTopics = "other"
)

// TopicLabels gives the first 1000 topics labels of their own in a metric. It is safe for concurrent use.
type TopicLabels struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Of is the label of a topic.
func (l *TopicLabels) Of(topic string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[topic] {
		return topic
	}
	if len(l.seen) >= maxTopicLabels {
		return OtherTopics
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[topic] = true
	return topic
}
