package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"

	"dlqmanager/dev"
	"dlqmanager/dlq"
	"dlqmanager/internal/temporaltest"
	"dlqmanager/workflows"
)

func TestTheDevelopmentServerHasTheSearchAttributes(t *testing.T) {
	t.Parallel()
	require.Equal(t, workflows.SearchAttributes, dev.SearchAttributes)
}

// Somebody who looks at the workflow finds who asked for it, and the way back to the console and the API.
func TestAWorkflowIsFoundByTopicGroupAndActor(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	id := s.add(t, 1, 1)[0]
	m, err := s.store.Message(t.Context(), id)
	require.NoError(t, err)
	m.DLQTopic, m.GroupID = "orders_*.dlq", dlq.NewID()
	asked := &dlq.Operation{Subject: "ann", Reason: "see [here](https://evil.example)\n# now"}
	execution, err := s.client.StartRetryMessage(t.Context(), asked, &m, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	_, err = s.client.AwaitRetryMessage(t.Context(), execution)
	require.NoError(t, err)

	described, err := s.temporal.DescribeWorkflowExecution(t.Context(), execution.WorkflowID, execution.RunID)
	require.NoError(t, err)
	found := map[string]string{}
	for name, payload := range described.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields() {
		var value string
		if converter.GetDefaultDataConverter().FromPayload(payload, &value) == nil {
			found[name] = value
		}
	}
	require.Subset(t, found, map[string]string{"DlqTopic": "orders_*.dlq", "DlqGroup": m.GroupID.String(), "DlqActor": "ann"})

	var details string
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(described.GetExecutionConfig().GetUserMetadata().GetDetails(), &details))
	require.Contains(t, details, `[Topic](https://dlq.test/console/topics/orders_%2A.dlq) orders\_\*.dlq`)
	require.Contains(t, details, "[Group](https://dlq.test/console/groups/"+m.GroupID.String()+")")
	require.Contains(t, details, "[In the console](https://dlq.test/console/messages/"+id.String()+")")
	require.Contains(t, details, "[In the API](https://dlq.test/api/v1/dlq/messages/"+id.String()+")")
	require.Contains(t, details, " · asked for by ann")
	require.Contains(t, details, `Reason: see \[here\]\(https://evil.example\) # now`, "a reason is shown as it is")
}

// A namespace that does not know the search attributes gets the workflows without them, and the
// log says what to do.
func TestWorkflowsStartWithoutSearchAttributesThatTheNamespaceDoesNotKnow(t *testing.T) {
	t.Parallel()
	const namespace = "without-attributes"
	connection := temporaltest.Client(t)
	_, err := connection.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	other := temporaltest.Client(t, func(o *client.Options) { o.Namespace = namespace })
	core, logs := observer.New(zap.InfoLevel)
	c := workflows.NewClient(other, temporaltest.TaskQueue(t), workflows.ClientOptions{Namespace: namespace, Log: zap.New(core)})
	for range 2 {
		id := dlq.NewID()
		require.Eventually(t, func() bool { // the server finds a new namespace within seconds
			_, err = c.StartRetryMessage(t.Context(), nil, &dlq.Message{DLQTopic: "orders.dlq"}, workflows.RetryMessageInput{MessageID: id})
			return err == nil
		}, 30*time.Second, 50*time.Millisecond)
	}
	warnings := logs.FilterLevelExact(zap.WarnLevel).All()
	require.Len(t, warnings, 1, "each start is not sent twice")
	require.Contains(t, warnings[0].Message, "temporal operator search-attribute create --namespace without-attributes"+
		" --name DlqTopic --type Keyword --name DlqGroup --type Keyword --name DlqActor --type Keyword")
}

// The form of the Web UI sends any JSON, or nothing.
func TestTheUpdatesTakeWhatTheFormOfTheWebUISends(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.add(t, 500, 1)
	job := s.startAll(t, func(b *dlq.JobSpec) { b.RateLimit = 1 })
	send := func(update string, input ...any) (dlq.Job, error) {
		var b dlq.Job
		handle, err := s.temporal.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, job), UpdateName: update, Args: input, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err == nil {
			err = handle.Get(t.Context(), &b)
		}
		return b, err
	}
	b, err := send("pause")
	require.NoError(t, err)
	require.Equal(t, dlq.JobPaused, b.State)
	b, err = send("pause", "the broker is slow")
	require.NoError(t, err)
	require.Equal(t, "the broker is slow", b.Reason)
	b, err = send("pause", map[string]any{"reason": "again"})
	require.NoError(t, err)
	require.Equal(t, "again", b.Reason)
	b, err = send("pause", "not\x00storable")
	require.NoError(t, err, "it is answered")
	require.Equal(t, "not\u2400storable", b.Reason)
	_, err = send("pause", strings.Repeat("é", 1001))
	require.ErrorContains(t, err, "at most 1000 characters")
	_, err = send("pause", strings.Repeat("é", 1000))
	require.NoError(t, err)

	for _, input := range [][]any{nil, {map[string]any{}}, {nil}, {-1}, {map[string]any{"per_second": -5}}, {map[string]any{"per_second": 2_000_000}}} {
		_, err = send("set_rate", input...)
		require.ErrorContains(t, err, `such as {"per_second": 100}`, "%v", input)
	}
	for _, input := range []any{7, map[string]any{"per_second": 7}} {
		b, err = send("set_rate", input)
		require.NoError(t, err)
		require.Equal(t, 7, b.Spec.RateLimit)
	}
	b, err = send("resume")
	require.NoError(t, err)
	require.Equal(t, dlq.JobRunning, b.State)
}
