package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func TestARedirectedMessageGoesToItsTargetAndNoOther(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	publishing, goOn := make(chan struct{}), make(chan struct{})
	s.target.answers(func(dlq.Envelope) error { close(publishing); <-goOn; return nil })
	in := workflows.RetryMessageInput{MessageID: id, TargetTopic: "orders.retry"}
	first, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, in)
	require.NoError(t, err)
	<-publishing
	joined, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, in)
	require.NoError(t, err)
	require.Equal(t, first.RunID, joined.RunID)
	for _, other := range []string{"", "orders.other"} {
		_, err = s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id, TargetTopic: other})
		require.ErrorAs(t, err, new(*dlq.NotRetryableError), other)
		require.ErrorContains(t, err, "is sending it to orders.retry")
	}
	close(goOn)
	result, err := s.client.AwaitRetryMessage(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, dlq.StatusResolved, result.Status)
	require.Equal(t, "orders.retry", s.target.taken[0].Target())
	require.Equal(t, 1, s.target.count())
}

func TestARedirectDoesNotJoinARetryToTheOriginalTopic(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	publishing, goOn := make(chan struct{}), make(chan struct{})
	s.target.answers(func(dlq.Envelope) error { close(publishing); <-goOn; return nil })
	first, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	<-publishing
	_, err = s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id, TargetTopic: "orders.retry"})
	require.ErrorContains(t, err, "is sending it to its original topic")
	close(goOn)
	_, err = s.client.AwaitRetryMessage(t.Context(), first)
	require.NoError(t, err)
}

func TestABulkRetrySendsToItsTargetOrFailsWithTheReason(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ids := s.add(t, 3, 1)
	job := s.startAll(t, func(spec *dlq.JobSpec) { spec.TargetTopic = "orders.dlq" })
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.ErrorIs(t, err, workflows.ErrStopped)
	failed := s.bulk(t, job)
	require.Equal(t, dlq.JobFailed, failed.State)
	require.Contains(t, failed.Reason, "is a dead-letter topic")
	require.Zero(t, s.target.count())
	require.Zero(t, s.message(t, ids[0]).RetryCount)

	job = s.startAll(t, func(spec *dlq.JobSpec) { spec.TargetTopic = "orders.retry" })
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.EqualValues(t, 3, result.Job.Counts.Retried)
	for _, e := range s.target.taken {
		require.Equal(t, "orders.retry", e.Target())
	}
}
