package dlq_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestTheStateOfASingleRetryFollowsFromTheRowsOfItsMessage(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	message := func(status dlq.Status, token string, change ...func(*dlq.Message)) dlq.Message {
		m := dlq.Message{Status: status, Owner: dlq.Owner{Token: token}, MaxRetries: 3, UpdatedAt: at}
		for _, c := range change {
			c(&m)
		}
		return m
	}
	as := func(r dlq.Resolution) func(*dlq.Message) { return func(m *dlq.Message) { m.Resolution = r } }
	failed := dlq.Attempt{Result: dlq.ResultFailed, Error: "away", EndedAt: at}
	rejected := dlq.Attempt{Result: dlq.ResultRejected, Error: "too large", EndedAt: at}
	delivered := dlq.Attempt{Result: dlq.ResultDelivered, EndedAt: at}
	for name, c := range map[string]struct {
		retry dlq.SingleRetry
		want  dlq.SingleRetryEnd
	}{
		"no worker has it yet":                   {dlq.SingleRetry{Message: message("PENDING", "")}, dlq.SingleRetryEnd{State: "UNCLAIMED"}},
		"another run has the message":            {dlq.SingleRetry{Message: message("RETRYING", "b")}, dlq.SingleRetryEnd{State: "UNCLAIMED"}},
		"the start was not confirmed":            {dlq.SingleRetry{Message: message("PENDING", ""), Refusal: "away"}, dlq.SingleRetryEnd{State: "UNCLAIMED", Error: "away"}},
		"it was refused":                         {dlq.SingleRetry{Message: message("DEAD", ""), Refusal: "it is DEAD", IsRefused: true}, dlq.SingleRetryEnd{State: "FAILED", Error: "it is DEAD"}},
		"it was refused, and the message went":   {dlq.SingleRetry{Refusal: "not found", IsRefused: true}, dlq.SingleRetryEnd{State: "FAILED", Error: "not found"}},
		"it runs":                                {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("RETRYING", "a")}, dlq.SingleRetryEnd{State: "RUNNING"}},
		"it joined a run without a claim":        {dlq.SingleRetry{Run: "a", Joined: true, Message: message("PENDING", "")}, dlq.SingleRetryEnd{State: "UNCLAIMED"}},
		"it delivered":                           {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("RESOLVED", "a")}, dlq.SingleRetryEnd{State: "SUCCEEDED", EndedAt: at}},
		"it delivered after it lost its claim":   {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("RETRYING", "b"), Attempt: delivered}, dlq.SingleRetryEnd{State: "SUCCEEDED", EndedAt: at}},
		"another run delivered":                  {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("RESOLVED", "b"), Attempt: failed}, dlq.SingleRetryEnd{State: "FAILED", EndedAt: at, Error: "away"}},
		"it failed":                              {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("PENDING", "a"), Attempt: failed}, dlq.SingleRetryEnd{State: "FAILED", EndedAt: at, Error: "away"}},
		"it failed for good":                     {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("DEAD", "a", as("refused")), Attempt: rejected}, dlq.SingleRetryEnd{State: "FAILED", EndedAt: at, Error: "too large"}},
		"an edited copy replaced a failed one":   {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("RESOLVED", "a", as("replaced")), Attempt: failed}, dlq.SingleRetryEnd{State: "FAILED", EndedAt: at, Error: "away"}},
		"it was cancelled":                       {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("PENDING", "")}, dlq.SingleRetryEnd{State: "CANCELLED"}},
		"it was cancelled, and another succeeds": {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("RESOLVED", "b")}, dlq.SingleRetryEnd{State: "CANCELLED"}},
		"the message was marked dead meanwhile":  {dlq.SingleRetry{Run: "a", Claimed: true, Message: message("DEAD", "a", as("given_up"))}, dlq.SingleRetryEnd{State: "CANCELLED"}},
		"the message is gone":                    {dlq.SingleRetry{Run: "a", Claimed: true}, dlq.SingleRetryEnd{State: "GONE"}},
		"the message went before a claim":        {dlq.SingleRetry{}, dlq.SingleRetryEnd{State: "GONE"}},
	} {
		require.Equal(t, c.want, c.retry.End(), name)
	}
}

func TestASingleRetryHasTheTargetOfItsRequest(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{`{"command":"retry","target_topic":"a"}`: "a", `{"command":"retry"}`: "", `{"omitted": true}`: "", "": ""} {
		r := dlq.SingleRetry{Operation: dlq.Operation{Detail: json.RawMessage(detail)}}
		require.Equal(t, want, r.TargetTopic(), detail)
	}
}
