package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const (
	somePlan = "0199c0de-7000-7000-8000-000000000009"
	otherJob = "0199c0de-7000-7000-8000-000000000002"
)

// planned is a plan of three messages, as the API answers it.
func planned(kind string, change ...map[string]any) map[string]any {
	plan := map[string]any{
		"id": somePlan, "hash": strings.Repeat("0", 64), "expires_at": "2026-02-20T11:30:00Z", "job_id": nil, "kind": kind, "topic": "orders.dlq", "matched": 3, "skipped": 2,
		"by_status": map[string]int{"PENDING": 3, "RETRYING": 0, "RESOLVED": 0, "DEAD": 2}, "by_error_class": []any{}, "skip_reasons": []any{map[string]any{"name": "dead", "count": 2}},
		"by_target_topic": []any{map[string]any{"name": "orders.v1", "count": 3}}, "by_group": []any{}, "more_groups": 0, "sample": []any{},
		"filters": map[string]any{"error": "timeout", "not": map[string]any{"key": "42"}}, "request_reason": "why", "rate_limit": 2, "order": "key",
		"ramp": map[string]any{"steps": []int{1, 10}, "wait": "30s", "max_came_back": 0.1},
	}
	for _, fields := range change {
		maps.Copy(plan, fields)
	}
	return plan
}

func planAPI(plan any) map[string]any {
	return map[string]any{
		"GET /api/v1/plans/" + somePlan: plan, "POST /api/v1/plans": plan,
		"POST /api/v1/jobs": retryJob(map[string]any{"id": somePlan}), "GET /api/v1/jobs/" + somePlan: retryJob(map[string]any{"id": somePlan}),
	}
}

func TestMessagesWithoutAnErrorClassAreCountedInWords(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("retry", map[string]any{"by_error_class": []any{map[string]any{"name": "(none)", "count": 3}}})))
	b.headers["Accept-Language"] = "ja"
	page := b.get("/plans/" + somePlan).text
	require.Contains(t, page, `<span class="none">なし</span>`)
	require.NotContains(t, page, "(none)")
}

func TestASelectionBecomesTheRequestOfAPlan(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("retry")))
	query := "kind=retry&topic=orders.dlq&status=PENDING,DEAD&ids=a,b&key=&origin_offset=9007199254740993&header.tenant=x&payload.lines.0.sku=7&not.key=42&not.key=43&not.header.h=y&suspicious=false"
	form := b.get("/plans/new?" + query)
	require.Equal(t, http.StatusOK, form.Code, form.text)
	require.Contains(t, form.text, "record key is “”")
	values, err := url.ParseQuery(query)
	require.NoError(t, err)
	for name, value := range map[string]string{
		"ramp": "steps", "steps": "1, 10", "wait": "1m", "max_came_back": "2.5", "confirm": "1", "rate_limit": "500", "target_topic": "orders.retry", "order": "none", "reason": "why",
	} {
		values.Set(name, value)
	}
	made := b.post("/plans/new", values)
	require.Equal(t, http.StatusSeeOther, made.Code, made.text)
	require.Equal(t, "/plans/"+somePlan, pathOf(made.Header().Get("Location")))
	require.Len(t, b.calls, 1)
	var sent map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(b.calls[0], "POST /api/v1/plans ")), &sent))
	for name, want := range map[string]string{
		"status": `["PENDING","DEAD"]`, "ids": `["a","b"]`, "key": `""`, "origin_offset": `9007199254740993`, "headers": `{"tenant":"x"}`, "payload": `{"lines.0.sku":"7"}`,
		"not": `{"headers":[{"h":"y"}],"key":["42","43"]}`, "suspicious": `false`, "rate_limit": `500`, "target_topic": `"orders.retry"`, "order": `"none"`, "reason": `"why"`,
		"ramp": `{"confirm":"verified","max_came_back":0.025,"steps":[1,10],"wait":"1m"}`, "kind": `"retry"`, "topic": `"orders.dlq"`,
	} {
		require.JSONEq(t, want, string(sent[name]), name)
		delete(sent, name)
	}
	require.Empty(t, sent)
}

