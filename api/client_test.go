package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// goClient is a Go client of the server. It uses the token.
func (w *world) goClient(token string) *client.Client {
	w.t.Helper()
	c, err := client.New("http://"+w.address, client.Config{HTTP: w.client, Token: client.StaticToken(token), PollEvery: 5 * time.Millisecond})
	require.NoError(w.t, err)
	return c
}

func TestTheGoClientFindsMessagesAndRunsAPlan(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	ctx, c := t.Context(), w.goClient("admin")
	letters := client.Letters{}
	for i := range 5 {
		headers := &client.Letter_Headers{}
		require.NoError(t, headers.FromLetterHeaders0(client.LetterHeaders0{"tenant": new(fmt.Sprintf("t%d", i%2))}))
		letters.Messages = append(letters.Messages, client.Letter{
			Value: json.RawMessage(`{"n": 9007199254740993}`), Key: new(fmt.Sprintf("k%d", i)), Headers: headers,
		})
	}
	var request client.HandInRequest
	require.NoError(t, request.FromLetters(letters))
	params := &client.HandInParams{IdempotencyKey: new("once")}
	stored, err := c.HandIn(ctx, "orders.dlq.v1", params, request)
	require.NoError(t, err)
	again, err := c.HandIn(ctx, "orders.dlq.v1", params, request)
	require.NoError(t, err)
	require.Equal(t, stored.Value, again.Value)

	var ids []string
	for message, err := range c.AllMessages(ctx, "orders.dlq.v1", &client.ListMessagesParams{PageSize: new(int64(2)), Sort: new(client.ListMessagesParamsSortCreatedAt)}) {
		require.NoError(t, err)
		require.Contains(t, string(message.Payload), "9007199254740993")
		ids = append(ids, message.ID)
	}
	require.Len(t, ids, 5)
	found := 0
	for _, err := range c.AllMessages(ctx, "orders.dlq.v1", &client.ListMessagesParams{NotKey: &[]string{"k1"}}, client.Query("header.tenant", "t1")) {
		require.NoError(t, err)
		found++
	}
	require.Equal(t, 1, found)

	one, err := c.GetMessage(ctx, ids[0], nil)
	require.NoError(t, err)
	require.Equal(t, client.StatusPENDING, one.Value.Status)
	require.False(t, one.NotModified())
	same, err := c.GetMessage(ctx, ids[0], &client.GetMessageParams{IfNoneMatch: new(one.ETag())})
	require.NoError(t, err)
	require.True(t, same.NotModified())

	var work client.JobRequest
	status := client.StatusFilter{client.StatusPENDING}
	require.NoError(t, work.FromChangeJobRequest(client.ChangeJobRequest{
		Kind: client.ChangeKindDead, Topic: "orders.dlq.v1", Status: &status, Not: &client.Negations{Key: client.Values[string]{"k0"}},
	}))
	planned, err := c.CreatePlan(ctx, work)
	require.NoError(t, err)
	value, err := planned.Value.ValueByDiscriminator()
	require.NoError(t, err)
	plan := value.(client.ChangePlan)
	require.EqualValues(t, 4, plan.Matched)
	require.Len(t, plan.Sample, 4)

	var start client.JobStart
	require.NoError(t, start.FromPlanStart(client.PlanStart{Plan: plan.ID, Reason: new("a test")}))
	seen := 0
	job, err := c.RunJob(ctx, start, func(client.Job) { seen++ })
	require.NoError(t, err)
	change, err := job.AsChangeJob()
	require.NoError(t, err)
	require.Equal(t, client.JobStateCOMPLETED, change.State)
	require.EqualValues(t, 4, change.Changed)
	require.Equal(t, "a test", *change.RequestReason)
	require.NotZero(t, seen)
	for listed, err := range c.AllJobs(ctx, nil) {
		require.NoError(t, err)
		summary, err := listed.Summary()
		require.NoError(t, err)
		require.Equal(t, plan.ID, summary.ID)
	}
	for operation, err := range c.AllOperations(ctx, &client.ListOperationsParams{Subject: new("admin"), PageSize: new(int64(1))}) {
		require.NoError(t, err)
		require.Equal(t, "admin", operation.Subject)
	}
}

// losing loses the first answer of the server.
type losing struct {
	http.RoundTripper
	answers int
}

func (f *losing) RoundTrip(request *http.Request) (*http.Response, error) {
	got, err := f.RoundTripper.RoundTrip(request)
	if f.answers++; f.answers > 1 || err != nil {
		return got, err
	}
	_ = got.Body.Close()
	return nil, io.ErrUnexpectedEOF
}

func TestTheGoClientStartsTheJobOfAPlanOnceThoughItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(3)
	plan, _ := w.planned(`{"kind":"retry","topic":"orders.dlq.v1"}`)
	transport := &losing{RoundTripper: w.client.Transport}
	c, err := client.New("http://"+w.address, client.Config{HTTP: &http.Client{Transport: transport}, PollEvery: 5 * time.Millisecond})
	require.NoError(t, err)
	var start client.JobStart
	require.NoError(t, start.FromPlanStart(client.PlanStart{Plan: plan.field(t, "id").(string)}))
	job, err := c.RunJob(t.Context(), start, nil)
	require.NoError(t, err)
	retry, err := job.AsRetryJob()
	require.NoError(t, err)
	require.Equal(t, client.JobStateCOMPLETED, retry.State)
	require.EqualValues(t, 3, retry.Retried)
	require.Equal(t, 1, w.retries.starts())
	require.Greater(t, transport.answers, 1)

	shown, err := c.GetPlan(t.Context(), retry.ID, nil)
	require.NoError(t, err)
	planned, err := shown.Value.AsRetryPlan()
	require.NoError(t, err)
	require.Equal(t, retry.ID, *planned.JobID)
	require.Equal(t, w.call(http.MethodGet, plansPath+"/"+retry.ID).body, string(shown.Body))
}

func TestTheGoClientWaitsForARetryThatItCanStopFollowing(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	w.add(3)
	c := w.goClient("admin")
	var start client.JobStart
	require.NoError(t, start.FromRetryJobRequest(client.RetryJobRequest{Kind: client.RetryJobRequestKindRetry, Topic: "orders.dlq.v1"}))
	w.retries.hold()
	ctx, cancel := context.WithCancel(t.Context())
	running, err := c.RunJob(ctx, start, func(client.Job) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	summary, err := running.Summary()
	require.NoError(t, err)
	require.Equal(t, client.JobStateRUNNING, summary.State)

	w.retries.release()
	job, err := c.WaitForJob(t.Context(), summary.ID, nil)
	require.NoError(t, err)
	retry, err := job.AsRetryJob()
	require.NoError(t, err)
	require.Equal(t, client.JobStateCOMPLETED, retry.State)
	require.EqualValues(t, 3, retry.Retried)
}

func TestTheGoClientReportsTheErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t)
	_, err := w.goClient("admin").GetMessage(t.Context(), "550e8400-e29b-41d4-a716-446655440000", nil)
	require.Equal(t, client.ErrorCodeNotFound, client.CodeOf(err))
	_, err = w.goClient("wrong").ListTopics(t.Context(), nil)
	require.Equal(t, client.ErrorCodeUnauthenticated, client.CodeOf(err))
	_, err = w.goClient("admin").ListJobs(t.Context(), &client.ListJobsParams{PageSize: new(int64(0))})
	require.ErrorContains(t, err, "page_size: must be an integer from 1 to 200")
}
