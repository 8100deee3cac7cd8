package workflows

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"dlqmanager/dlq"
)

// EnsureArchiveSchedule creates the archive's schedule, or updates the times and the action of the
// existing schedule. A pause and the notes stay. cron is a cron expression in UTC, or a name such as @daily.
func (c *Client) EnsureArchiveSchedule(ctx context.Context, cron string) error {
	id := c.archiveSchedule()
	spec := client.ScheduleSpec{CronExpressions: []string{cron}}
	action := &client.ScheduleWorkflowAction{
		ID: id, Workflow: ArchiveMessagesType, TaskQueue: c.taskQueue,
		StaticSummary: "archive old dead letters",
	}
	_, err := c.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: id, Spec: spec, Action: action,
		// A run that is still active also archives the messages of the next run.
		Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
	})
	if err == nil {
		return nil
	}
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return fmt.Errorf("create schedule %s: %w", id, toDomain(ctx, err))
	}
	err = c.temporal.ScheduleClient().GetHandle(ctx, id).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(current client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			schedule := current.Description.Schedule
			schedule.Spec, schedule.Action = &spec, action
			return &client.ScheduleUpdate{Schedule: &schedule}, nil
		},
	})
	if err != nil {
		return fmt.Errorf("update schedule %s: %w", id, toDomain(ctx, err))
	}
	return nil
}

// TriggerArchive starts a run of the archive's schedule now, and returns the schedule. The server skips the run
// while another run is active.
func (c *Client) TriggerArchive(ctx context.Context) (schedule string, err error) {
	id := c.archiveSchedule()
	if err := c.temporal.ScheduleClient().GetHandle(ctx, id).Trigger(ctx, client.ScheduleTriggerOptions{}); err != nil {
		return "", fmt.Errorf("trigger schedule %s: %w", id, toDomain(ctx, err))
	}
	return id, nil
}

// ArchiveRun is the newest run that the archive's schedule has started. Without a run, Started
// is when the schedule was created.
type ArchiveRun struct {
	Started         time.Time
	Running, Failed bool
	// Interval is the longest time between the next starts of the schedule; 0 with fewer than two starts.
	Interval time.Duration
}

// LastArchiveRun asks Temporal for the newest run of the archive.
func (c *Client) LastArchiveRun(ctx context.Context) (run ArchiveRun, err error) {
	id := c.archiveSchedule()
	schedule, err := c.temporal.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
	if err != nil {
		return ArchiveRun{}, fmt.Errorf("describe schedule %s: %w", id, toDomain(ctx, err))
	}
	next := schedule.Info.NextActionTimes
	for i := 1; i < len(next); i++ {
		run.Interval = max(run.Interval, next[i].Sub(next[i-1]))
	}
	actions := schedule.Info.RecentActions
	if len(actions) == 0 {
		run.Started = schedule.Info.CreatedAt
		return run, nil
	}
	last := actions[len(actions)-1]
	run.Started = last.ActualTime
	if last.StartWorkflowResult == nil {
		return run, nil
	}
	workflow, err := c.temporal.DescribeWorkflowExecution(ctx, last.StartWorkflowResult.WorkflowID, "")
	if err != nil { // Temporal deletes ended workflows after a while
		err = toDomain(ctx, err)
		if errors.Is(err, dlq.ErrNotFound) {
			err = nil
		}
		return run, err
	}
	status := workflow.GetWorkflowExecutionInfo().GetStatus()
	run.Running = status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	run.Failed = status == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED || status == enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED ||
		status == enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
	return run, nil
}
