package workflows_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"dlqmanager/dlq"
	"dlqmanager/telemetry"
	"dlqmanager/workflows"
)

var record = flag.Bool("record", false, "record the histories that TestWorkflowsReplay replays")

const histories = "testdata"

// TestWorkflowsReplay replays recorded histories with the current workflows. It fails when
// a change would break running workflows. After the first release, such a change needs workflow.GetVersion, and new
// histories beside the old histories. Before the first release, delete the old histories and record new histories with
// -record.
func TestWorkflowsReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(histories, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))

			// The histories were recorded without traces.
			tracing, err := telemetry.NewTemporalTracing(sdktrace.NewTracerProvider())
			require.NoError(t, err)
			traced, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: []interceptor.WorkerInterceptor{tracing}})
			require.NoError(t, err)
			workflows.Register(traced)
			require.NoError(t, traced.ReplayWorkflowHistoryFromJSONFile(nil, file), "with traces")
		})
	}
}

// TestEveryWayThroughTheWorkflowsReplays runs each path through the workflows and replays
// it. With -record it also writes the histories to testdata.
func TestEveryWayThroughTheWorkflowsReplays(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	retryThat := func(answer func(dlq.Envelope) error) workflows.Execution {
		s.target.answers(answer)
		execution, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: s.add(t, 1, 1)[0]})
		require.NoError(t, err)
		return execution
	}
	throttled := 0
	refuseAs := func(category dlq.Category) func(dlq.Envelope) error {
		return func(dlq.Envelope) error { return refuse(category) }
	}
	s.replay(t, "retry_message_resolved_with_offset", retryThat(nil))
	s.replay(t, "retry_message_refused", retryThat(refuseAs(dlq.CategoryAuth)))
	s.replay(t, "retry_message_rejected", retryThat(refuseAs(dlq.CategoryBadData)))
	s.replay(t, "retry_message_throttled_with_offset", retryThat(func(dlq.Envelope) error {
		if throttled++; throttled == 1 {
			return &dlq.DeliveryError{Category: dlq.CategoryRateLimit, RetryAfter: time.Second, Err: refuse(dlq.CategoryRateLimit)}
		}
		return nil
	}))
	cancelled := retryThat(refuseAs(dlq.CategoryRateLimit))
	eventually(t, "it waits", func() bool { return s.waitsForTimer(t, cancelled) })
	require.NoError(t, s.temporal.CancelWorkflow(t.Context(), cancelled.WorkflowID, cancelled.RunID))
	s.replay(t, "retry_message_cancelled", cancelled)

	unknown, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: dlq.NewID()})
	require.NoError(t, err)
	s.replay(t, "retry_message_unknown", unknown)

	s.target.answers(nil)
	redirected, err := s.client.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: s.add(t, 1, 1)[0], TargetTopic: "orders.retry"})
	require.NoError(t, err)
	s.replay(t, "retry_message_redirected", redirected)

	s.add(t, 300, 300)
	s.replay(t, "retry_all_completed", execution(s.startAll(t)))
	s.add(t, 300, 300)
	s.target.slowly(100 * time.Millisecond)
	stopped := s.startAll(t)
	eventually(t, "it has claimed", func() bool { return s.statuses(t)[dlq.StatusRetrying] > 0 })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(stopped), toCancel))
	s.replay(t, "retry_all_cancelled", execution(stopped))

	s.add(t, 300, 300)
	s.target.slowly(0)
	s.target.answers(refuseAs(dlq.CategoryTransient))
	refused := s.startAll(t)
	eventually(t, "it pauses itself", func() bool { return s.state(refused) == dlq.JobPaused })
	s.target.answers(nil)
	s.replay(t, "retry_all_refused", execution(refused))

	s.add(t, 300, 300)
	ramped := s.startAll(t, func(spec *dlq.JobSpec) { spec.Ramp = &dlq.Ramp{Steps: []int{1, 10}, Wait: 200 * time.Millisecond} })
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(ramped), toPause("to look")))
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(ramped), toLimit(10_000)))
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(ramped), toResume))
	s.replay(t, "retry_all_ramp_pause_checked_resumed", execution(ramped))

	s.add(t, 1_000, 100)
	release := s.hang(t, nil)
	hung := s.startAll(t)
	eventually(t, "every lane hangs", func() bool { return s.statuses(t)[dlq.StatusRetrying] == 4*dlq.PageSize })
	paused := s.askToPause(t, hung, "the broker hangs")
	s.stops(t, hung, dlq.JobPausing)
	release()
	require.NoError(t, paused.Get(t.Context(), nil))
	s.target.answers(nil)
	require.NoError(t, s.client.SteerJob(t.Context(), nil, retryOf(hung), toResume))
	s.replay(t, "retry_all_paused_while_hanging", execution(hung))

	s.replay(t, "archive", s.archive(t))
	s.replayActions(t)
}

