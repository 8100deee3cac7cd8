package workflows

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Installation is the state of an installation in Temporal.
type Installation struct {
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
	// Pollers is how many workers poll the task queue. LastPoll is the time of the last poll of
	// any worker, or zero.
	Pollers   int
	LastPoll  time.Time
	TaskQueue string
}

// pollerAge is how old the last poll of a running worker may be. A poll waits a minute for a
// task. Temporal remembers the polls of a killed worker for five minutes.
const pollerAge = 90 * time.Second

// Installation asks Temporal about the namespace, the schedule and the task queue, and changes nothing.
func (c *Client) Installation(ctx context.Context) (s Installation, err error) {
	namespace := c.options.Namespace
	described, err := c.temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return s, toDomain(ctx, err)
	}
	s.Retention = described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()

	attributes, err := c.temporal.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	switch {
	case err == nil:
		for _, name := range SearchAttributes {
			if _, known := attributes.GetCustomAttributes()[name]; !known {
				s.MissingAttributes = append(s.MissingAttributes, name)
			}
		}
		s.AttributeCommand = CreateSearchAttributes(namespace)
	// Without the right to list the attributes, or on a server without this call, the attributes stay unknown.
	case !errors.As(err, new(*serviceerror.PermissionDenied)) && !errors.As(err, new(*serviceerror.Unimplemented)):
		return s, toDomain(ctx, err)
	}

	s.Schedule = c.archiveSchedule()
	schedule, err := c.temporal.ScheduleClient().GetHandle(ctx, s.Schedule).Describe(ctx)
	var missing *serviceerror.NotFound
	switch {
	case err == nil:
		s.ScheduleExists, s.SchedulePaused = true, schedule.Schedule.State.Paused
	case !errors.As(err, &missing):
		return s, toDomain(ctx, err)
	}

	s.TaskQueue = c.taskQueue
	var pollers []*taskqueuepb.PollerInfo
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		queue, err := c.temporal.DescribeTaskQueue(ctx, c.taskQueue, kind)
		if err != nil {
			return s, toDomain(ctx, err)
		}
		pollers = append(pollers, queue.GetPollers()...)
	}
	s.setPollers(pollers, time.Now())
	return s, nil
}

// setPollers counts the workers whose last poll is recent.
func (s *Installation) setPollers(pollers []*taskqueuepb.PollerInfo, now time.Time) {
	running := map[string]bool{}
	for _, poller := range pollers {
		polled := poller.GetLastAccessTime().AsTime()
		if polled.After(s.LastPoll) {
			s.LastPoll = polled
		}
		if now.Sub(polled) < pollerAge {
			running[poller.GetIdentity()] = true
		}
	}
	s.Pollers = len(running)
}
