package kafka

import (
	"strings"

	"dlqmanager/dlq"
)

// topicNameFamily is the dlq.Origin.Family of a dead letter whose headers do
// not tell where it was: its topic's name does.
const topicNameFamily = "topic-name"

// family is one way in which consumers describe a dead letter in its headers.
// It is recognised by the headers that are present, never by their length.
type family struct {
	name string
	// marks are the headers any of which tells the family.
	marks []string
	// owns are the headers that the family adds to a dead letter, which come
	// off when it is sent back. A name that ends in * is a prefix.
	owns []string

	topic     text
	partition number
	offset    number
	message   text
	class     text
	stack     text
}

// text is where a family keeps a text: the first of the headers that is there.
// The zero value is nowhere.
type text struct {
	headers []string
	repeat  repeat
}

// number is where a family keeps a number, and how it is encoded.
type number struct {
	text
	decode func([]byte) (int64, bool)
}

// repeat says which of several headers with the same name counts.
type repeat bool

const (
	firstCounts repeat = false
	lastCounts  repeat = true
)

// families are tried in this order; the first that is recognised is believed.
// The ones with the most particular names come first.
var families = []family{
	{
		name:  "this-system",
		marks: []string{"original_topic", "error"},
		owns:  []string{"original_topic", "error"},
		// A dead letter that went through a second dead-letter topic carries
		// both hops: it belongs where it was first, and failed as it did last.
		topic:   text{headers: []string{"original_topic"}, repeat: firstCounts},
		message: text{headers: []string{"error"}, repeat: lastCounts},
	},
}

// familyOf returns nil when no family is recognised.
func familyOf(headers []dlq.Header) *family {
	for i := range families {
		for _, mark := range families[i].marks {
			if _, ok := find(headers, mark, firstCounts); ok {
				return &families[i]
			}
		}
	}
	return nil
}

// failure is why a message became a dead letter, as text that can be stored.
type failure struct{ message, class, stack string }

// describe reads where a dead letter was and why it failed.
func describe(topics *dlq.Topics, dlqTopic string, headers []dlq.Header) (dlq.Origin, failure) {
	origin := dlq.Origin{Topic: topics.OriginOf(dlqTopic), Family: topicNameFamily}
	why := failure{message: dlq.UnknownError}
	f := familyOf(headers)
	if f == nil {
		return origin, why
	}
	// A topic that cannot exist tells nothing, and then neither do the
	// partition and offset beside it.
	if topic, ok := f.topic.find(headers); ok && dlq.IsTopicName(string(topic)) {
		origin = dlq.Origin{Topic: string(topic), Family: f.name}
		if partition, ok := f.partition.find(headers); ok && partition >= 0 && partition <= 1<<31-1 {
			value := int32(partition)
			origin.Partition = &value
		}
		if offset, ok := f.offset.find(headers); ok && offset >= 0 {
			origin.Offset = &offset
		}
	}
	if message, ok := f.message.find(headers); ok && len(message) > 0 {
		why.message = dlq.Text(message)
	}
	if class, ok := f.class.find(headers); ok {
		why.class = dlq.Text(class)
	}
	if stack, ok := f.stack.find(headers); ok {
		why.stack = dlq.Text(stack)
	}
	return origin, why
}

// stripped returns the headers that were the message's own before it became a
// dead letter, in order, with duplicates.
func stripped(headers []dlq.Header) []dlq.Header {
	f := familyOf(headers)
	kept := make([]dlq.Header, 0, len(headers)+2) // room for the two that are added
	for _, header := range headers {
		if header.Key == headerMessageID || header.Key == headerRetryCount || f.takesOff(header.Key) {
			continue
		}
		kept = append(kept, header)
	}
	return kept
}

func (f *family) takesOff(header string) bool {
	if f == nil {
		return false
	}
	for _, own := range f.owns {
		if prefix, isPrefix := strings.CutSuffix(own, "*"); header == own || isPrefix && strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return false
}

func (t text) find(headers []dlq.Header) ([]byte, bool) {
	for _, name := range t.headers {
		if value, ok := find(headers, name, t.repeat); ok {
			return value, true
		}
	}
	return nil, false
}

func (n number) find(headers []dlq.Header) (int64, bool) {
	value, ok := n.text.find(headers)
	if !ok {
		return 0, false
	}
	return n.decode(value)
}

func find(headers []dlq.Header, name string, which repeat) (value []byte, found bool) {
	for _, header := range headers {
		if header.Key != name {
			continue
		}
		if which == firstCounts {
			return header.Value, true
		}
		value, found = header.Value, true
	}
	return value, found
}
