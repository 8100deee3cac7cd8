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

// Needs are the topics and groups of a cluster that the manager uses.
type Needs struct {
	Topics *dlq.Topics
	// Routes decide the targets of messages that may arrive. Nil means that messages go to their original
	// topics.
	Routes *dlq.Targets
	// Targets are topics that messages wait for, or that the configuration names.
	Targets []string
	// Archives is nil if exhausted messages are not published.
	Archives *dlq.ArchiveTopics
	// Group is the consumer group of the ingest. Consumers are groups whose offsets are read.
	Group     string
	Consumers []string
}

// ClusterView is the part of a cluster that the manager's user sees. All lists are sorted.
type ClusterView struct {
	Brokers int
	// DeadLetters are the topics that are ingested.
	DeadLetters []string
	// Unmatched are topics that look like dead-letter topics, and match no pattern.
	Unmatched []string
	// Missing are targets that do not exist, or that Kafka hides from the user. MissingArchives are archive
	// topics that are missing in the same way.
	Missing, MissingArchives []string
	// Denied and DeniedReports are missing permissions, such as "WRITE on the topic orders".
	// Without the permissions in DeniedReports, only figures are missing.
	Denied, DeniedReports []string
}

// deadLetterWords are parts of the names of dead-letter topics.
var deadLetterWords = []string{"dlq", "dlt", "dead-letter", "dead_letter", "deadletter"}

// unknownOperations is the answer of a broker without an authorizer.
const unknownOperations = -1 << 31

// ViewCluster asks the cluster for its topics, and for the necessary rights. It changes
// nothing.
func ViewCluster(ctx context.Context, client *kgo.Client, n Needs) (ClusterView, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.IncludeTopicAuthorizedOperations = true
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return ClusterView{}, fmt.Errorf("kafka: %w: %w", dlq.ErrUnavailable, err)
	}
	v := ClusterView{Brokers: len(answer.Brokers)}
	allowed := map[string]int32{}
	for _, t := range answer.Topics {
		if t.Topic != nil && !t.IsInternal && t.ErrorCode == 0 {
			allowed[*t.Topic] = t.AuthorizedOperations
		}
	}
	var archives, origins []string
	for topic, operations := range allowed {
		if !n.Topics.IsDeadLetter(topic) {
			continue
		}
		v.DeadLetters = append(v.DeadLetters, topic)
		needs(&v.Denied, "topic "+topic, operations, kmsg.ACLOperationRead)
		needs(&v.DeniedReports, "topic "+topic, operations, kmsg.ACLOperationDescribeConfigs)
		if n.Archives != nil {
			if archive, err := n.Archives.Of(topic); err == nil { // the worker logs the error
				archives = append(archives, archive)
			}
		}
		origin, _ := n.Topics.OriginOf(topic)
		if target, err := n.Routes.Of(origin, ""); err == nil && target != topic {
			origins = append(origins, target)
		}
	}
	v.Missing = v.writes(allowed, n.Targets)
	v.MissingArchives = v.writes(allowed, archives)
	v.writes(allowed, origins) // headers may name other topics, so a missing topic is no finding
	for topic := range allowed {
		// A target or an archive topic is not ingested, even if its name looks like the name of a
		// dead-letter topic.
		if looksDead(topic) && !n.Topics.IsDeadLetter(topic) && !slices.Contains(n.Targets, topic) && !slices.Contains(archives, topic) {
			v.Unmatched = append(v.Unmatched, topic)
		}
	}
	err = v.groups(ctx, client, n)
	for _, list := range []*[]string{&v.DeadLetters, &v.Unmatched, &v.Missing, &v.MissingArchives, &v.Denied, &v.DeniedReports} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return v, err
}

// writes notes the topics that the user may not write, and returns the missing topics.
func (v *ClusterView) writes(allowed map[string]int32, topics []string) (missing []string) {
	for _, topic := range topics {
		if operations, exists := allowed[topic]; exists {
			needs(&v.Denied, "topic "+topic, operations, kmsg.ACLOperationWrite)
		} else {
			missing = append(missing, topic)
		}
	}
	return missing
}

func looksDead(topic string) bool {
	return slices.ContainsFunc(deadLetterWords, func(word string) bool { return strings.Contains(strings.ToLower(topic), word) })
}

// groups sends a request for each group, so that the error of one group does not hide the error of another
// group.
func (v *ClusterView) groups(ctx context.Context, client *kgo.Client, n Needs) error {
	for _, group := range append([]string{n.Group}, n.Consumers...) {
		denied, operation := &v.DeniedReports, kmsg.ACLOperationDescribe
		if group == n.Group {
			denied, operation = &v.Denied, kmsg.ACLOperationRead
		}
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups, request.IncludeAuthorizedOperations = []string{group}, true
		answer, err := request.RequestWith(ctx, client)
		if err == nil && len(answer.Groups) == 1 {
			if answer.Groups[0].ErrorCode == kerr.GroupAuthorizationFailed.Code {
				err = kerr.GroupAuthorizationFailed
			} else {
				needs(denied, "group "+group, answer.Groups[0].AuthorizedOperations, operation)
			}
		}
		switch {
		case errors.Is(err, kerr.GroupAuthorizationFailed): // the request for the coordinator may fail with this error too
			needs(denied, "group "+group, 0, operation)
		case err != nil:
			return fmt.Errorf("kafka: %w: %w", dlq.ErrUnavailable, err)
		}
	}
	return nil
}

// needs notes an operation that is not allowed. allowed has a bit for each operation, as in Kafka's
// protocol.
func needs(denied *[]string, on string, allowed int32, wanted kmsg.ACLOperation) {
	if allowed != unknownOperations && allowed&(1<<wanted) == 0 {
		*denied = append(*denied, wanted.String()+" on the "+on)
	}
}
