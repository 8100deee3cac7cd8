package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// refusal is an answer of the API that refuses a request and names details.
type refusal struct {
	status  int
	code    string
	details []client.ErrorDetail
}

// retryJob is a running retry, as the API answers it.
func retryJob(change ...map[string]any) map[string]any {
	job := map[string]any{
		"id": otherJob, "kind": "retry", "topic": "orders.dlq", "state": "RUNNING", "reason": nil, "matched": 100, "retried": 20, "failed": 1, "dead": 0, "skipped": 0, "waiting": 4, "came_back": 2,
		"progress": 0.21, "per_second": 5.0, "average_per_second": 4.5, "estimated_end": nil, "started_at": "2026-02-20T10:30:00Z", "updated_at": "2026-02-20T10:30:10Z", "ended_at": nil,
		"filters": map[string]any{"error": "timeout"}, "rate_limit": 5, "order": "key", "ramp": map[string]any{"steps": []int{1, 10, 100}, "wait": "30s", "max_came_back": 0.1},
		"request_reason": "why", "workflow": map[string]any{"workflow_id": "retry-all-1", "url": "https://temporal.example/w"},
		"verified": map[string]any{"yes": 12, "no": 5, "unknown": 3, "came_back": 2, "unknown_reasons": map[string]int{"no_group": 3}, "partial": false},
	}
	for _, fields := range change {
		maps.Copy(job, fields)
	}
	return job
}

func changeJob(change ...map[string]any) map[string]any {
	job := map[string]any{
		"id": otherJob, "kind": "delete", "topic": "orders.dlq", "state": "RUNNING", "reason": nil, "matched": 9, "changed": 4, "skipped": 0, "progress": 0.4, "per_second": 1.0,
		"estimated_end": nil, "started_at": "2026-02-20T10:30:00Z", "updated_at": "2026-02-20T10:30:10Z", "ended_at": nil, "filters": map[string]any{}, "request_reason": nil, "workflow": nil,
	}
	for _, fields := range change {
		maps.Copy(job, fields)
	}
	return job
}

func jobAPI(job any) map[string]any {
	path := "/api/v1/jobs/" + otherJob
	return map[string]any{"GET " + path: job, "GET " + path + "/series": client.JobSeries{}, "POST " + path + "/pause": job, "POST " + path + "/resume": job, "POST " + path + "/cancel": job, "PATCH " + path: job}
}

func TestTheBarOfAJobSaysWhatConsumersPassedAndWhatCameBack(t *testing.T) {
	t.Parallel()
	text := open(t, jobAPI(retryJob())).get("/jobs/" + otherJob).text
	require.Contains(t, text, `aria-label="passed by the consumer: 12, sent: 6, came back as dead letters: 2, not delivered: 1"`)
	require.Contains(t, text, "20 of 100 sent")
	require.Contains(t, text, `href="https://temporal.example/w" rel="noreferrer noopener"`)
	require.Contains(t, text, "the headers name no consumer group, and none is configured")
	require.Contains(t, text, `href="/topics/orders.dlq?created_from=2026-02-20T10%3A30%3A00Z&amp;error=timeout"`)
}

func TestButtonsOfAJobAreThoseThatArePossible(t *testing.T) {
	t.Parallel()
	for state, buttons := range map[string][]string{
		"RUNNING": {"pause", "rate", "cancel"}, "PAUSED": {"resume", "rate", "cancel"}, "PAUSING": {"resume", "rate", "cancel"}, "CANCELLING": {}, "COMPLETED": {}, "CANCELLED": {}, "FAILED": {},
	} {
		text := open(t, jobAPI(retryJob(map[string]any{"state": state}))).get("/jobs/" + otherJob).text
		for _, button := range []string{"pause", "resume", "rate", "cancel"} {
			action := `action="/jobs/` + otherJob + "/" + button + `"`
			if slices.Contains(buttons, button) {
				require.Contains(t, text, action, state)
			} else {
				require.NotContains(t, text, action, state)
			}
		}
	}
	text := open(t, jobAPI(changeJob())).get("/jobs/" + otherJob).text
	require.NotContains(t, text, "/pause")
	require.Contains(t, text, "/cancel")
}

func TestWhoeverMayNotSteerSeesTheButtonsSwitchedOff(t *testing.T) {
	t.Parallel()
	api := jobAPI(retryJob())
	api["GET /api/v1/me"] = client.Me{Subject: "viewer"}
	api["GET /api/v1/jobs"] = map[string]any{"jobs": []any{retryJob()}, "pagination": map[string]any{}}
	b := open(t, api)
	text := b.get("/jobs/" + otherJob).text
	require.Contains(t, text, "<button disabled>")
	require.Contains(t, text, "You may not steer jobs.")
	require.Contains(t, b.get("/jobs").text, `<button disabled title="You may not steer jobs.">`)
}

