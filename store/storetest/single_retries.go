package storetest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// askRetry records the request of a subject to retry a message, or the outcome of the request.
func (f fixture) askRetry(m dlq.Message, subject, request string, outcome dlq.OperationOutcome, detail string) dlq.ID {
	f.t.Helper()
	o := operation(subject, dlq.PermMessageRetry)
	o.ID, o.Target, o.TargetID, o.Topic, o.RequestID = dlq.NewID(), dlq.TargetMessage, m.ID, m.DLQTopic, request
	o.WorkflowID, o.Outcome, o.Detail = "retry-message-"+m.ID.String(), outcome, json.RawMessage(detail)
	require.NoError(f.t, f.RecordOperation(f.t.Context(), o))
	return o.ID
}

// requireSingleRetries checks the states of all single retries, by operation, and their order.
func (f fixture) requireSingleRetries(want map[dlq.ID]dlq.SingleRetryState, newest ...dlq.ID) []dlq.SingleRetry {
	f.t.Helper()
	page, err := f.SingleRetries(f.t.Context(), dlq.OperationQuery{PageSize: 100})
	require.NoError(f.t, err)
	got, order := map[dlq.ID]dlq.SingleRetryState{}, []dlq.ID{}
	for i := range page.Entries {
		got[page.Entries[i].ID] = page.Entries[i].End().State
		order = append(order, page.Entries[i].ID)
	}
	require.Equal(f.t, want, got)
	require.Equal(f.t, newest, order)
	return page.Entries
}

const retryDetail = `{"command":"retry"}`

var singleRetries = map[string]func(*testing.T, fixture){
	"a single retry shows how far it is": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrivals(1, dlqtest.Retries(0, 5))...)[0]
		var newest []dlq.ID
		want := map[dlq.ID]dlq.SingleRetryState{}
		ask := func() dlq.ID {
			newest = append([]dlq.ID{f.askRetry(m, "ann", dlq.NewID().String(), dlq.OperationAccepted, retryDetail)}, newest...)
			return newest[0]
		}
		for _, c := range []struct {
			result dlq.Result
			state  dlq.SingleRetryState
		}{
			{dlq.ResultFailed, "FAILED"}, {dlq.ResultReleased, "CANCELLED"}, {dlq.ResultDelivered, "SUCCEEDED"},
		} {
			id, owner := ask(), dlqtest.Owner()
			want[id] = "UNCLAIMED"
			f.requireSingleRetries(want, newest...)
			_, err := f.Claim(t.Context(), m.ID, owner, id)
			require.NoError(t, err)
			want[id] = "RUNNING"
			require.Equal(t, owner.Token, f.requireSingleRetries(want, newest...)[0].Run)
			_, _, err = f.Finalize(t.Context(), owner, dlqtest.Outcome(m.ID, c.result))
			require.NoError(t, err)
			want[id] = c.state
			f.requireSingleRetries(want, newest...)
		}
		all := f.requireSingleRetries(want, newest...)
		failed := all[2].End()
		require.Equal(t, dlqtest.Outcome(m.ID, dlq.ResultFailed).Error, failed.Error)
		require.False(t, failed.EndedAt.IsZero())
		require.False(t, all[0].End().EndedAt.IsZero())
		f.archiveAll()
		f.requireSingleRetries(want, newest...)
		_, err := f.PurgeBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		f.requireSingleRetries(map[dlq.ID]dlq.SingleRetryState{newest[0]: "GONE", newest[1]: "GONE", newest[2]: "GONE"}, newest...)
	},

	"a request that joined a single retry has the state of that retry": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival())[0]
		first, owner := f.askRetry(m, "ann", "r-1", dlq.OperationAccepted, retryDetail), dlqtest.Owner()
		second := f.askRetry(m, "bob", "r-2", dlq.OperationAccepted, retryDetail)
		f.askRetry(m, "bob", "r-2", dlq.OperationAccepted, `{"command":"retry","joined_run":"`+owner.Token+`"}`)
		f.requireSingleRetries(map[dlq.ID]dlq.SingleRetryState{first: "UNCLAIMED", second: "UNCLAIMED"}, second, first)
		_, err := f.Claim(t.Context(), m.ID, owner, first)
		require.NoError(t, err)
		all := f.requireSingleRetries(map[dlq.ID]dlq.SingleRetryState{first: "RUNNING", second: "RUNNING"}, second, first)
		require.Equal(t, []any{true, "bob", owner.Token, false, "ann"}, []any{all[0].Joined, all[0].Subject, all[0].Run, all[1].Joined, all[1].Subject})
		_, _, err = f.Finalize(t.Context(), owner, dlqtest.Outcome(m.ID, dlq.ResultReleased))
		require.NoError(t, err)
		f.requireSingleRetries(map[dlq.ID]dlq.SingleRetryState{first: "CANCELLED", second: "CANCELLED"}, second, first)
	},

	"a refused single retry has failed, and an unconfirmed one is unclaimed": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrivals(2)...)
		refused := f.askRetry(m[0], "ann", "r-1", dlq.OperationAccepted, retryDetail)
		f.askRetry(m[0], "ann", "r-1", dlq.OperationRefused, `{"status":409,"message":"it is DEAD"}`)
		unknown := f.askRetry(m[1], "ann", "r-1", dlq.OperationAccepted, retryDetail)
		f.askRetry(m[1], "ann", "r-1", dlq.OperationUnknown, `{"status":503,"message":"away"}`)
		f.askRetry(m[1], "bob", "r-1", dlq.OperationRefused, `{"message":"the request id of somebody else"}`)
		all := f.requireSingleRetries(map[dlq.ID]dlq.SingleRetryState{refused: "FAILED", unknown: "UNCLAIMED"}, unknown, refused)
		require.Equal(t, []string{"away", "it is DEAD"}, []string{all[0].End().Error, all[1].End().Error})
	},

	"single retries are listed by cursor, subject, topic and grants": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(), dlqtest.Arrival(dlqtest.FromTopic("stock.dlq", "stock")))
		var ids []dlq.ID
		for i := range 6 {
			ids = append(ids, f.askRetry(m[i%2], []string{"ann", "bob", "eve"}[i%3], dlq.NewID().String(), dlq.OperationAccepted, retryDetail))
		}
		require.NoError(t, f.RecordOperation(t.Context(), operation("ann", dlq.PermMessageDead)))
		for name, c := range map[string]struct {
			query dlq.OperationQuery
			want  []dlq.ID
		}{
			"topic":   {dlq.OperationQuery{Topic: "stock.dlq"}, []dlq.ID{ids[5], ids[3], ids[1]}},
			"subject": {dlq.OperationQuery{Subject: "eve"}, []dlq.ID{ids[5], ids[2]}},
			"within":  {dlq.OperationQuery{Within: "^(orders.*)$"}, []dlq.ID{ids[4], ids[2], ids[0]}},
			"nothing": {dlq.OperationQuery{Subject: "zoe"}, nil},
		} {
			var got []dlq.ID
			for q := c.query; ; {
				q.PageSize = 2
				page, err := f.SingleRetries(t.Context(), q)
				require.NoError(t, err)
				for i := range page.Entries {
					got = append(got, page.Entries[i].ID)
				}
				if page.Next == nil {
					break
				}
				q.After = new(page.Entries[1].Place())
			}
			require.Equal(t, c.want, got, name)
		}
	},
}
