package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
)

// startBulk adds n messages and starts a bulk retry. The bulk retry waits after it has claimed them.
func (w *world) startBulk(n int) (path string, ids []dlq.ID) {
	w.t.Helper()
	w.retries.hold()
	ids = w.add(n)
	got := w.json(http.MethodPost, jobsPath, wholeTopic, "Prefer: respond-async")
	require.Equal(w.t, http.StatusAccepted, got.status, got.body)
	require.Eventually(w.t, func() bool { return w.status(ids[0]) == "RETRYING" }, 20*time.Second, 5*time.Millisecond)
	return got.header.Get("Location"), ids
}

func TestPauseLeavesNothingRetryingAndResumeContinues(t *testing.T) {
	t.Parallel()
	w := start(t)
	path, ids := w.startBulk(5)
	got := w.json(http.MethodPost, path+"/pause", `{"reason":"deploying"}`)
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, path, got.header.Get("Location"))
	require.Equal(t, "PAUSED", got.field(t, "state"))
	require.Equal(t, "deploying", got.field(t, "reason"))
	require.Nil(t, got.field(t, "estimated_end"))
	for _, id := range ids {
		require.Equal(t, "PENDING", w.status(id))
	}

	again := w.call(http.MethodPost, path+"/pause")
	require.Equal(t, http.StatusOK, again.status, again.body)
	require.Equal(t, "deploying", again.field(t, "reason"), "a pause without a reason keeps the one it has")
	another := w.json(http.MethodPost, path+"/pause", `{"reason":"still deploying"}`)
	require.Equal(t, http.StatusOK, another.status, another.body)
	require.Equal(t, "still deploying", another.field(t, "reason"))

	joined := w.call(http.MethodPost, retryAllPath, "Prefer: wait=0")
	require.Equal(t, http.StatusAccepted, joined.status)
	require.Equal(t, "0 messages retried in topic orders.dlq.v1 so far; the bulk retry is paused: still deploying", joined.field(t, "message"))

	for range 2 { // a second resume changes nothing
		got = w.call(http.MethodPost, path+"/resume")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, "RUNNING", got.field(t, "state"))
		require.NotEqual(t, "still deploying", got.field(t, "reason"))
	}
	w.retries.release()
	require.Eventually(t, func() bool { return w.call(http.MethodGet, path).field(t, "state") == "COMPLETED" }, 20*time.Second, 5*time.Millisecond)
	got = w.call(http.MethodGet, path)
	require.Nil(t, got.field(t, "reason"))
	require.EqualValues(t, 5, got.field(t, "retried"))
}

func TestPauseWithoutAReasonShowsADefaultReason(t *testing.T) {
	t.Parallel()
	w := start(t)
	path, _ := w.startBulk(1)
	require.Equal(t, "paused by an operator", w.json(http.MethodPost, path+"/pause", "{}").field(t, "reason"))
}

func TestChangeOfTheRateLimitShowsAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	path, _ := w.startBulk(3)
	for _, rate := range []string{"1000000", "50", "50", "0"} {
		got := w.json(http.MethodPatch, path, `{"rate_limit":`+rate+`}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, `"rate_limit":`+rate+`,`)
	}
	for body, field := range map[string]string{
		"": "rate_limit", "{}": "rate_limit", `{"rate_limit":null}`: "rate_limit", `{"rate_limit":-1}`: "rate_limit", `{"rate_limit":1000001}`: "rate_limit",
		`{"rate_limit":1,"order":"none"}`: "order", `{`: "body",
	} {
		_, fields := requireError(t, w.json(http.MethodPatch, path, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{field}, fields, body)
	}
	require.EqualValues(t, 0, w.call(http.MethodGet, path).field(t, "rate_limit"))
}

func TestCommandsRefuseUnknownFields(t *testing.T) {
	t.Parallel()
	w := start(t)
	path, _ := w.startBulk(1)
	for command, body := range map[string]string{
		"/pause": `{"reasons":"x"}`, "/resume": `{"rate_limit":1}`, "/cancel": `{"reasons":"x"}`,
	} {
		requireError(t, w.json(http.MethodPost, path+command, body), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
	for _, reason := range []string{`7`, `null`, `"` + strings.Repeat("a", 1001) + `"`} {
		_, fields := requireError(t, w.json(http.MethodPost, path+"/pause", `{"reason":`+reason+`}`), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Equal(t, []string{"reason"}, fields)
	}
	require.Equal(t, "RUNNING", w.call(http.MethodGet, path).field(t, "state"))
}

func TestCancelStopsABulkRetryAndLeavesNothingRetrying(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		w := start(t)
		path, ids := w.startBulk(5)
		if paused {
			w.call(http.MethodPost, path+"/pause")
		}
		got := w.call(http.MethodPost, path+"/cancel")
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, path, got.header.Get("Location"))
		require.Equal(t, "CANCELLED", got.field(t, "state"))
		require.EqualValues(t, 5, got.field(t, "skipped"))
		for _, id := range ids {
			require.Equal(t, "PENDING", w.status(id))
		}
	}
}

var commands = [][3]string{
	{http.MethodPost, "/pause", ""}, {http.MethodPost, "/resume", ""}, {http.MethodPost, "/cancel", ""}, {http.MethodPatch, "", `{"rate_limit":7}`},
}

func TestCommandsToAJobThatHasEndedAre409(t *testing.T) {
	t.Parallel()
	w := start(t)
	path := w.json(http.MethodPost, jobsPath, wholeTopic).header.Get("Location")
	w.retries.unavailable = dlq.ErrUnavailable // the end of a job is known without Temporal
	for _, command := range commands {
		message, _ := requireError(t, w.json(command[0], path+command[1], command[2]), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, "job has already ended: state=COMPLETED", message)
	}
}

func TestCommandsWithoutAWorkflowAreAConflict(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	id := dlq.NewID()
	_, err := w.store.CreateJob(t.Context(), nil, dlq.Job{ID: id, Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders.dlq.v1"}}})
	require.NoError(t, err) // the workflow of the job was not started
	path := jobsPath + "/" + id.String()
	w.retries.unavailable = dlq.ErrUnavailable
	for _, command := range commands {
		requireError(t, w.json(command[0], path+command[1], command[2]), http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE")
	}
	w.retries.unavailable = nil
	for _, command := range commands {
		if command[1] == "/cancel" {
			continue
		}
		message, _ := requireError(t, w.json(command[0], path+command[1], command[2]), http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Contains(t, message, "has no running workflow; cancel it")
	}
	got := w.call(http.MethodPost, path+"/cancel")
	require.Equal(t, http.StatusOK, got.status, got.body)
	require.Equal(t, "CANCELLED", got.field(t, "state"))
}

// reads counts how often rows of jobs are read.
type reads struct {
	Store
	n atomic.Int64
}

func (r *reads) Job(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	r.n.Add(1)
	return r.Store.Job(ctx, id)
}

func TestCommandsAnswer202UntilTheyTakeEffect(t *testing.T) {
	t.Parallel()
	counted := &reads{}
	w := start(t, wrapped(func(s Store) Store { counted.Store = s; return counted }))
	path, _ := w.startBulk(1)
	w.retries.ignoresCommands = true
	counted.n.Store(0)
	began := time.Now()
	got := w.json(http.MethodPatch, path, `{"rate_limit":7}`)
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, path, got.header.Get("Location"))
	require.EqualValues(t, 0, got.field(t, "rate_limit"))
	require.Greater(t, time.Since(began), time.Second, "it waits a moment")
	require.EqualValues(t, 2, counted.n.Load(), "before the command and after the wait")
	w.server.Drain() // ends the wait for the end of a job
	began = time.Now()
	got = w.call(http.MethodPost, path+"/cancel")
	require.Equal(t, http.StatusAccepted, got.status, got.body)
	require.Equal(t, "RUNNING", got.field(t, "state"))
	require.Less(t, time.Since(began), 2*time.Second)
}

func TestACallThatWaitsForAJobReadsItsRowOnceAfterTheWait(t *testing.T) {
	t.Parallel()
	counted := &reads{}
	w := start(t, wrapped(func(s Store) Store { counted.Store = s; return counted }))
	path, _ := w.startBulk(1)
	require.EqualValues(t, 1, counted.n.Load(), "after the count")
	for _, command := range []string{"/pause", "/resume", "/cancel"} {
		counted.n.Store(0)
		got := w.call(http.MethodPost, path+command)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.EqualValues(t, 2, counted.n.Load(), "%s: before the command and after its effect", command)
	}
	counted.n.Store(0)
	path = w.json(http.MethodPost, jobsPath, markAllDead, "Prefer: respond-async").header.Get("Location")
	require.EqualValues(t, 1, counted.n.Load(), "after the count")
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, path+"/cancel").status)
	require.EqualValues(t, 4, counted.n.Load(), "two checks before the stop, and one read after the end")
}

// ending is a store whose bulk retry ends after the first read.
type ending struct {
	Store
	reads int
}

func (e *ending) Job(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	bulk, err := e.Store.Job(ctx, id)
	if e.reads++; e.reads > 1 {
		bulk.State = dlq.JobCompleted
	}
	return bulk, err
}

func TestCommandsThatRaceWithTheEndReportIt(t *testing.T) {
	t.Parallel()
	for _, command := range commands {
		w := start(t)
		path, _ := w.startBulk(1)
		w.retries.ignoresCommands = true
		late := start(t, with(&ending{Store: w.store}), func(o *api.Options) { o.Retries = w.retries })
		got := late.json(command[0], path+command[1], command[2])
		gone := start(t, with(&ending{Store: w.store})).json(command[0], path+command[1], command[2])
		if command[1] == "/cancel" { // the job has ended, as the sender wanted
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Equal(t, http.StatusOK, gone.status, gone.body)
			continue
		}
		message, _ := requireError(t, gone, http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, "job has already ended: state=COMPLETED", message, "its workflow had closed")
		message, _ = requireError(t, got, http.StatusConflict, "SYS_DLQ_CONFLICT")
		require.Equal(t, "job has already ended: state=COMPLETED", message)
	}
}

// slow gets no answer from Temporal.
type slow struct{ api.Retries }

func (slow) SteerJob(ctx context.Context, _ *dlq.Operation, _ dlq.Job, _ dlq.Command) error {
	<-ctx.Done()
	return ctx.Err()
}

// early gets the server's time-out just before its own time-out.
type early struct{ api.Retries }

func (early) SteerJob(context.Context, *dlq.Operation, dlq.Job, dlq.Command) error {
	return fmt.Errorf("%w: no worker: %w", dlq.ErrUnavailable, context.DeadlineExceeded)
}

// readableOnce is a store from which a job can be read only once.
type readableOnce struct {
	Store
	reads int
}

func (s *readableOnce) Job(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	if s.reads++; s.reads > 1 {
		return dlq.Job{}, dlq.ErrUnavailable
	}
	return s.Store.Job(ctx, id)
}

func TestCommandsAnswer202WhenStoreOrTemporalDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.Options, *world){
		"workflow": func(o *api.Options, w *world) { with(w.store)(o); o.Retries = slow{w.retries} },
		"server":   func(o *api.Options, w *world) { with(w.store)(o); o.Retries = early{w.retries} },
		"store":    func(o *api.Options, w *world) { with(&readableOnce{Store: w.store})(o); o.Retries = w.retries },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			path, _ := w.startBulk(1)
			got := start(t, func(o *api.Options) { change(o, w) }).call(http.MethodPost, path+"/pause")
			require.Equal(t, http.StatusAccepted, got.status, got.body)
			require.Equal(t, "RUNNING", got.field(t, "state"))
			if row := w.operations()[0]; name != "store" {
				require.Equal(t, "unknown", row["outcome"])
				require.Equal(t, map[string]any{"status": 202.0, "message": "Temporal has not confirmed the command in time"}, row["detail"])
				require.Equal(t, got.header.Get("X-Request-Id"), row["request_id"])
			} else {
				require.Equal(t, "accepted", row["outcome"], "Temporal has confirmed it")
			}
		})
	}
}
