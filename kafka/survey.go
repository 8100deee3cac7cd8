package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
)

// Survey is what the manager's user sees of a cluster.
type Survey struct {
	Brokers int
	// DeadLetters are the topics that are ingested, in order.
	DeadLetters []string
	// Unmatched are topics that look like dead-letter topics, and match no pattern.
	Unmatched []string
	// Missing are topics that messages would be sent to, and that do not exist or are hidden.
	Missing []string
	// Denied are permissions that are missing, such as "WRITE on the topic orders".
	Denied []string
}

// deadLetterWords are parts of the names of dead-letter topics.
var deadLetterWords = []string{"dlq", "dlt", "dead-letter", "dead_letter", "deadletter"}

// unknownOperations is what a broker without an authorizer answers.
const unknownOperations = -1 << 31

// NewSurvey asks the cluster for its topics, and for the rights to the dead-letter topics, to
// the targets and to the consumer group. It changes nothing.
func NewSurvey(ctx context.Context, client *kgo.Client, topics *dlq.Topics, targets []string, group string) (Survey, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.IncludeTopicAuthorizedOperations = true
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return Survey{}, fmt.Errorf("kafka: %w: %w", dlq.ErrUnavailable, err)
	}
	s := Survey{Brokers: len(answer.Brokers)}
	allowed := map[string]int32{}
	for _, t := range answer.Topics {
		if t.Topic == nil || t.IsInternal || t.ErrorCode != 0 {
			continue
		}
		allowed[*t.Topic] = t.AuthorizedOperations
		switch {
		case topics.IsDeadLetter(*t.Topic):
			s.DeadLetters = append(s.DeadLetters, *t.Topic)
			s.needs("topic "+*t.Topic, t.AuthorizedOperations, kmsg.ACLOperationRead)
		case slices.ContainsFunc(deadLetterWords, func(word string) bool { return strings.Contains(strings.ToLower(*t.Topic), word) }):
			s.Unmatched = append(s.Unmatched, *t.Topic)
		}
	}
	for _, target := range slices.Compact(slices.Sorted(slices.Values(targets))) {
		if operations, exists := allowed[target]; exists {
			s.needs("topic "+target, operations, kmsg.ACLOperationWrite)
		} else {
			s.Missing = append(s.Missing, target)
		}
	}
	// A target may be a dead-letter topic that is archived.
	s.Unmatched = slices.DeleteFunc(s.Unmatched, func(topic string) bool { return slices.Contains(targets, topic) })
	for _, list := range [][]string{s.DeadLetters, s.Unmatched} {
		slices.Sort(list)
	}
	return s, s.surveyGroup(ctx, client, group)
}

func (s *Survey) surveyGroup(ctx context.Context, client *kgo.Client, group string) error {
	request := kmsg.NewPtrDescribeGroupsRequest()
	request.Groups, request.IncludeAuthorizedOperations = []string{group}, true
	answer, err := request.RequestWith(ctx, client)
	if errors.Is(err, kerr.GroupAuthorizationFailed) { // the coordinator is not even told
		s.Denied = append(s.Denied, kmsg.ACLOperationRead.String()+" on the group "+group)
		return nil
	}
	if err != nil {
		return fmt.Errorf("kafka: %w: %w", dlq.ErrUnavailable, err)
	}
	for _, g := range answer.Groups {
		if g.ErrorCode == kerr.GroupAuthorizationFailed.Code {
			s.Denied = append(s.Denied, kmsg.ACLOperationRead.String()+" on the group "+group)
			continue
		}
		s.needs("group "+group, g.AuthorizedOperations, kmsg.ACLOperationRead)
	}
	return nil
}

// needs notes an operation that is not among the allowed ones, whose bits are those of
// Kafka's protocol.
func (s *Survey) needs(on string, allowed int32, wanted kmsg.ACLOperation) {
	if allowed != unknownOperations && allowed&(1<<wanted) == 0 {
		s.Denied = append(s.Denied, wanted.String()+" on the "+on)
	}
}