func TestAJobThatHasChangedSinceThePageIsNotSteered(t *testing.T) {
	t.Parallel()
	b := open(t, jobAPI(retryJob(map[string]any{"state": "PAUSED"})))
	path := "/jobs/" + otherJob
	require.Equal(t, path, b.post(path+"/cancel", url.Values{"state": {"RUNNING"}}).Header().Get("Location"))
	require.Contains(t, b.get(path).text, "The job has changed since this page was shown: it is PAUSED now.")
	b.cookies = nil
	require.Equal(t, path, b.post(path+"/rate", url.Values{"seen": {"7"}, "rate_limit": {"9"}}).Header().Get("Location"))
	require.Contains(t, b.get(path).text, "it is 5 per second now. Nothing was changed.")
	b.cookies = nil
	beside := b.post(path+"/cancel", url.Values{"state": {"RUNNING"}, "back": {"/jobs?kind=retry"}}).Header().Get("Location")
	require.Equal(t, "/jobs?conflict="+otherJob+"&kind=retry#j-"+otherJob, beside)
	b.post(path+"/pause", url.Values{"state": {"RUNNING"}})
	require.Contains(t, b.get(path).text, "The job is paused already.", "whoever wants what is already so meets no conflict")
	require.Empty(t, b.calls)
	b.post(path+"/cancel", url.Values{"state": {"PAUSED"}, "reason": {"wrong group"}})
	b.post(path+"/rate", url.Values{"seen": {"5"}, "rate_limit": {""}})
	require.Equal(t, []string{"POST /api/v1/jobs/" + otherJob + `/cancel {"reason":"wrong group"}`, "PATCH /api/v1/jobs/" + otherJob + ` {"rate_limit":0}`}, b.calls)
}

func TestAJobThatEndedMeanwhileIsANoticeBesideItsRow(t *testing.T) {
	t.Parallel()
	api := jobAPI(retryJob())
	api["POST /api/v1/jobs/"+otherJob+"/pause"] = apiError{http.StatusConflict, "SYS_DLQ_CONFLICT", "job has already ended"}
	api["GET /api/v1/jobs"] = map[string]any{"jobs": []any{retryJob(map[string]any{"state": "COMPLETED"})}, "pagination": map[string]any{"next_cursor": "abc"}}
	b := open(t, api)
	to := b.post("/jobs/"+otherJob+"/pause", url.Values{"state": {"RUNNING"}, "back": {"/jobs?state=RUNNING&cursor=x"}}).Header().Get("Location")
	page, _, _ := strings.Cut(to, "#")
	list := b.get(page).text
	require.Contains(t, list, "This job has changed meanwhile. Nothing was changed.")
	require.Contains(t, list, `href="/jobs?cursor=abc&amp;state=RUNNING"`)
	require.Contains(t, list, `href="/jobs?state=RUNNING"`, "the first page")
	require.Contains(t, list, `href="/jobs" aria-label="Remove this filter: RUNNING"`)
}

func TestACompletedJobIsNotCalledRepaired(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]map[string]any{
		"2 messages came back: their cause is not repaired.":                      {"state": "COMPLETED"},
		"1 message could not be delivered and is PENDING again.":                  {"state": "COMPLETED"},
		"3 sent messages wait for their consumer.":                                {"state": "COMPLETED"},
		"The job was cancelled.":                                                  {"state": "CANCELLED"},
		"The job ended by an error.":                                              {"state": "FAILED", "reason": "its workflow is gone"},
		"All 20 messages were sent, and the consumers are past each of them.":     {"state": "COMPLETED", "failed": 0, "came_back": 0, "verified": map[string]any{"yes": 20}},
		"Nobody can say whether a consumer got past 3 sent messages.":             {"state": "COMPLETED"},
		"No message matched, so nothing was sent.":                                {"state": "COMPLETED", "matched": 0, "retried": 0, "failed": 0, "came_back": 0, "verified": nil},
		"/plans/new?error=timeout&amp;kind=retry&amp;rate_limit=5&amp;reason=why": {"state": "CANCELLED"},
	} {
		text := open(t, jobAPI(retryJob(change))).get("/jobs/" + otherJob).text
		require.Contains(t, text, want)
	}
	require.Contains(t, open(t, jobAPI(changeJob(map[string]any{"state": "COMPLETED", "changed": 9}))).get("/jobs/"+otherJob).text, "The job is done: 9 messages were changed.")
}

func TestARampShowsItsStep(t *testing.T) {
	t.Parallel()
	text := open(t, jobAPI(retryJob())).get("/jobs/" + otherJob).text
	require.Contains(t, text, `<li class="now" aria-current="step">`)
	for state, count := range map[string]int{"done": 2, "next": 1} {
		require.Equal(t, count, strings.Count(text, `<li class="`+state+`"`), state)
	}
}

func TestTheListOfJobsIsEmptyInTwoWays(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/jobs": map[string]any{"jobs": []any{}, "pagination": map[string]any{}}})
	require.Contains(t, b.get("/jobs").text, "No jobs yet.")
	require.Contains(t, b.get("/jobs?kind=retry&topic=t&since=24h").text, "No job matches.")
}

func TestHostileTextsInAJobStayText(t *testing.T) {
	t.Parallel()
	evil := `"><script>alert(1)</script>`
	job := retryJob(map[string]any{
		"topic": evil, "reason": evil, "request_reason": evil, "filters": map[string]any{"error": evil, "headers": map[string]any{evil: evil}}, "target_topic": evil,
		"workflow": map[string]any{"workflow_id": evil, "url": "javascript:alert(1)"}, "verified": map[string]any{"unknown": 1, "unknown_reasons": map[string]int{evil: 1}},
	})
	api := jobAPI(job)
	api["GET /api/v1/jobs"] = map[string]any{"jobs": []any{job}, "pagination": map[string]any{}}
	b := open(t, api)
	for _, path := range []string{"/jobs/" + otherJob, "/jobs", "/jobs?" + url.Values{"topic": {evil}, "state": {evil}, "since": {evil}}.Encode()} {
		got := b.get(path)
		require.Equal(t, http.StatusOK, got.Code)
		require.NotContains(t, got.text, "<script>alert")
		require.NotContains(t, got.text, `href="javascript`)
	}
}
