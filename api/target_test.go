package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/workflows"
)

// knownTopics are the topics that exist. It is also an error, which stands for an unavailable Kafka.
type knownTopics map[string]bool

func (k knownTopics) EndOffsets(_ context.Context, topics []string) (ends []dlq.EndOffset, err error) {
	if k == nil {
		return nil, fmt.Errorf("%w: kafka", dlq.ErrUnavailable)
	}
	for _, topic := range topics {
		if k[topic] {
			ends = append(ends, dlq.EndOffset{Topic: topic})
		}
	}
	return ends, nil
}

// toTargets allows the targets *.retry and http:shop. It routes the topics routed.* to the topic routed.
func toTargets(t testing.TB, known knownTopics) func(*api.Options) {
	targets, err := dlq.NewTargets(newTopics(t), map[string]string{"routed.*": "routed"}, []string{"*.retry", "*.dlq", "http:shop"}, []string{"shop"})
	require.NoError(t, err)
	return func(o *api.Options) { o.Targets, o.Ends = targets, known }
}

func TestARefusedTargetClaimsNothing(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, knownTopics{"orders.retry": true}))
	id := w.add(1)[0]
	requests := map[string]string{
		retryPath(id):                         `{"target_topic": %q}`,
		"/api/v1/dlq/orders.dlq.v1/retry-all": `{"target_topic": %q}`,
		"/api/v1/jobs":                        `{"kind":"retry","topic": "orders.dlq.v1", "target_topic": %q}`,
	}
	for target, reason := range map[string]string{
		"orders.dlq":  "is a dead-letter topic",
		"or ders":     "is not the name of a topic",
		"payments":    "is not among the allowed targets",
		"users.retry": "does not exist",
		"http:ledger": "is not an endpoint",
		"":            "must not be empty",
	} {
		for path, body := range requests {
			got := w.json(http.MethodPost, path, fmt.Sprintf(body, target))
			_, fields := requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
			require.Equal(t, []string{"target_topic"}, fields, got.body)
			require.Contains(t, got.body, reason)
		}
	}
	require.Zero(t, w.retries.starts())
	require.Equal(t, "PENDING", w.status(id))
	bulks, err := w.store.Jobs(t.Context(), dlq.JobQuery{PageSize: 10})
	require.NoError(t, err)
	require.Empty(t, bulks.Entries)
}

func TestATargetIsCheckedWhileKafkaIsAway(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, nil))
	id := w.add(1)[0]
	requireError(t, w.json(http.MethodPost, retryPath(id), `{"target_topic": "orders.retry"}`), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	require.Zero(t, w.retries.starts())
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryPath(id), `{"target_topic": "http:shop"}`).status, "an endpoint is not in Kafka")
}

// Otherwise it would seem that the message was sent to its original topic.
func TestARetryToATargetSendsAnUnchangedCopy(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, knownTopics{"orders.retry": true}))
	w.audited("ann")
	const body = `{"target_topic": "orders.retry"}`
	pointer := func(a *dlq.Arrival) { a.Origin.Family, a.Record.Key, a.Record.Value = dlq.FamilyShareGroup, nil, nil }
	for name, id := range map[string]dlq.ID{
		"record":  w.add(1, dlqtest.Key("k"), dlqtest.Value("v"), dlqtest.Headers(dlq.Header{Key: "a"}))[0],
		"pointer": w.add(1, pointer, dlqtest.Headers(dlq.Header{Key: "__dlq.errors.topic", Value: []byte("orders.v1")}))[0],
	} {
		before, err := dlqtest.Detail(t.Context(), w.store, id)
		require.NoError(t, err)
		records := w.sent()
		got := w.json(http.MethodPost, retryPath(id), body, "Authorization: Bearer ann")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, id.String(), got.field(t, "edited_from"), name)
		copied, err := dlq.ParseID(got.field(t, "id").(string))
		require.NoError(t, err)
		require.Equal(t, map[dlq.ID]dlq.Record{copied: before.Record}, records, name)
		message, _ := requireError(t, w.json(http.MethodPost, retryPath(id), body, "Authorization: Bearer ann"), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Contains(t, message, copied.String())
	}
	require.Contains(t, fmt.Sprint(w.operations("Authorization: Bearer ann")), "fields:[] target_topic:orders.retry")
}

func TestABulkRetryShowsItsTarget(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, knownTopics{"orders.retry": true}))
	w.audited("ann")
	w.add(2)
	token := "Authorization: Bearer ann"
	body := `{"kind":"retry","topic": "orders.dlq.v1", "target_topic": "orders.retry"}`
	plan := w.json(http.MethodPost, plansPath, body, token)
	require.Equal(t, []any{map[string]any{"name": "orders.retry", "count": 2.0}}, plan.field(t, "by_target_topic"))
	got := w.json(http.MethodPost, "/api/v1/jobs", body, token)
	require.Less(t, got.status, http.StatusBadRequest, got.body)
	require.Equal(t, "orders.retry", got.field(t, "target_topic"))
	shown := w.call(http.MethodGet, "/api/v1/jobs/"+got.field(t, "id").(string), token)
	require.Equal(t, "orders.retry", shown.field(t, "target_topic"))
	require.Contains(t, fmt.Sprint(w.operations(token)), "target_topic:orders.retry")
}

func TestAPlanShowsRoutes(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, knownTopics{}))
	w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "routed.a" })
	w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "routed.b" })
	w.add(1)
	dry := w.json(http.MethodPost, plansPath, `{"kind":"retry","topic": "orders.dlq.v1"}`)
	require.ElementsMatch(t, []any{map[string]any{"name": "routed", "count": 2.0}, map[string]any{"name": "orders.v1", "count": 1.0}},
		dry.field(t, "by_target_topic"))
}

func TestARetryToAnotherTargetThanTheRunningOneIsAConflict(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, knownTopics{"orders.retry": true}))
	id := w.add(1)[0]
	w.retries.hold()
	_, err := w.retries.StartRetryMessage(t.Context(), nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: id})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		m, err := w.store.Message(t.Context(), id)
		return err == nil && m.Status == dlq.StatusRetrying
	}, 10*time.Second, 10*time.Millisecond, "the running retry has claimed the message")
	requireError(t, w.json(http.MethodPost, retryPath(id), `{"target_topic": "orders.retry"}`), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, 1, w.retries.starts())
	w.retries.release()
}

func TestAGrantMustCoverTheTargetToo(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, toTargets(t, knownTopics{"orders.retry": true, "stock.retry": true}))
	id := w.add(1)[0]
	granted := bearer("operator/orders.*")
	for path, body := range map[string]string{
		retryPath(id):                         `{"target_topic": "stock.retry"}`,
		"/api/v1/dlq/orders.dlq.v1/retry-all": `{"target_topic": "stock.retry"}`,
		jobsPath:                              `{"kind":"retry","topic": "orders.dlq.v1", "target_topic": "stock.retry"}`,
	} {
		message, _ := requireError(t, w.json(http.MethodPost, path, body, granted), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		require.Contains(t, message, "on topic stock.retry")
	}
	require.Zero(t, w.retries.starts())
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryPath(id), `{"target_topic": "orders.retry"}`, granted).status)
}
