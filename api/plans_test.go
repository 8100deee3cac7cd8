package api_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/store/postgres"
)

// planned makes a plan, and returns a request that starts its job.
func (w *world) planned(body string, headers ...string) (plan response, start string) {
	w.t.Helper()
	plan = w.json(http.MethodPost, plansPath, body, headers...)
	require.Equal(w.t, http.StatusOK, plan.status, plan.body)
	return plan, `{"plan":"` + plan.field(w.t, "id").(string) + `"}`
}

func TestAPlanStartsWhatItShowedAndNothingThatArrivedLater(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(3)
	plan, ask := w.planned(`{"kind":"retry","topic":"orders.dlq.v1","rate_limit":1000,"reason":"the plan's"}`)
	require.EqualValues(t, 3, plan.field(t, "matched"))
	later := w.add(2)
	got := w.json(http.MethodPost, jobsPath, ask)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, plan.field(t, "id"), got.field(t, "id"))
	require.EqualValues(t, 3, got.field(t, "retried"))
	require.EqualValues(t, 1000, got.field(t, "rate_limit"))
	require.Equal(t, "the plan's", got.field(t, "request_reason"))
	for _, id := range ids {
		require.Equal(t, "RESOLVED", w.status(id))
	}
	for _, id := range later {
		require.Equal(t, "PENDING", w.status(id))
	}
	again := w.json(http.MethodPost, jobsPath, ask)
	require.Equal(t, []any{http.StatusOK, got.field(t, "id")}, []any{again.status, again.field(t, "id")}, "a repeated request finds the job: %s", again.body)
	require.Equal(t, 1, w.retries.starts())
}

func TestAPlanThatNoLongerHoldsIsRefusedWithTheDifference(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, ids []dlq.ID){
		"one is dead":    func(w *world, ids []dlq.ID) { w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[0].String()+"/dead") },
		"one is sent":    func(w *world, ids []dlq.ID) { w.call(http.MethodPost, retryPath(ids[0])) },
		"one is deleted": func(w *world, ids []dlq.ID) { w.call(http.MethodDelete, "/api/v1/dlq/messages/"+ids[0].String()) },
		"one was dead and is revived": func(w *world, ids []dlq.ID) {
			w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[0].String()+"/dead")
			w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[0].String()+"/revive")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			ids := w.add(3)
			_, ask := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
			change(w, ids)
			got := w.json(http.MethodPost, jobsPath, ask)
			message, fields := requireError(t, got, http.StatusConflict, "SYS_DLQ_PLAN_CHANGED")
			require.Contains(t, message, "make a new one")
			require.Equal(t, []string{"matched", "by_target_topic.orders.v1"}, fields)
			require.Contains(t, got.body, `"message":"3 were planned, now 2"`)
			require.Zero(t, w.retries.starts()-map[bool]int{true: 1}[name == "one is sent"])
		})
	}
}

func TestAPlanOfADeletionIsRefusedAfterAChange(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.addDead(2)
	_, ask := w.planned(`{"kind":"delete","topic":"orders.dlq.v1","status":"DEAD"}`)
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[0].String()+"/revive")
	_, fields := requireError(t, w.json(http.MethodPost, jobsPath, ask), http.StatusConflict, "SYS_DLQ_PLAN_CHANGED")
	require.Equal(t, []string{"matched"}, fields)
	require.Equal(t, "DEAD", w.status(ids[1]))
}

func TestAnExpiredOrUnknownPlanIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *api.Options) { o.PlanTTL = time.Nanosecond })
	w.add(1)
	_, ask := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
	message, _ := requireError(t, w.json(http.MethodPost, jobsPath, ask), http.StatusConflict, "SYS_DLQ_PLAN_EXPIRED")
	require.Contains(t, message, "the plan expired at ")
	message, _ = requireError(t, w.json(http.MethodPost, jobsPath, `{"plan":"`+someID+`"}`), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	require.Equal(t, "plan not found: "+someID, message)
	for body, field := range map[string]string{
		`{"plan":"x"}`: "plan", `{"plan":null}`: "plan", `{"plan":1}`: "plan", `{"plan":"00000000-0000-0000-0000-000000000000"}`: "plan",
		`{"plan":"` + someID + `","topic":"orders.dlq.v1"}`: "topic", `{"plan":"` + someID + `","rate_limit":1}`: "rate_limit",
		`{"plan":"` + someID + `","dry_run":true}`: "dry_run", `{"plan":"` + someID + `","reason":1}`: "reason",
	} {
		_, fields := requireError(t, w.json(http.MethodPost, jobsPath, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, body)
	}
	require.Zero(t, w.retries.starts())
}

func TestAPlanRunsWithTheRightsOfWhoeverStartsIt(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(2)
	_, ask := w.planned(`{"kind":"delete","topic":"orders.dlq.v1"}`, bearer("admin"))
	for _, token := range []string{"viewer", "operator"} {
		requireError(t, w.json(http.MethodPost, jobsPath, ask, bearer(token)), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	}
	requireError(t, w.json(http.MethodPost, plansPath, `{"kind":"retry","topic":"orders.dlq.v1"}`, bearer("viewer")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	got := w.json(http.MethodPost, jobsPath, ask, bearer("admin"))
	require.EqualValues(t, 2, got.field(t, "changed"), got.body)
}

// ofOrders makes an arrival in a dead-letter topic whose original topic is orders.v1.
func ofOrders(topic string) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) { a.DLQTopic = topic; a.Origin.Topic = "orders.v1" }
}

func TestAPlanWithOtherGrantsIsRefusedAndTellsNothing(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(2, ofOrders("orders.dlq.v1"))
	stock := w.add(2, ofOrders("stock.dlq.v1"))
	ann, bob := bearer("operator/orders.v1+operator/orders.dlq.*"), bearer("operator/orders.v1+operator/stock.dlq.*")
	plan, ask := w.planned(`{"kind":"dead","topic":"orders.v1","reason":"ann's"}`, ann)
	require.EqualValues(t, 2, plan.field(t, "matched"))
	refuses := func() {
		t.Helper()
		message, _ := requireError(t, w.json(http.MethodPost, jobsPath, ask, bob), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, "the plan was made with other grants than yours; make a new one", message)
	}
	refuses()
	got := w.json(http.MethodPost, jobsPath, ask, ann)
	require.Equal(t, http.StatusOK, got.status, got.body)
	refuses()
	for _, id := range stock {
		require.Equal(t, "PENDING", w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String(), bearer("admin")).field(t, "status"))
	}

	_, ask = w.planned(`{"kind":"delete","topic":"orders.dlq.v1"}`, bearer("admin"))
	requireError(t, w.json(http.MethodPost, jobsPath, ask, bearer("operator/stock.*")), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
}

func TestAPlanDoesNotJoinAJobOfAnotherScope(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.retries.holdEarly()
	w.add(2)
	const body = `{"kind":"retry","topic":"orders.dlq.v1"}`
	running := w.json(http.MethodPost, jobsPath, body, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, running.status, running.body)
	w.add(3)
	plan, ask := w.planned(body)
	require.EqualValues(t, 5, plan.field(t, "matched"))
	message, _ := requireError(t, w.json(http.MethodPost, jobsPath, ask), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Contains(t, message, running.field(t, "id").(string))
	w.retries.release()
}

func TestARepeatedStartOfAPlanClosesAJobWhoseWorkflowWasTerminated(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(2)
	_, ask := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
	w.retries.terminate(true)
	got := w.json(http.MethodPost, jobsPath, ask, "Prefer: respond-async")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	w.retries.terminate(false)
	again := w.json(http.MethodPost, jobsPath, ask)
	require.Equal(t, http.StatusOK, again.status, again.body)
	require.Equal(t, "FAILED", again.field(t, "state"))
}

func TestWhoeverRepeatsTheStartOfAPlanIsRecorded(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.retries.hold()
	w.add(2)
	_, ask := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`, bearer("admin"))
	for _, token := range []string{"admin", "operator"} {
		got := w.json(http.MethodPost, jobsPath, ask, bearer(token), "Prefer: respond-async")
		require.Equal(t, http.StatusAccepted, got.status, got.body)
	}
	jobs := w.call(http.MethodGet, jobsPath+"?actor=operator", bearer("admin")).field(t, "jobs").([]any)
	require.Len(t, jobs, 1)
}

// interrupted calls a function before the first check of a plan.
type interrupted struct {
	*postgres.Store
	once *sync.Once
	hook func()
}

func (i interrupted) PreviewScope(ctx context.Context, spec dlq.JobSpec, scope dlq.Scope) (dlq.JobPreview, error) {
	isFirst := false
	i.once.Do(func() { isFirst = true })
	if isFirst {
		i.hook()
	}
	return i.Store.PreviewScope(ctx, spec, scope)
}

func TestAStartOfAPlanFindsTheJobThatAnotherRequestStartedMeanwhile(t *testing.T) {
	t.Parallel()
	var w *world
	var ask string
	w = start(t, func(o *api.Options) {
		o.Database = interrupted{o.Database.(*postgres.Store), &sync.Once{}, func() {
			require.Equal(t, http.StatusOK, w.json(http.MethodPost, jobsPath, ask).status)
		}}
	})
	w.add(3)
	_, ask = w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
	got := w.json(http.MethodPost, jobsPath, ask)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 3, got.field(t, "retried"))
}

// Another job sets updated_at to the start of its transaction. This time may be before the snapshot of a plan.
func TestAPlanWithAsManyOtherMessagesIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(3)
	w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[2].String()+"/dead")
	tx, err := w.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE dlq.dlq_messages SET status = 'PENDING', resolution = NULL WHERE id = $1`, [16]byte(ids[2]))
	require.NoError(t, err)
	plan, ask := w.planned(`{"kind":"dead","topic":"orders.dlq.v1"}`)
	require.EqualValues(t, 2, plan.field(t, "matched"))
	require.NoError(t, tx.Commit(t.Context()))
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+ids[0].String())
	got := w.json(http.MethodPost, jobsPath, ask)
	requireError(t, got, http.StatusConflict, "SYS_DLQ_PLAN_CHANGED")
	require.Contains(t, got.body, `"matched","message":"2 were planned, now 2 others"`)
}

func TestAPlanThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	for _, damage := range []string{`spec = '{}'`, `spec = '[]'`, `spec = spec || '{"kind": "unknown"}'`, `effect = '[1]'`, `summary = '[1]'`} {
		_, ask := w.planned(`{"kind":"dead","topic":"orders.dlq.v1"}`)
		_, err := w.pool.Exec(t.Context(), `UPDATE dlq.dlq_plans SET `+damage)
		require.NoError(t, err)
		message, _ := requireError(t, w.json(http.MethodPost, jobsPath, ask), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, "the plan cannot be read; make a new one", message, damage)
	}
	_, ask := w.planned(`{"kind":"dead","topic":"orders.dlq.v1"}`)
	_, err := w.pool.Exec(t.Context(), `UPDATE dlq.dlq_plans SET snapshot_at = '-infinity'`)
	require.NoError(t, err)
	requireError(t, w.json(http.MethodPost, jobsPath, ask), http.StatusConflict, "SYS_DLQ_PLAN_CHANGED")
	require.Zero(t, w.retries.starts())
}
