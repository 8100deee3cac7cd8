package workflows

import (
	"context"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// Survey is what Temporal knows of an installation.
type Survey struct {
	// Retention is how long the namespace keeps the histories of workflows that have ended.
	Retention time.Duration
	// MissingAttributes are search attributes that the namespace does not have, and
	// AttributeCommand creates them.
	MissingAttributes []string
	AttributeCommand  string
	// Schedule is the id of the archive's schedule.
	Schedule       string
	ScheduleExists bool
	SchedulePaused bool
	// Pollers are the workers that poll the task queue.
	Pollers   []string
	TaskQueue string
}

// Survey asks Temporal about the namespace, the schedule and the task queue. It changes nothing.
func (c *Client) Survey(ctx context.Context) (s Survey, err error) {
	namespace := c.options.Namespace
	described, err := c.temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return s, toDomain(ctx, err)
	}
	s.Retention = described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()

	attributes, err := c.temporal.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err == nil { // the user may have no right to it
		for _, name := range SearchAttributes {
			if _, known := attributes.GetCustomAttributes()[name]; !known {
				s.MissingAttributes = append(s.MissingAttributes, name)
			}
		}
		s.AttributeCommand = CreateSearchAttributes(namespace)
	}

	s.Schedule = c.installationID(ArchiveScheduleID)
	schedule, err := c.temporal.ScheduleClient().GetHandle(ctx, s.Schedule).Describe(ctx)
	var missing *serviceerror.NotFound
	switch {
	case err == nil:
		s.ScheduleExists, s.SchedulePaused = true, schedule.Schedule.State.Paused
	case !errors.As(err, &missing):
		return s, toDomain(ctx, err)
	}

	s.TaskQueue = c.taskQueue
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		queue, err := c.temporal.DescribeTaskQueue(ctx, c.taskQueue, kind)
		if err != nil {
			return s, toDomain(ctx, err)
		}
		for _, poller := range queue.GetPollers() {
			s.Pollers = append(s.Pollers, poller.GetIdentity())
		}
	}
	slices.Sort(s.Pollers)
	s.Pollers = slices.Compact(s.Pollers)
	return s, nil
}
