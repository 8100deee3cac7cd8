package storetest

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// Basic has the methods that package memory has too.
type Basic interface {
	Ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error)
	Positions(ctx context.Context, partitions []dlq.Partition) ([]dlq.Position, error)
	Pending(ctx context.Context, dlqTopics []string) (counts []int64, all int64, err error)

	List(ctx context.Context, q dlq.ListQuery) (dlq.Page, error)
	Details(ctx context.Context, q dlq.DetailQuery) ([]dlq.Detail, error)
	Weigh(ctx context.Context, q dlq.DetailQuery) ([]dlq.Weight, error)
	Message(ctx context.Context, id dlq.ID) (dlq.Message, error)
	Delete(ctx context.Context, asked *dlq.Operation, id dlq.ID) error
	MarkDead(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error)

	Claim(ctx context.Context, id dlq.ID, owner dlq.Owner, operation dlq.ID) (dlq.Claim, error)
	Claimed(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error)
	Envelope(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error)
	Finalize(ctx context.Context, owner dlq.Owner, outcome dlq.Outcome) (m dlq.Message, ended bool, err error)
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
}

// basicCases are the cases of Run that call only methods of Basic.
var basicCases = []string{
	"an empty batch stores nothing",
	"the order of the batch is the order of arrival",
	"messages of a batch have the same time, the next batch has a later one",
	"a known source is stored once",
	"a source that is in a batch twice is stored once",
	"a topic that was created again is another source",
	"a source is stored once by concurrent writers",
	"positions move with the stored messages, and only from the position in the database",
	"one of several readers of a partition moves its position",
	"pending messages are counted",
	"a deleted message can be stored again",
	"a new message is PENDING and was never retried",
	"an arrival becomes a message",
	"a message that came back with its retries used up is DEAD",
	"values from headers are limited",
	"hostile bytes are returned unchanged",

	"an unknown id is not found",
	"a deleted message is not found",
	"a message that is being retried is not deleted",
	"an operator marks messages dead",
	"a change of status moves updated_at",
	"a message weighs at least its bytes",

	"a topic is a dead-letter topic or an original topic",
	"pages by number and by cursor are the same",
	"a cursor is stable while messages are stored and deleted",
	"filter by status",
	"a list is limited to the topics of a principal",
	"a list of a topic leaves out large payloads and ends early at its bytes",
	"a total is exact up to its limit",

	"a claim counts the retry and returns the record",
	"an owner that has lost its message gets no record",
	"a claim needs an owner",
	"a message of another owner is not claimed",
	"one of several concurrent claims wins",
	"a RESOLVED or DEAD message is not claimed",
	"a message whose original topic is a dead-letter topic is not claimed",
	"the result of a retry decides its status and its resolution",
	"retries that did not deliver are stored, oldest first",
	"finalizing twice changes nothing",
	"only the owner finalizes",
	"a message that was marked dead while it was sent is RESOLVED once it is delivered",
	"messages of a terminated workflow are released",
}

// RunBasic runs the cases that need only the methods of Basic. open is like the open of Run.
func RunBasic(t *testing.T, open func(t *testing.T) Basic) {
	all := map[string]func(*testing.T, fixture){}
	for _, suite := range []map[string]func(*testing.T, fixture){ingest, messages, lists, retries, basics} {
		maps.Copy(all, suite)
	}
	suite := map[string]func(*testing.T, fixture){}
	for _, name := range basicCases {
		require.Contains(t, all, name)
		suite[name] = all[name]
	}
	run(t, func(t *testing.T) Store { return basicOnly{Basic: open(t)} }, suite)
}

// basicOnly panics when a case calls a method that Basic does not have.
type basicOnly struct {
	Basic
	others
}

type others struct{ Store }

// basics are small cases. Other cases of Run test the same rules with methods that Basic does not have.
var basics = map[string]func(*testing.T, fixture){
	"a message weighs at least its bytes": func(t *testing.T, f fixture) {
		a := dlqtest.Arrival(dlqtest.Headers(dlq.Header{Key: "trace", Value: []byte("0123456789")}))
		id := f.store(a)[0].ID
		weigh := func() dlq.Weight {
			found, err := f.Weigh(t.Context(), dlq.DetailQuery{IDs: []dlq.ID{dlq.NewID(), id}, AllPayloads: true})
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.Equal(t, id, found[0].ID)
			return found[0]
		}
		w := weigh()
		require.Equal(t, a.DLQTopic, w.DLQTopic)
		require.EqualValues(t, len(a.Record.Key)+len(a.Record.Value), w.Binary)
		require.Positive(t, w.Payload)
		before := w.Short
		require.GreaterOrEqual(t, w.Long, int64(len(a.ErrorMessage)+len("trace0123456789")))
		f.retry(id, dlq.ResultFailed)
		require.Greater(t, weigh().Short, before, "attempts are shown too")
	},

	"a list is limited to the topics of a principal": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "shop")), dlqtest.Arrival(dlqtest.FromTopic("users.dlq", "shop")))
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "shop", Within: `^(?:orders\.dlq)$`}, PageSize: 10})
		require.Equal(t, []dlq.ID{stored[0].ID}, ids(page.Messages))
		require.EqualValues(t, 1, page.Total)
	},

	"a list of a topic leaves out large payloads and ends early at its bytes": func(t *testing.T, f fixture) {
		large := `"` + strings.Repeat("x", dlq.ListPayload) + `"`
		id := f.store(dlqtest.Arrival(dlqtest.Value(large)))[0].ID
		stored := f.store(dlqtest.Arrivals(80, dlqtest.Value(large[:dlq.ListPayload-1]+`"`))...)
		page := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 200, OldestFirst: true})
		require.True(t, page.HasNext)
		require.Equal(t, id, page.Messages[0].ID)
		require.Nil(t, page.Messages[0].Payload)
		require.Equal(t, len(large), page.Messages[0].OmittedPayload)
		after := page.Messages[len(page.Messages)-1].Keyset()
		rest := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 200, After: &after, OldestFirst: true})
		require.False(t, rest.HasNext)
		require.Equal(t, ids(stored), append(ids(page.Messages[1:]), ids(rest.Messages)...))
	},

	"a message that was marked dead while it was sent is RESOLVED once it is delivered": func(t *testing.T, f fixture) {
		id := f.store(dlqtest.Arrival())[0].ID
		owner := f.claim(id)
		dead, err := f.MarkDead(t.Context(), nil, id)
		require.NoError(t, err)
		m, ended, err := f.Finalize(t.Context(), owner, dlqtest.Failed(id))
		require.NoError(t, err)
		require.False(t, ended)
		require.Equal(t, dead, m)
		m, ended, err = f.Finalize(t.Context(), owner, dlqtest.Delivered(id))
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, []any{dlq.StatusResolved, dlq.ResolutionDelivered}, []any{m.Status, m.Resolution})
	},
}