func TestFiltersOfAPlanAreThoseOfItsForm(t *testing.T) {
	t.Parallel()
	query, err := url.ParseQuery("status=PENDING,DEAD&ids=a,b&key=&created_from=2026-02-20T10:30:00.5Z&origin_offset=9007199254740993&suspicious=true" +
		"&header.tenant=x&payload.a.b=7&not.key=42&not.key=43&not.header.h=y&not.origin_partition=3&group=g&not.class=c")
	require.NoError(t, err)
	body, err := json.Marshal(client.PlanBody(filtersOf(query)))
	require.NoError(t, err)
	var back client.Filters
	require.NoError(t, json.Unmarshal(body, &back), string(body))
	require.Equal(t, query, filtersFrom(back))
}

// The API accepts empty values, because a message can have an empty header or an empty field in its
// payload.
func TestAPlanIsMadeAgainWithItsEmptyValues(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("delete", map[string]any{"filters": map[string]any{"headers": map[string]string{"h": ""}, "payload": map[string]string{"coupon": ""}}})))
	page := b.get("/plans/" + somePlan)
	require.Contains(t, page.text, `href="/plans/new?header.h=&amp;kind=delete&amp;payload.coupon=&amp;reason=why&amp;topic=orders.dlq"`, "not the whole topic")
	require.Contains(t, page.text, `href="/topics/orders.dlq?header.h=&amp;payload.coupon="`)
	form := b.get("/plans/new?kind=delete&topic=orders.dlq&payload.coupon=")
	require.Equal(t, http.StatusOK, form.Code, form.text)
	made := b.post("/plans/new", url.Values{"kind": {"delete"}, "topic": {"orders.dlq"}, "payload.coupon": {""}})
	require.Equal(t, http.StatusSeeOther, made.Code, made.text)
	require.Contains(t, b.calls[0], `"payload":{"coupon":""}`)
}

func TestAFilterThatJobsDoNotHaveIsRefusedInsteadOfLeftOut(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("retry")))
	for _, query := range []string{"verified=no", "grup=x", "ids=", "error=a&error=b", "group=", "created_from="} {
		got := b.get("/plans/new?kind=delete&topic=orders.dlq&" + query)
		require.Equal(t, http.StatusBadRequest, got.Code, query)
		require.NotContains(t, got.text, "Show the plan", query)
		values, _ := url.ParseQuery("kind=delete&topic=orders.dlq&whole=1&" + query)
		require.Equal(t, http.StatusBadRequest, b.post("/plans/new", values).Code, query)
	}
	require.Empty(t, b.calls)
}

func TestAWholeTopicIsMeantOnPurpose(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("dead")))
	require.Contains(t, b.get("/plans/new?kind=dead&topic=orders.dlq&status=PENDING").text, "I mean every message of the topic")
	form := url.Values{"kind": {"dead"}, "topic": {"orders.dlq"}}
	refused := b.post("/plans/new", form)
	require.Equal(t, http.StatusBadRequest, refused.Code)
	require.Empty(t, b.calls)
	form.Set("whole", "1")
	require.Equal(t, http.StatusSeeOther, b.post("/plans/new", form).Code)
}

func TestAFormThatTheAPIRefusesKeepsWhatWasEntered(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"POST /api/v1/plans": apiError{http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR", "invalid request body: rate_limit"}})
	got := b.post("/plans/new", url.Values{"kind": {"retry"}, "topic": {"orders.dlq"}, "error": {"timeout"}, "rate_limit": {"many"}, "reason": {"a reason"}})
	require.Equal(t, http.StatusBadRequest, got.Code)
	for _, part := range []string{"invalid request body: rate_limit", `value="many"`, `value="a reason"`, `name="error" value="timeout"`} {
		require.Contains(t, got.text, part)
	}
}

func TestWhateverIsNoNumberReachesTheAPIAsItIs(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("retry")))
	for _, text := range []string{"NaN", "Inf", "ten", "1e999", "01"} {
		form := url.Values{"kind": {"retry"}, "topic": {"orders.dlq"}, "error": {"e"}, "rate_limit": {text}, "steps": {text}, "max_came_back": {"x" + text}}
		require.Equal(t, http.StatusSeeOther, b.post("/plans/new", form).Code)
		require.Contains(t, b.calls[len(b.calls)-1], `"rate_limit":"`+text+`"`)
		form.Set("max_came_back", text)
		require.Equal(t, http.StatusSeeOther, b.post("/plans/new", form).Code, text)
	}
}

