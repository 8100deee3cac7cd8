package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func planPath(t testing.TB, plan response) string {
	t.Helper()
	return plansPath + "/" + plan.field(t, "id").(string)
}

func TestAPlanIsReadAsItWasMade(t *testing.T) {
	t.Parallel()
	for kind, group := range map[string]string{"retry": "orders.v1", "delete": "orders.dlq.v1", "restore": "orders.dlq.v1"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			w.add(11, dlqtest.Cause("no price"), func(a *dlq.Arrival) { a.ErrorClass = "com.example.<Price>" })
			w.addDead(3)
			if kind == "restore" {
				_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
				require.NoError(t, err)
			}
			plan, _ := w.planned(`{"kind":"` + kind + `","topic":"` + group + `"}`)
			require.NotEmpty(t, plan.field(t, "sample"))
			w.add(2)
			got := w.call(http.MethodGet, planPath(t, plan))
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Equal(t, plan.body, got.body)
			same := w.call(http.MethodGet, planPath(t, plan), "If-None-Match: "+got.header.Get("ETag"))
			require.Equal(t, http.StatusNotModified, same.status)
		})
	}
}

func TestAPlanWithoutMessagesIsReadAsItWasMade(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, ask := range []string{
		`"kind":"retry"`, `"kind":"dead"`,
		`"kind":"retry","status":["DEAD","PENDING"],"created_from":"2026-02-20T10:30:00.123456789+02:00","key":"","error":"é\u0001",` +
			`"ids":["` + someID + `","0199c0de-7000-7000-8000-000000000002"],"not":{"class":["b","a"],"headers":[{"b":"x"},{"a":"y"}]},"payload":{"b":"1","a":"2"},` +
			`"ramp":{"steps":[1,10],"wait":"90s","max_came_back":0.1},"rate_limit":5,"order":"none","reason":"why"`,
	} {
		plan, _ := w.planned(`{` + ask + `,"topic":"none.dlq"}`)
		require.Equal(t, plan.body, w.call(http.MethodGet, planPath(t, plan)).body)
	}
}

func TestAPlanShowsWhatWasAskedForAsItsJobDoes(t *testing.T) {
	t.Parallel()
	w := start(t, toTargets(t, knownTopics{"orders.retry": true}))
	w.add(1)
	for kind, fields := range map[string][]string{
		"retry": {"filters", "request_reason", "rate_limit", "order", "ramp", "target_topic", "include_suspicious"},
		"dead":  {"filters", "request_reason"},
	} {
		ask := `"kind":"` + kind + `","topic":"orders.dlq.v1","error":"t","not":{"class":["b","a"]},"reason":"why"`
		if kind == "retry" {
			ask += `,"rate_limit":5,"order":"none","ramp":{"steps":[1,10],"wait":"90s"},"target_topic":"orders.retry","include_suspicious":true`
		}
		plan, begin := w.planned(`{` + ask + `}`)
		job := w.json(http.MethodPost, jobsPath, begin)
		for _, field := range fields {
			require.Equal(t, job.field(t, field), plan.field(t, field), field)
		}
		require.Equal(t, "why", plan.field(t, "request_reason"))
	}
}

func TestAPlanNamesItsJobAndLosesDeletedMessagesOfItsSample(t *testing.T) {
	t.Parallel()
	w := start(t)
	ids := w.add(2)
	plan, ask := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
	require.Nil(t, plan.field(t, "job_id"))
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, jobsPath, ask).status)
	w.call(http.MethodDelete, "/api/v1/dlq/messages/"+ids[0].String())
	_, err := w.pool.Exec(t.Context(), `UPDATE dlq.dlq_plans SET expires_at = now()`)
	require.NoError(t, err)

	got := w.call(http.MethodGet, planPath(t, plan))
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.EqualValues(t, 2, got.field(t, "matched"))
	sample := got.field(t, "sample").([]any)
	require.Len(t, sample, 1)
	require.Equal(t, []any{ids[1].String(), "RESOLVED"}, []any{sample[0].(map[string]any)["id"], sample[0].(map[string]any)["status"]})
	job := w.call(http.MethodGet, jobsPath+"/"+got.field(t, "job_id").(string))
	require.EqualValues(t, 2, job.field(t, "retried"))
}

func TestAPlanThatCannotBeShownSaysWhy(t *testing.T) {
	t.Parallel()
	w := start(t)
	plan, _ := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
	message, _ := requireError(t, w.call(http.MethodGet, plansPath+"/"+someID), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	require.Equal(t, "plan not found: "+someID, message)
	requireError(t, w.call(http.MethodGet, plansPath+"/x"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	_, err := w.pool.Exec(t.Context(), `UPDATE dlq.dlq_plans SET expires_at = $1`, time.Date(2026, 2, 20, 11, 30, 0, 0, time.UTC))
	require.NoError(t, err)
	message, _ = requireError(t, w.call(http.MethodGet, planPath(t, plan)), http.StatusConflict, "SYS_DLQ_PLAN_EXPIRED")
	require.Equal(t, "the plan expired at 2026-02-20T11:30:00Z; make a new one", message)
	_, err = w.pool.Exec(t.Context(), `UPDATE dlq.dlq_plans SET summary = '[]'`)
	require.NoError(t, err)
	message, _ = requireError(t, w.call(http.MethodGet, planPath(t, plan)), http.StatusConflict, "SYS_DLQ_CONFLICT")
	require.Equal(t, "the plan cannot be read; make a new one", message)
}

func TestAPlanIsShownToThoseWithItsTopicsAndToThoseWithAll(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(1, ofOrders("orders.dlq.v1"))
	w.add(1, ofOrders("stock.dlq.v1"))
	const some = "operator/orders.v1+operator/orders.dlq.*"
	for maker, readers := range map[string]map[string]int{
		some: {
			some: http.StatusOK, strings.ReplaceAll(some, "operator", "viewer"): http.StatusOK, "viewer": http.StatusOK,
			"viewer/orders.v1": http.StatusNotFound, "viewer/orders.v1+viewer/stock.dlq.*": http.StatusNotFound, "viewer/stock.*": http.StatusNotFound,
		},
		"operator": {"viewer": http.StatusOK, "viewer/orders.*": http.StatusNotFound, some: http.StatusNotFound},
	} {
		for _, topic := range []string{"orders.v1", "orders.dlq.v1"} {
			plan, _ := w.planned(`{"kind":"dead","topic":"`+topic+`"}`, bearer(maker))
			for reader, want := range readers {
				got := w.call(http.MethodGet, planPath(t, plan), bearer(reader))
				require.Equal(t, want, got.status, "%s of %s for %s: %s", topic, maker, reader, got.body)
				if want == http.StatusOK {
					require.Equal(t, plan.body, got.body)
				}
			}
		}
	}
}

// A plan shows messages.
func TestWhoeverMayReadJobsMayReadMessages(t *testing.T) {
	t.Parallel()
	for _, role := range dlq.Roles {
		if slices.Contains(role.Permissions(), dlq.PermJobRead) {
			require.Contains(t, role.Permissions(), dlq.PermMessageRead)
		}
	}
}
