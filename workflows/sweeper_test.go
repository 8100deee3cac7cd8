package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// impossible are owners whose ids cannot be workflow ids.
var impossible = map[string]dlq.Owner{
	"nobody":            {},
	"no workflow":       {Token: "t"},
	"no token":          {WorkflowID: "w"},
	"too long":          {WorkflowID: strings.Repeat("w", 5_000), Token: "t"},
	"far too long":      {WorkflowID: strings.Repeat("w", 8<<20), Token: "t"},
	"not UTF-8":         {WorkflowID: "\xff\xfe", Token: "t"},
	"control character": {WorkflowID: "\x01\n", Token: "t"},
	"not ASCII":         {WorkflowID: "再試行", Token: "t"},
	"never heard of":    {WorkflowID: "retry-message-x", Token: "t"},
}

func TestAnImpossibleOwnerIsGone(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	for name, owner := range impossible {
		running, err := s.client.IsRunning(t.Context(), owner)
		require.NoError(t, err, name)
		require.False(t, running, name)
	}
}

// sweepable is a store whose calls may fail for some owners.
type sweepable struct {
	owners, jobs     []dlq.Owner
	listing          error
	broken           map[string]error
	released         []string
	ended            []dlq.ID
	folded           bool
	foldError        error
	due              int
	opened, recorded bool
	openError        error
}

func (s *sweepable) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (s *sweepable) Owners(context.Context, time.Time) ([]dlq.Owner, error) {
	return s.owners, s.listing
}

func (s *sweepable) JobOwners(context.Context, time.Time) ([]dlq.Owner, error) {
	return s.jobs, s.listing
}

func (s *sweepable) Release(_ context.Context, owner dlq.Owner, _ string) (int64, error) {
	if err := s.broken[owner.WorkflowID]; err != nil {
		return 0, err
	}
	s.released = append(s.released, owner.WorkflowID)
	return 1, nil
}

func (s *sweepable) EndJob(_ context.Context, _ *dlq.Operation, id dlq.ID, _ dlq.JobState, _ string) (dlq.Job, error) {
	if err := s.broken[id.String()]; err != nil {
		return dlq.Job{}, err
	}
	s.ended = append(s.ended, id)
	return dlq.Job{}, nil
}

func (s *sweepable) FoldCounts(context.Context) error {
	s.folded = true
	return s.foldError
}

func (s *sweepable) SampleJobs(context.Context) error { return nil }

func (s *sweepable) RecordArchiveRuns(_ context.Context, runID string) error {
	if runID != "" {
		return errors.New("a sweep ends no run")
	}
	s.recorded = true
	return nil
}

// OpenHeldGroups requires that the counts are up to date.
func (s *sweepable) OpenHeldGroups(ctx context.Context) (int, error) {
	if _, limited := ctx.Deadline(); !limited || !s.folded {
		return 0, errors.New("without a deadline, or before the counts were added up")
	}
	s.opened = true
	return s.due, s.openError
}

// runningOwners tells whether the workflow of an owner is running, or fails. Every call
// must have a deadline.
type runningOwners struct {
	t       *testing.T
	unknown map[string]error
	lives   map[string]bool
}

func (j *runningOwners) IsRunning(ctx context.Context, owner dlq.Owner) (bool, error) {
	_, limited := ctx.Deadline()
	require.True(j.t, limited)
	return j.lives[owner.WorkflowID], j.unknown[owner.WorkflowID]
}

func TestAFailureForOneOwnerDoesNotStopTheSweepOfTheOthers(t *testing.T) {
	t.Parallel()
	unavailable := errors.New("a shard of Temporal is unavailable")
	locked := errors.New("the row is locked")
	jobs := []dlq.ID{dlq.NewID(), dlq.NewID(), dlq.NewID()}
	store := &sweepable{broken: map[string]error{"b": locked, jobs[1].String(): locked}}
	for _, id := range []string{"", "a", "b", "c", "d"} {
		store.owners = append(store.owners, dlq.Owner{WorkflowID: id, Token: "t"})
	}
	for _, id := range jobs {
		store.jobs = append(store.jobs, dlq.Owner{WorkflowID: "job-" + id.String(), Token: id.String()})
	}
	store.jobs = append([]dlq.Owner{{WorkflowID: "unknown", Token: dlq.NewID().String()}}, store.jobs...)
	store.jobs = append(store.jobs, dlq.Owner{WorkflowID: "d", Token: dlq.NewID().String()})
	sweeper := &workflows.Sweeper{Store: store, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop(),
		Owners: &runningOwners{t: t, unknown: map[string]error{"a": unavailable, "unknown": unavailable}, lives: map[string]bool{"d": true}}}
	err := sweeper.Sweep(t.Context(), time.Now())
	require.ErrorIs(t, err, unavailable)
	require.ErrorIs(t, err, locked)
	require.Equal(t, []string{"", "c"}, store.released)
	require.Equal(t, []dlq.ID{jobs[0], jobs[2]}, store.ended)
	require.True(t, store.folded)
}

