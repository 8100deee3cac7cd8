package kafka

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestOnlyErrorsAboutOneTopicLeaveOtherTargetsOpen(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
	} {
		require.True(t, deliveryError("orders", err).TargetOnly, err.Error())
		require.True(t, deliveryError("orders", fmt.Errorf("wrapped: %w", err)).TargetOnly, err.Error())
	}
	for _, err := range []error{
		kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.TransactionalIDAuthorizationFailed,
		kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.ThrottlingQuotaExceeded,
		kerr.UnknownServerError, kerr.PolicyViolation, kerr.MessageTooLarge,
		kgo.ErrRecordTimeout, kgo.ErrRecordRetries, kgo.ErrClientClosed, context.DeadlineExceeded, context.Canceled,
		io.EOF, &net.OpError{Op: "dial", Err: io.EOF},
	} {
		require.False(t, deliveryError("orders", err).TargetOnly, err.Error())
	}
}

func TestTimeoutExplainedByAConnectionIsNotAboutOneTopic(t *testing.T) {
	t.Parallel()
	c := &connectionFailures{}
	began := time.Now()
	c.OnBrokerConnect(kgo.BrokerMetadata{}, 0, nil, kerr.SaslAuthenticationFailed)
	err := c.explain(kgo.ErrRecordTimeout, began)
	require.ErrorIs(t, err, kerr.SaslAuthenticationFailed)
	require.False(t, deliveryError("orders", err).TargetOnly)
}
