package workflows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

func by(subject string, action dlq.Permission) *dlq.Operation {
	return &dlq.Operation{Subject: subject, Method: "token", Action: action}
}

// waitingJob is a bulk retry of ann that waits in its ramp.
func (s *system) waitingJob(t *testing.T) dlq.ID {
	t.Helper()
	id := dlq.NewID()
	bulk := dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, id), Lanes: 1}
	bulk.Spec.Kind, bulk.Spec.Topic, bulk.Spec.Ramp = dlq.KindRetry, s.topic(), &dlq.Ramp{Steps: []int{1}, Wait: time.Hour}
	created, err := s.store.CreateJob(t.Context(), by("ann", dlq.PermJobCreate), bulk)
	require.NoError(t, err)
	_, err = s.client.StartJob(t.Context(), nil, created)
	require.NoError(t, err)
	return id
}

// recorded are the operations on a job after the first n, the oldest first.
func (s *system) recorded(t *testing.T, job dlq.ID, n int) []dlq.Operation {
	t.Helper()
	page, err := s.store.Operations(t.Context(), dlq.OperationQuery{TargetID: job, PageSize: 100})
	require.NoError(t, err)
	var oldest []dlq.Operation
	for i := len(page.Entries) - 1 - n; i >= 0; i-- {
		oldest = append(oldest, page.Entries[i])
	}
	return oldest
}

// accept records a command as the API does before it sends it.
func (s *system) accept(t *testing.T, job dlq.ID, subject, command string) dlq.Operation {
	t.Helper()
	o := dlq.Operation{ID: dlq.NewID(), Subject: subject, Method: "token", Action: dlq.PermJobControl, Target: dlq.TargetJob, TargetID: job,
		Outcome: dlq.OperationAccepted, Detail: json.RawMessage(`{"command": "` + command + `"}`)}
	require.NoError(t, s.store.RecordOperation(t.Context(), o))
	return o
}

func requireOutside(t *testing.T, o *dlq.Operation, action dlq.Permission, outcome dlq.OperationOutcome) {
	t.Helper()
	require.Equal(t, []any{"outside the API", "temporal", action, outcome}, []any{o.Subject, o.Method, o.Action, o.Outcome})
}

func TestCommandsInTemporalAreRecordedAsFromOutside(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	job := s.waitingJob(t)
	for _, update := range []struct {
		name    string
		input   any
		command string
	}{
		{workflows.UpdatePause, workflows.PauseUpdate{Reason: "to look"}, `{"command": "pause"}`},
		{workflows.UpdateSetRate, 7, `{"command": "rate_limit"}`},
		{workflows.UpdateResume, nil, `{"command": "resume"}`},
	} {
		known := len(s.recorded(t, job, 0))
		args := []any{update.input}
		if update.input == nil {
			args = nil
		}
		require.NoError(t, s.ask(t, job, update.name, args...).Get(t.Context(), nil))
		rows := s.recorded(t, job, known)
		require.Len(t, rows, 1, update.name)
		requireOutside(t, &rows[0], dlq.PermJobControl, dlq.OperationDone)
		require.JSONEq(t, update.command, string(rows[0].Detail))
		require.Equal(t, update.name == workflows.UpdatePause, rows[0].Reason == "to look")
	}
	require.NoError(t, s.temporal.CancelWorkflow(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, job), ""))
	_, err := s.client.AwaitJob(t.Context(), retryOf(job))
	require.Error(t, err)
	rows := s.recorded(t, job, 4)
	require.Len(t, rows, 1)
	requireOutside(t, &rows[0], dlq.PermJobControl, dlq.OperationCancelled)
}

func TestCommandsOfTheAPIAreRecordedOnceForWhoeverAskedForThem(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	job := s.waitingJob(t)
	sent := func(command string) *dlq.Operation { return new(s.accept(t, job, "bob", command)) }
	require.NoError(t, s.client.SteerJob(t.Context(), sent(dlq.CommandPause), retryOf(job), toPause("to look")))
	require.NoError(t, s.client.SteerJob(t.Context(), sent(dlq.CommandRate), retryOf(job), toLimit(7)))
	require.NoError(t, s.client.SteerJob(t.Context(), sent(dlq.CommandResume), retryOf(job), toResume))
	require.Len(t, s.recorded(t, job, 0), 4, "its creation, and what the API has recorded")

	forged, err := s.temporal.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
		UpdateID: s.accept(t, job, "bob", dlq.CommandResume).ID.String(), WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, job),
		UpdateName: workflows.UpdatePause, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	require.NoError(t, err)
	require.NoError(t, forged.Get(t.Context(), nil))
	requireOutside(t, &s.recorded(t, job, 5)[0], dlq.PermJobControl, dlq.OperationDone)

	s.accept(t, job, "bob", dlq.CommandCancel)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(job), toCancel))
	_, err = s.client.AwaitJob(t.Context(), retryOf(job))
	require.Error(t, err)
	rows := s.recorded(t, job, 7)
	require.Len(t, rows, 1)
	require.Equal(t, []any{"bob", dlq.OperationCancelled}, []any{rows[0].Subject, rows[0].Outcome})
}

func TestJobsThatEndInTemporalNameNoCreator(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 5, 5)
	job := s.waitingJob(t)
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), workflows.JobWorkflowID(dlq.KindRetry, job), "", "by ops"))
	action := dlq.NewID() // a job whose workflow was never started
	_, err := s.store.CreateJob(t.Context(), by("ann", dlq.PermJobCreate), dlq.Job{ID: action, WorkflowID: workflows.JobWorkflowID(dlq.KindDead, action),
		Spec: dlq.JobSpec{Kind: dlq.KindDead, Filter: dlq.Filter{Topic: s.topic()}}})
	require.NoError(t, err)
	require.NoError(t, s.sweeper.Sweep(t.Context(), time.Now().Add(time.Minute)))
	requireOutside(t, &s.recorded(t, job, 1)[0], dlq.PermJobControl, dlq.OperationFailed)
	requireOutside(t, &s.recorded(t, action, 1)[0], dlq.PermJobControl, dlq.OperationFailed)
}
