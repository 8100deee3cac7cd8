package dlq

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Exhausted is a message that has used up its retries and must still be published to an archive topic.
type Exhausted struct {
	ID  ID
	Seq int64
	// EndedAt, RetryCount, MaxRetries and Error are the values at the end of the message. Error is the error of the last
	// retry, or the error of the consumer when the message was exhausted on arrival.
	EndedAt    time.Time
	RetryCount int
	MaxRetries int
	Error      string
	Record     Record
	// Deleted is set when the message no longer exists. Then Record is empty.
	Deleted bool
	// Unreadable says why the record can neither be read nor published.
	Unreadable error
}

// maxReason is the maximum length of a reason in characters.
const maxReason = 1000

// Reason says why the message ended, in at most maxReason characters of storable text.
func (e *Exhausted) Reason() string {
	return shortened(fmt.Sprintf("exhausted after %d of %d retries: %s", e.RetryCount, e.MaxRetries, StorableText(e.Error)), maxReason)
}

// TopicCount is a number of messages of a dead-letter topic.
type TopicCount struct {
	DLQTopic string
	Messages int64
}

// DefaultArchiveTopic gives X.dlq and X.dlq.v1 the archive topic X.dlq.archive, and any
// other topic T the archive topic T.archive.
const DefaultArchiveTopic = dlqPlaceholder + ".archive"

// dlqPlaceholder stands for the dead-letter topic without its version.
const dlqPlaceholder = "{dlq}"

// ArchiveTopics maps each dead-letter topic to its archive topic.
type ArchiveTopics struct {
	template string
	topics   *Topics
}

// NewArchiveTopics returns the archive topics that a template names.
func NewArchiveTopics(template string, topics *Topics) *ArchiveTopics {
	return &ArchiveTopics{template: template, topics: topics}
}

// Check tries the template with a sample of each glob. It returns an error when a result
// is not the name of a topic, or is a dead-letter topic itself.
func (a *ArchiveTopics) Check(globs []string) error {
	for _, glob := range globs {
		if _, err := a.Of(wildcards.Replace(glob)); err != nil {
			return err
		}
	}
	return nil
}

var versioned = regexp.MustCompile(`^(.+\.dlq)\.v[0-9]+$`)

// Of returns the archive topic of a dead-letter topic. The error says why there is none.
func (a *ArchiveTopics) Of(dlqTopic string) (string, error) {
	archive := strings.ReplaceAll(a.template, dlqPlaceholder, versioned.ReplaceAllString(dlqTopic, "$1"))
	switch {
	case !IsTopicName(archive):
		return "", fmt.Errorf("%q, the archive topic of %q, is not the name of a topic", archive, dlqTopic)
	case a.topics.IsDeadLetter(archive):
		return "", fmt.Errorf("%q, the archive topic of %q, is itself a dead-letter topic: it would be ingested again", archive, dlqTopic)
	}
	return archive, nil
}