// replayActions runs the paths of bulk changes.
func (s *system) replayActions(t *testing.T) {
	t.Helper()
	of := func(job dlq.ID) workflows.Execution {
		return workflows.Execution{WorkflowID: workflows.JobWorkflowID(dlq.KindDead, job)}
	}
	s.replay(t, "change_all_completed", of(s.startAction(t, dlq.KindDead)))

	stopped := s.createAction(t, dlq.KindRevive)
	_, err := s.store.StopJob(t.Context(), nil, stopped.ID, dlq.JobCancelling, "stopped before its workflow began")
	require.NoError(t, err)
	_, err = s.client.StartJob(t.Context(), nil, stopped)
	require.NoError(t, err)
	s.replay(t, "change_all_stopped", of(stopped.ID))

	closed := s.createAction(t, dlq.KindDelete)
	_, err = s.store.EndJob(t.Context(), nil, closed.ID, dlq.JobFailed, workflows.GoneReason)
	require.NoError(t, err)
	_, err = s.client.StartJob(t.Context(), nil, closed)
	require.NoError(t, err)
	s.replay(t, "change_all_closed", of(closed.ID))
}

func (s *system) waitsForTimer(t *testing.T, e workflows.Execution) bool {
	t.Helper()
	for _, event := range s.history(t, e, false).GetEvents() {
		if event.GetEventType() == enumspb.EVENT_TYPE_TIMER_STARTED {
			return true
		}
	}
	return false
}

// history reads all events. If toTheEnd is set, it first waits for the last event.
func (s *system) history(t *testing.T, e workflows.Execution, toTheEnd bool) *historypb.History {
	t.Helper()
	if toTheEnd {
		_ = s.temporal.GetWorkflow(t.Context(), e.WorkflowID, e.RunID).Get(t.Context(), nil)
	}
	history := &historypb.History{}
	events := s.temporal.GetWorkflowHistory(t.Context(), e.WorkflowID, e.RunID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		history.Events = append(history.Events, event)
	}
	return history
}

// replays waits for the end of a workflow and replays it.
func (s *system) replays(t *testing.T, name string, e workflows.Execution) *historypb.History {
	t.Helper()
	history := s.history(t, e, true)
	replayer := worker.NewWorkflowReplayer()
	workflows.Register(replayer)
	require.NoError(t, replayer.ReplayWorkflowHistory(nil, history), name)
	return history
}

// replay does the same as replays, and with -record also writes the history.
func (s *system) replay(t *testing.T, name string, e workflows.Execution) {
	t.Helper()
	history := s.replays(t, name, e)
	if !*record {
		return
	}
	data, err := protojson.MarshalOptions{Multiline: true}.Marshal(history)
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	data = bytes.ReplaceAll(data, []byte(host), []byte("worker")) // no host name in the repository
	require.NoError(t, os.MkdirAll(histories, 0o755))
	// Only missing files are written. A recorded history is kept, since workflows like it
	// may be running somewhere.
	file, err := os.OpenFile(filepath.Join(histories, name+".json"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return
	}
	require.NoError(t, err)
	_, err = file.Write(append(data, '\n'))
	require.NoError(t, errors.Join(err, file.Close()))
}
