package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
)

// badData are refusals of the record itself: no retry can succeed.
var badData = []error{
	kerr.MessageTooLarge,
	kerr.RecordListTooLarge,
	kerr.InvalidRecord, // also a missing key on a compacted topic
	kerr.CorruptMessage,
	kerr.UnsupportedForMessageFormat,
	kerr.InvalidTimestamp,
	kerr.InvalidTopicException, // the topic's name comes from the message's headers
	kerr.PolicyViolation,
	dlq.ErrGone,
}

// auth are refusals of our credentials or permissions.
var auth = []error{
	kerr.TopicAuthorizationFailed,
	kerr.ClusterAuthorizationFailed, // idempotent writes before Kafka 3.0
	kerr.GroupAuthorizationFailed,
	kerr.TransactionalIDAuthorizationFailed,
	kerr.SaslAuthenticationFailed,
	kerr.UnsupportedSaslMechanism,
	kerr.IllegalSaslState,
	kerr.SecurityDisabled,
}

// targetOnly are refusals that concern this topic only.
var targetOnly = []error{
	kerr.UnknownTopicOrPartition,
	kerr.UnknownTopicID,
	kerr.InvalidTopicException,
	kerr.TopicAuthorizationFailed,
}

// categoryOf classifies an error of the client library. Unknown errors are transient, and
// so is a topic that does not exist: an operator can create the topic.
func categoryOf(err error) dlq.Category {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case slices.ContainsFunc(badData, is):
		return dlq.CategoryBadData
	case slices.ContainsFunc(auth, is), errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.AlertError)):
		return dlq.CategoryAuth
	case is(kerr.ThrottlingQuotaExceeded):
		return dlq.CategoryRateLimit
	default:
		return dlq.CategoryTransient
	}
}

// withGrant adds the missing right to a refusal of Kafka's authorizer. The refusal's own text names neither
// the operation nor the topic or group. Any other error stays as it is.
func withGrant(err error, operation kmsg.ACLOperation, topic, group string) error {
	switch {
	case topic != "" && errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("%w: grant %s on the topic %s to the manager's user", err, operation, topic)
	case group != "" && errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("%w: grant %s on the group %s to the manager's user", err, operation, group)
	}
	return err
}

func isDenied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

// topicErrors asks a broker for topics, and returns why some of them cannot be used. The request is not
// made with kadm, which fails for all topics if one topic is denied.
func topicErrors(ctx context.Context, client *kgo.Client, topics []string) (map[string]error, error) {
	described, err := describeTopics(ctx, client, topics, 0)
	failed := map[string]error{}
	for name, topic := range described {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			failed[name] = err
		}
	}
	return failed, err
}

// describeTopics asks a broker for the metadata of topics, unless the client has metadata of at most this
// age.
func describeTopics(ctx context.Context, client *kgo.Client, topics []string, age time.Duration) (map[string]kmsg.MetadataResponseTopic, error) {
	if len(topics) == 0 {
		return nil, nil //nolint:nilnil // a request without topics would ask for all
	}
	request := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		wanted := kmsg.NewMetadataRequestTopic()
		wanted.Topic = new(topic)
		request.Topics = append(request.Topics, wanted)
	}
	ask := func() (*kmsg.MetadataResponse, error) { return request.RequestWith(ctx, client) }
	if age > 0 {
		ask = func() (*kmsg.MetadataResponse, error) { return client.RequestCachedMetadata(ctx, request, age) }
	}
	response, err := ask()
	if err != nil {
		return nil, err
	}
	described := map[string]kmsg.MetadataResponseTopic{}
	for _, topic := range response.Topics {
		if topic.Topic != nil {
			described[*topic.Topic] = topic
		}
	}
	return described, nil
}

// connectionFailures is a hook that keeps the error of the last failed connection. The
// library's own timeout error does not contain the cause.
type connectionFailures struct {
	last atomic.Pointer[connectionFailure]
}

type connectionFailure struct {
	err error
	at  time.Time
}

// OnBrokerConnect implements kgo.HookBrokerConnect. A failed authentication counts as a
// failed connection.
func (c *connectionFailures) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		c.last.Store(nil)
		return
	}
	c.last.Store(&connectionFailure{err, time.Now()})
}

// explain adds the last connection failure since the given time to an error that names no
// cause.
func (c *connectionFailures) explain(err error, since time.Time) error {
	namesNoCause := errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries) || errors.Is(err, context.DeadlineExceeded)
	last := c.last.Load()
	if !namesNoCause || last == nil || last.at.Before(since) || categoryOf(err) != dlq.CategoryTransient {
		return err
	}
	return fmt.Errorf("%w, last connection: %w", err, last.err)
}

func deliveryError(topic string, err error) *dlq.DeliveryError {
	messageOnly := errors.As(err, new(*sourceError)) || errors.Is(err, dlq.ErrGone)
	if !messageOnly {
		err = withGrant(err, kmsg.ACLOperationWrite, topic, "")
	}
	return &dlq.DeliveryError{
		Category:    categoryOf(err),
		TargetOnly:  !messageOnly && slices.ContainsFunc(targetOnly, func(target error) bool { return errors.Is(err, target) }),
		MessageOnly: messageOnly,
		Err:         fmt.Errorf("publish to %s: %w", topic, err),
	}
}
