package workflows

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

// EnsureArchiveSchedule creates the archive's schedule, or updates the times and the input
// of the existing one. It keeps a pause and the notes. cron is a cron expression or
// @daily and the like, in UTC.
func (c *Client) EnsureArchiveSchedule(ctx context.Context, cron string, in ArchiveInput) error {
	id := c.installationID(ArchiveScheduleID)
	spec := client.ScheduleSpec{CronExpressions: []string{cron}}
	action := &client.ScheduleWorkflowAction{
		ID: id, Workflow: ArchiveMessagesType, Args: []any{in}, TaskQueue: c.taskQueue,
		StaticSummary: "archive old dead letters",
	}
	_, err := c.temporal.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: id, Spec: spec, Action: action,
		// A run that is still active also archives the messages of the next one.
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