func TestASweepTellsWhenTheCountsWereAddedUp(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	store := &sweepable{foldError: errors.New("the disk is full")}
	sweeper := &workflows.Sweeper{Store: store, Owners: &runningOwners{t: t}, Metrics: activities.NewMetrics(registry), Log: zap.NewNop()}
	folded := func() float64 {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, family := range families {
			if family.GetName() == "dlq_counts_folded_timestamp_seconds" {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return 0
	}
	started := folded()
	require.ErrorIs(t, sweeper.Sweep(t.Context(), time.Now()), store.foldError)
	require.InDelta(t, started, folded(), 0)
	store.foldError = nil
	require.NoError(t, sweeper.Sweep(t.Context(), time.Now()))
	require.Greater(t, folded(), started)
}

func TestASweepReportsAFewOfManyFailures(t *testing.T) {
	t.Parallel()
	unavailable := errors.New("unavailable")
	store, owners := &sweepable{}, &runningOwners{t: t, unknown: map[string]error{}}
	for range 1000 {
		id := dlq.NewID().String()
		store.owners = append(store.owners, dlq.Owner{WorkflowID: id, Token: "t"})
		owners.unknown[id] = unavailable
	}
	sweeper := &workflows.Sweeper{Store: store, Owners: owners, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
	err := sweeper.Sweep(t.Context(), time.Now())
	require.ErrorIs(t, err, unavailable)
	require.Contains(t, err.Error(), "and 995 more")
}

func TestASweepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := &sweepable{owners: []dlq.Owner{{WorkflowID: "a", Token: "t"}}}
	sweeper := &workflows.Sweeper{Store: store, Owners: &runningOwners{t: t}, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop()}
	require.ErrorIs(t, sweeper.Sweep(ctx, time.Now()), context.Canceled)
	require.Empty(t, store.released)
}

func TestTheSweeperOpensHeldGroups(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	for _, due := range []int{0, 3} {
		store := &sweepable{due: due}
		sweeper := &workflows.Sweeper{Store: store, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.New(core), Owners: &runningOwners{t: t}}
		require.NoError(t, sweeper.Sweep(t.Context(), time.Now()))
		require.True(t, store.opened && store.recorded)
	}
	require.Equal(t, 1, logs.Len(), "nothing is logged when no group opens")
	require.EqualValues(t, 3, logs.All()[0].ContextMap()["groups"])

	blocked := errors.New("the row is locked")
	gone := dlq.Owner{WorkflowID: "gone", Token: "t"}
	store := &sweepable{openError: blocked, owners: []dlq.Owner{gone}}
	sweeper := &workflows.Sweeper{Store: store, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop(), Owners: &runningOwners{t: t}}
	require.ErrorIs(t, sweeper.Sweep(t.Context(), time.Now()), blocked)
	require.Equal(t, []string{"gone"}, store.released, "the other steps are done nevertheless")
}

// hanging is a store whose clock does not answer, and that cannot be sampled either.
type hanging struct{ sweepable }

func (*hanging) Now(ctx context.Context) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (*hanging) SampleJobs(ctx context.Context) error {
	if _, limited := ctx.Deadline(); !limited {
		return errors.New("without a deadline")
	}
	return errors.New("the disk is full")
}

func TestJobsAreSampledWhileASweepHangs(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	ctx, cancel := context.WithCancel(t.Context())
	log := zap.New(core, zap.Hooks(func(zapcore.Entry) error { cancel(); return nil }))
	sweeper := &workflows.Sweeper{Store: &hanging{}, Owners: &runningOwners{t: t}, Metrics: activities.NewMetrics(prometheus.NewRegistry()), Log: log}
	sweeper.Run(ctx)
	require.Equal(t, 1, logs.Len())
	require.Equal(t, "could not note the counts of running jobs; trying again", logs.All()[0].Message)
	require.Equal(t, "the disk is full", logs.All()[0].ContextMap()["error"])
}
