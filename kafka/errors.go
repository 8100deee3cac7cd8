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

	"dlqmanager/dlq"
)

// badData are refusals of the record itself: it will never be taken.
var badData = []error{
	kerr.MessageTooLarge,
	kerr.RecordListTooLarge,
	kerr.InvalidRecord, // also a missing key on a compacted topic
	kerr.CorruptMessage,
	kerr.UnsupportedForMessageFormat,
	kerr.InvalidTimestamp,
	kerr.InvalidTopicException, // the origin's name, which is part of the message
	kerr.PolicyViolation,
}

// auth are refusals of us.
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

// targetOnly are refusals that say nothing about other topics.
var targetOnly = []error{
	kerr.UnknownTopicOrPartition,
	kerr.UnknownTopicID,
	kerr.InvalidTopicException,
	kerr.TopicAuthorizationFailed,
}

// categoryOf judges an error of the client library. One that it does not know
// is transient, such as a topic that does not exist: an operator can create it.
func categoryOf(err error) dlq.Category {
	is := func(target error) bool { return errors.Is(err, target) }
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case slices.ContainsFunc(badData, is):
		return dlq.CategoryBadData
	case slices.ContainsFunc(auth, is), errors.As(err, &certificate), errors.As(err, &alert):
		return dlq.CategoryAuth
	case is(kerr.ThrottlingQuotaExceeded):
		return dlq.CategoryRateLimit
	default:
		return dlq.CategoryTransient
	}
}

// isTargetOnly judges an error of the client library.
func isTargetOnly(err error) bool {
	return slices.ContainsFunc(targetOnly, func(target error) bool { return errors.Is(err, target) })
}

// connections is a hook that remembers why the last connection failed. The
// library's own timeout does not say.
type connections struct {
	last atomic.Pointer[connectionFailure]
}

type connectionFailure struct {
	err error
	at  time.Time
}

// OnBrokerConnect implements kgo.HookBrokerConnect. err is also a failure to
// authenticate.
func (c *connections) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		c.last.Store(nil)
		return
	}
	c.last.Store(&connectionFailure{err, time.Now()})
}

// explain adds what failed since then to an error that names no cause.
func (c *connections) explain(err error, since time.Time) error {
	nameless := errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrRecordRetries) || errors.Is(err, context.DeadlineExceeded)
	last := c.last.Load()
	if !nameless || last == nil || last.at.Before(since) || categoryOf(err) != dlq.CategoryTransient {
		return err
	}
	return fmt.Errorf("%w, last connection: %w", err, last.err)
}

func deliveryError(topic string, err error) *dlq.DeliveryError {
	return &dlq.DeliveryError{
		Category:   categoryOf(err),
		TargetOnly: isTargetOnly(err),
		Err:        fmt.Errorf("publish to %s: %w", topic, err),
	}
}