func TestWhoeverSignsInAgainComesBackToTheForm(t *testing.T) {
	t.Parallel()
	b := open(t, nil, func(o *Options) { o.SignIn = SignInToken })
	over := b.post("/plans/new", url.Values{"kind": {"retry"}, "topic": {"orders.dlq"}, "error": {"timeout"}, "rate_limit": {"7"}, "reason": {"a reason"}})
	require.Equal(t, "/sign-in?next=%2Fplans%2Fnew%3Ferror%3Dtimeout%26kind%3Dretry%26rate_limit%3D7%26reason%3Da%2Breason%26topic%3Dorders.dlq", over.Header().Get("Location"))
	for referer, next := range map[string]string{
		"http://console.example/jobs?state=RUNNING": "%2Fjobs%3Fstate%3DRUNNING", "": "%2F", "https://evil.example//evil.example/": "%2F",
	} {
		b.headers["Referer"] = referer
		require.Equal(t, "/sign-in?next="+next, b.post("/jobs/"+otherJob+"/pause", nil).Header().Get("Location"), referer)
	}
	require.Empty(t, b.calls)
}

func TestAPlanNamesNumberAndTargetAndAsksWithItsSelection(t *testing.T) {
	t.Parallel()
	for kind, button := range map[string]string{
		"retry": "Send 3 messages to orders.v1", "delete": "Delete 3 messages of orders.dlq", "revive": "Revive 3 messages of orders.dlq",
		"dead": "Mark 3 messages of orders.dlq dead", "restore": "Restore 3 messages of orders.dlq",
	} {
		got := open(t, planAPI(planned(kind))).get("/plans/" + somePlan)
		require.Equal(t, http.StatusOK, got.Code)
		require.Contains(t, got.text, "<bdi>"+button+"</bdi></button>")
		require.Equal(t, 2, strings.Count(got.text, "error contains “timeout”"), "once above, once in the question")
		require.Contains(t, got.text, "not: record key is “42”")
		require.Equal(t, kind == "delete", strings.Contains(got.text, `name="typed"`))
	}
}

func TestAPlanOfNothingOrWithoutRightsCannotBeStarted(t *testing.T) {
	t.Parallel()
	none := open(t, planAPI(planned("retry", map[string]any{"matched": 0}))).get("/plans/" + somePlan).text
	require.Contains(t, none, `<button class="main" disabled>`)
	require.Contains(t, none, "there is nothing to start")
	api := planAPI(planned("delete"))
	api["GET /api/v1/me"] = client.Me{Subject: "viewer", Routes: []client.Me_Routes{{Method: "POST", Path: "/api/v1/jobs"}, {Method: "POST", Path: "/api/v1/plans"}}}
	b := open(t, api)
	text := b.get("/plans/" + somePlan).text
	require.Contains(t, text, `<button class="bad" disabled>`)
	require.Contains(t, text, "An administrator of the manager can give you the right.")
}

func TestADeletionNeedsTheNameOfItsTopic(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("delete")))
	wrong := b.post("/plans/"+somePlan, url.Values{"typed": {"orders"}, "reason": {"old"}})
	require.Equal(t, http.StatusBadRequest, wrong.Code)
	require.Contains(t, wrong.text, "Nothing was deleted")
	require.Contains(t, wrong.text, `value="old"`)
	require.Empty(t, b.calls)
	require.Equal(t, "/jobs/"+somePlan, b.post("/plans/"+somePlan, url.Values{"typed": {"orders.dlq"}}).Header().Get("Location"))
	require.Equal(t, []string{`POST /api/v1/jobs {"plan":"` + somePlan + `"}`}, b.calls)
}

func TestAPlanThatWasStartedLeadsToItsJob(t *testing.T) {
	t.Parallel()
	b := open(t, planAPI(planned("retry", map[string]any{"job_id": somePlan})))
	require.NotContains(t, b.get("/plans/"+somePlan).text, `action="/plans/`)
	require.Equal(t, "/jobs/"+somePlan, b.post("/plans/"+somePlan, nil).Header().Get("Location"))
	require.Equal(t, []string{`POST /api/v1/jobs {"plan":"` + somePlan + `"}`}, b.calls, "the API finds the job, and starts its workflow if Temporal was away before")
	b.cookies = b.cookies[len(b.cookies)-1:]
	require.Contains(t, b.get("/jobs/"+somePlan).text, "Nothing was started twice.")
}

