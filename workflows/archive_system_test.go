package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func (s *system) archive(t *testing.T) workflows.Execution {
	t.Helper()
	run, err := s.temporal.ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: s.queue + "-archive", TaskQueue: s.queue}, workflows.ArchiveMessagesType)
	require.NoError(t, err)
	return workflows.Execution{WorkflowID: run.GetID(), RunID: run.GetRunID()}
}

func TestArchiveMovesWhatHasEndedAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 25, 25)
	_, err := s.client.AwaitJob(t.Context(), retryOf(s.startAll(t)))
	require.NoError(t, err)
	s.add(t, 5, 5)
	e := s.archive(t)
	var result workflows.ArchiveResult
	require.NoError(t, s.temporal.GetWorkflow(t.Context(), e.WorkflowID, e.RunID).Get(t.Context(), &result))
	require.Equal(t, workflows.ArchiveResult{Archived: 25}, result)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 5}, s.statuses(t))
}

func TestArchiveScheduleIsCreatedOnceAndKeptUpToDate(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	require.NoError(t, s.client.EnsureArchiveSchedule(t.Context(), "@daily"))
	handle := s.temporal.ScheduleClient().GetHandle(t.Context(), s.queue+"/"+workflows.ArchiveScheduleID)
	t.Cleanup(func() { _ = handle.Delete(context.Background()) })
	require.NoError(t, handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "by ops"}))

	require.NoError(t, s.client.EnsureArchiveSchedule(t.Context(), "30 4 * * *"))
	described, err := handle.Describe(t.Context())
	require.NoError(t, err)
	require.True(t, described.Schedule.State.Paused, "what ops decided stays")
	require.Equal(t, "by ops", described.Schedule.State.Note)
	require.Len(t, described.Info.NextActionTimes, 10)
	require.Equal(t, "04:30", described.Info.NextActionTimes[0].UTC().Format("15:04"))
}

func TestARunOfTheArchiveNeedsTheSchedule(t *testing.T) {
	t.Parallel()
	_, err := startlessSystem(t).client.TriggerArchive(t.Context())
	require.ErrorIs(t, err, dlq.ErrNotFound)
}

func TestTheLastRunOfTheArchiveIsKnown(t *testing.T) {
	t.Parallel()
	s := startlessSystem(t)
	require.NoError(t, s.client.EnsureArchiveSchedule(t.Context(), "@yearly"))
	handle := s.temporal.ScheduleClient().GetHandle(t.Context(), s.queue+"/"+workflows.ArchiveScheduleID)
	t.Cleanup(func() { _ = handle.Delete(context.Background()) })
	run, err := s.client.LastArchiveRun(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), run.Started, time.Minute, "without a run it is when the schedule was created")
	require.False(t, run.Running)
	require.Equal(t, 366*24*time.Hour, run.Interval, "a leap year is among the next ten")
	require.NoError(t, handle.Pause(t.Context(), client.SchedulePauseOptions{}))
	run, err = s.client.LastArchiveRun(t.Context())
	require.NoError(t, err)
	require.Equal(t, 366*24*time.Hour, run.Interval, "a pause leaves it")
	require.NoError(t, handle.Unpause(t.Context(), client.ScheduleUnpauseOptions{}))

	schedule, err := s.client.TriggerArchive(t.Context())
	require.NoError(t, err)
	require.Equal(t, handle.GetID(), schedule)
	require.Eventually(t, func() bool {
		run, err = s.client.LastArchiveRun(t.Context())
		return err == nil && run.Running
	}, time.Minute, 50*time.Millisecond)
	described, err := handle.Describe(t.Context())
	require.NoError(t, err)
	id := described.Info.RecentActions[0].StartWorkflowResult.WorkflowID
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), id, "", "by ops"))
	require.Eventually(t, func() bool {
		run, err = s.client.LastArchiveRun(t.Context())
		return err == nil && run.Failed && !run.Running
	}, time.Minute, 50*time.Millisecond)
}
