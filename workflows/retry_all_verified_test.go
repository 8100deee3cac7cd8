package workflows_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
)

// verifyingStore is a store whose watermarks are those of the test.
type verifyingStore struct {
	*postgres.Store
	counts atomic.Pointer[dlq.Verifications]
	asked  atomic.Int64
}

func (s *verifyingStore) VerifyJob(context.Context, dlq.ID) (dlq.Verifications, error) {
	defer s.asked.Add(1)
	return *s.counts.Load(), nil
}

var _ activities.JobStore = (*verifyingStore)(nil)

func startVerifying(t *testing.T, counts *dlq.Verifications) (*system, *verifyingStore, dlq.ID) {
	t.Helper()
	s := startlessSystem(t)
	store := &verifyingStore{Store: s.store}
	store.counts.Store(counts)
	s.jobs = store
	s.start(t)
	s.add(t, 100, 100)
	return s, store, s.startAll(t, func(spec *dlq.JobSpec) {
		spec.Ramp = &dlq.Ramp{Steps: []int{10}, Wait: 50 * time.Millisecond, MaxCameBack: 1, Confirm: dlq.ConfirmVerified}
	})
}

func TestRampWaitsUntilWhatItHasSentIsVerified(t *testing.T) {
	t.Parallel()
	s, store, job := startVerifying(t, &dlq.Verifications{Yes: 8, No: 2, CameBack: 1})
	eventually(t, "it has looked twice", func() bool { return store.asked.Load() >= 2 })
	require.Equal(t, 10, s.target.count())
	require.Equal(t, dlq.JobRunning, s.state(job))
	store.counts.Store(&dlq.Verifications{Yes: 9, No: 1, CameBack: 1})
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(100), result.Job.Counts.Retried)
	s.replay(t, "retry_all_ramp_verified", execution(job))
}

func TestRampPausesWhenNobodyKnowsWhetherItIsVerified(t *testing.T) {
	t.Parallel()
	s, _, job := startVerifying(t, &dlq.Verifications{Yes: 7, Unknown: 3, Reasons: map[dlq.VerifiedReason]int64{dlq.ReasonNoGroup: 2, dlq.ReasonRetryTopics: 1}})
	eventually(t, "it pauses itself", func() bool { return s.state(job) == dlq.JobPaused })
	require.Equal(t, 10, s.target.count())
	require.Contains(t, s.bulk(t, job).Reason, "step 1 of the ramp: retry_topics (1 messages), no_group (2 messages)")
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(100), result.Job.Counts.Retried)
	s.replay(t, "retry_all_ramp_unverified", execution(job))
}

func TestAnOperatorPausesAJobThatWaitsUntilItIsVerified(t *testing.T) {
	t.Parallel()
	s, store, job := startVerifying(t, &dlq.Verifications{No: 10})
	eventually(t, "it waits", func() bool { return store.asked.Load() >= 1 })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toPause("lunch")))
	require.Equal(t, "lunch", s.bulk(t, job).Reason)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toResume))
	store.counts.Store(&dlq.Verifications{Yes: 10})
	result, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.NoError(t, err)
	require.Equal(t, int64(100), result.Job.Counts.Retried)
}