func TestAPlanThatNoLongerHoldsShowsTheDifferenceAndTheWayToANewOne(t *testing.T) {
	t.Parallel()
	api := planAPI(planned("retry"))
	api["POST /api/v1/jobs"] = refusal{status: http.StatusConflict, code: "SYS_DLQ_PLAN_CHANGED", details: []client.ErrorDetail{{Field: "matched", Message: "3 were planned, now 2"}}}
	b := open(t, api)
	got := b.post("/plans/"+somePlan, url.Values{"reason": {"why"}})
	require.Equal(t, http.StatusConflict, got.Code)
	for _, part := range []string{"3 were planned, now 2", "Plan again", "/plans/new?error=timeout&amp;kind=retry", "not.key=42", `<button class="main" disabled>`} {
		require.Contains(t, got.text, part)
	}
	b.api["POST /api/v1/jobs"] = refusal{status: http.StatusConflict, code: "SYS_DLQ_CONFLICT", details: []client.ErrorDetail{{Field: "job_id", Message: otherJob}}}
	require.Contains(t, b.post("/plans/"+somePlan, nil).text, `href="/jobs/`+otherJob+`"`)
	b.api["POST /api/v1/jobs"] = apiError{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "Temporal is away"}
	away := b.post("/plans/"+somePlan, url.Values{"reason": {"kept"}})
	require.Equal(t, http.StatusServiceUnavailable, away.Code)
	require.Contains(t, away.text, "Temporal is away")
	require.Contains(t, away.text, `value="kept"`)
}

func TestAnExpiredPlanRemembersWhatItWasMadeOf(t *testing.T) {
	t.Parallel()
	expired := apiError{http.StatusConflict, "SYS_DLQ_PLAN_EXPIRED", "the plan expired"}
	b := open(t, map[string]any{"GET /api/v1/plans/" + somePlan: expired})
	got := b.get("/plans/" + somePlan + "?kind=retry&topic=orders.dlq&error=timeout&rate_limit=7")
	require.Contains(t, got.text, "the plan expired")
	require.Contains(t, got.text, "/plans/new?error=timeout&amp;kind=retry&amp;rate_limit=7&amp;topic=orders.dlq")
	sent := b.post("/plans/"+somePlan, url.Values{"again": {"/plans/new?kind=retry&topic=t"}})
	require.Equal(t, http.StatusConflict, sent.Code)
	require.Contains(t, sent.text, "/plans/new?kind=retry&amp;topic=t")
	require.NotContains(t, b.post("/plans/"+somePlan, url.Values{"again": {"//evil.example/plans/new?"}}).text, "evil")
	require.Empty(t, b.calls)
}

func TestHostileTextsInAPlanStayText(t *testing.T) {
	t.Parallel()
	evil := `"><script>alert(1)</script>`
	plan := planned("retry", map[string]any{
		"topic": evil, "filters": map[string]any{"error": evil}, "by_target_topic": []any{map[string]any{"name": evil, "count": 3}}, "request_reason": evil, "target_topic": evil,
		"by_group": []any{map[string]any{"id": nil, "title": evil, "count": 3}}, "sample": []any{map[string]any{"id": evil, "error_message": evil}},
	})
	b := open(t, planAPI(plan))
	require.NotContains(t, b.get("/plans/"+somePlan).text, "<script>alert")
	require.NotContains(t, b.get("/plans/new?"+url.Values{"kind": {evil}, "topic": {evil}, "error": {evil}, evil: {evil}}.Encode()).text, "<script>alert")
}

func TestAnExclusionWhoseValueIsHiddenMakesNoPlan(t *testing.T) {
	t.Parallel()
	rest := restPath(job{RetryJob: client.RetryJob{Kind: "dead", Topic: "orders.dlq", Filters: client.Filters{Not: &client.Negations{Key: []string{"***"}}}}})
	require.Contains(t, rest, "not.key=")
	b := open(t, noTopics)
	page := b.get(rest)
	require.Equal(t, http.StatusBadRequest, page.Code)
	require.Contains(t, page.text, "not.key")
	form, err := url.ParseQuery(strings.TrimPrefix(rest, "/plans/new?"))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, b.post("/plans/new", form).Code)
	require.Empty(t, b.calls, "nothing was planned")
}
