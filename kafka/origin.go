package kafka

import (
	"slices"

	"dlqmanager/dlq"
)

// topicNameFamily is the dlq.Origin.Family of a dead letter whose headers do not name
// its origin. The origin then follows from the name of the dead-letter topic.
const topicNameFamily = "topic-name"

// family is a header family: the headers in which one framework describes a dead letter.
type family struct {
	name string
	// headers are added to a dead letter. Any of them identifies the family, and all of
	// them are removed when the message is sent back.
	headers []string
	// topic and message are the headers with the original topic and the error.
	topic   string
	message string
}

// families are tried in this order; the first match is used.
var families = []family{
	{
		name:    "this-system",
		headers: []string{"original_topic", "error"},
		topic:   "original_topic",
		message: "error",
	},
}

// familyOf returns nil when no family matches.
func familyOf(headers []dlq.Header) *family {
	for i := range families {
		if slices.ContainsFunc(headers, families[i].adds) {
			return &families[i]
		}
	}
	return nil
}

func (f *family) adds(header dlq.Header) bool { return slices.Contains(f.headers, header.Key) }

// failureOf reads the origin and the error of a dead letter, as text that can be stored.
// A dead letter that went through two dead-letter topics has the headers of both hops.
// The first hop names its origin, the last one its error.
func failureOf(topics *dlq.Topics, dlqTopic string, headers []dlq.Header) dlq.Failure {
	failure := dlq.Failure{
		Origin:       dlq.Origin{Topic: topics.OriginOf(dlqTopic), Family: topicNameFamily},
		ErrorMessage: dlq.UnknownError,
	}
	f := familyOf(headers)
	if f == nil {
		return failure
	}
	// An invalid topic name counts as absent.
	if topic := string(first(headers, f.topic)); dlq.IsTopicName(topic) {
		failure.Origin = dlq.Origin{Topic: topic, Family: f.name}
	}
	if message := last(headers, f.message); len(message) > 0 {
		failure.ErrorMessage = dlq.StorableText(string(message))
	}
	return failure
}

// ownHeaders returns the headers that the message had before it became a dead letter, in
// order, with duplicates.
func ownHeaders(headers []dlq.Header) []dlq.Header {
	f := familyOf(headers)
	kept := make([]dlq.Header, 0, len(headers)+2) // room for the two that are added
	for _, header := range headers {
		if header.Key == headerMessageID || header.Key == headerRetryCount || f != nil && f.adds(header) {
			continue
		}
		kept = append(kept, header)
	}
	return kept
}

// first returns the value of the first header with this name, or nil.
func first(headers []dlq.Header, name string) []byte {
	for _, header := range headers {
		if header.Key == name {
			return header.Value
		}
	}
	return nil
}

// last returns the value of the last header with this name, or nil.
func last(headers []dlq.Header, name string) []byte {
	for _, header := range slices.Backward(headers) {
		if header.Key == name {
			return header.Value
		}
	}
	return nil
}
