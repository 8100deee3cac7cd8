package storetest

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// editedCopy is the copy of a message with another value.
func (f fixture) editedCopy(id dlq.ID, value string) dlq.Arrival {
	f.t.Helper()
	bytes := []byte(value)
	edit := dlq.Edit{Value: &bytes}
	d := f.detail(id)
	return edit.Copy(&d, "")
}

// requireReplaced checks that the error names the copy of a message.
func (f fixture) requireReplaced(err error, copyID dlq.ID) {
	f.t.Helper()
	var refused *dlq.NotRetryableError
	require.ErrorAs(f.t, err, &refused)
	require.Contains(f.t, refused.Reason, copyID.String())
}

var edits = map[string]func(*testing.T, fixture){
	"an edited copy takes the place of its message": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival(dlqtest.Key("k"), dlqtest.Value(`{"amount": -1}`), dlqtest.Cause("boom"),
			dlqtest.Headers(dlq.Header{Key: "h", Value: []byte("1")}, dlq.Header{Key: "n"})))[0]
		f.retry(original.ID, dlq.ResultFailed) // an earlier retry
		original, before := f.message(original.ID), f.detail(original.ID)
		copied, err := f.Replace(t.Context(), nil, original.ID, f.editedCopy(original.ID, `{"amount": 1}`))
		require.NoError(t, err)

		require.Equal(t, dlq.StatusPending, copied.Status)
		require.Equal(t, 1, copied.RetryCount, "of the message")
		require.Equal(t, original.MaxRetries, copied.MaxRetries)
		require.Equal(t, original.OriginalTopic, copied.OriginalTopic)
		require.Equal(t, original.DLQTopic, copied.DLQTopic)
		require.Equal(t, original.ErrorMessage, copied.ErrorMessage)
		require.Equal(t, original.GroupID, copied.GroupID)
		require.Equal(t, original.ID, copied.PreviousID)
		require.Greater(t, copied.Seq, original.Seq)
		require.JSONEq(t, `{"amount": 1}`, string(copied.Payload))
		after := f.detail(copied.ID)
		require.Equal(t, `{"amount": 1}`, string(after.Record.Value))
		require.Equal(t, before.Record.Key, after.Record.Key)
		require.Equal(t, before.Record.Headers, after.Record.Headers)
		require.Equal(t, before.Failure, after.Failure)
		require.True(t, after.Source.IsZero(), "it was not read from Kafka")
		require.Equal(t, dlq.Edits{From: original.ID}, after.Edits)
		require.Empty(t, after.Attempts)

		ended := f.detail(original.ID)
		require.Equal(t, dlq.StatusResolved, ended.Status)
		require.Equal(t, dlq.ResolutionReplaced, ended.Ended())
		require.Equal(t, dlq.Edits{By: copied.ID}, ended.Edits)
		require.Equal(t, `{"amount": -1}`, string(ended.Record.Value), "the bytes of the original stay")
		require.Len(t, ended.Attempts, 1)

		chain, err := f.Chain(t.Context(), copied.ID)
		require.NoError(t, err)
		require.Len(t, chain.Hops, 2)
		require.Equal(t, dlq.Edits{By: copied.ID}, chain.Hops[0].Edits)
		require.Equal(t, dlq.Edits{From: original.ID}, chain.Hops[1].Edits)
		topics, err := f.Topics(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, topics[0].Counts[dlq.StatusPending])
		require.EqualValues(t, 1, topics[0].Counts[dlq.StatusResolved])
		group := f.group(original.GroupID)
		require.EqualValues(t, 1, dlqtest.Pending(&group))

		require.Equal(t, dlq.StatusResolved, f.retry(copied.ID, dlq.ResultDelivered).Status)
	},

	"a message is replaced once": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival())[0]
		copied, err := f.Replace(t.Context(), nil, original.ID, f.editedCopy(original.ID, "first"))
		require.NoError(t, err)
		second := f.editedCopy(original.ID, "second")
		_, err = f.Replace(t.Context(), nil, original.ID, second)
		f.requireReplaced(err, copied.ID)
		_, err = f.Message(t.Context(), second.ID)
		require.ErrorIs(t, err, dlq.ErrNotFound, "nothing is left of the second edit")
		_, err = f.Claim(t.Context(), original.ID, dlqtest.Owner(), dlq.ID{})
		require.Error(t, err)

		again, err := f.Replace(t.Context(), nil, copied.ID, f.editedCopy(copied.ID, "third"))
		require.NoError(t, err, "the copy can be edited")
		require.Equal(t, dlq.Edits{From: original.ID, By: again.ID}, f.detail(copied.ID).Edits)
		require.Equal(t, "third", string(f.detail(again.ID).Record.Value))
	},

	"of many edits at once, one wins": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival())[0]
		var wait sync.WaitGroup
		var mu sync.Mutex
		won, lost := map[dlq.ID]bool{}, []error{}
		for i := range 8 {
			edited := f.editedCopy(original.ID, strconv.Itoa(i))
			wait.Go(func() {
				copied, err := f.Replace(t.Context(), nil, original.ID, edited)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won[copied.ID] = true
				} else {
					lost = append(lost, err)
				}
			})
		}
		wait.Wait()
		require.Len(t, won, 1)
		winner := f.detail(original.ID).Edits.By
		require.True(t, won[winner])
		for _, err := range lost {
			f.requireReplaced(err, winner)
		}
		require.Len(t, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 50}).Messages, 2)
	},

	"only a message that can be retried is replaced": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3)...)
		owner := f.claim(stored[0].ID)
		_, err := f.Replace(t.Context(), nil, stored[0].ID, f.editedCopy(stored[0].ID, "x"))
		var owned *dlq.OwnedError
		require.ErrorAs(t, err, &owned)
		require.Equal(t, owner, owned.Owner)
		_, err = f.MarkDead(t.Context(), nil, stored[1].ID)
		require.NoError(t, err)
		_, err = f.Replace(t.Context(), nil, stored[1].ID, f.editedCopy(stored[1].ID, "x"))
		require.ErrorAs(t, err, new(*dlq.NotRetryableError))
		f.retry(stored[2].ID, dlq.ResultDelivered)
		_, err = f.Replace(t.Context(), nil, stored[2].ID, f.editedCopy(stored[2].ID, "x"))
		require.ErrorAs(t, err, new(*dlq.NotRetryableError))
		loop := f.store(dlqtest.Arrival(dlqtest.FromTopic("users.dlq", "orders.dlq")))[0]
		_, err = f.Replace(t.Context(), nil, loop.ID, f.editedCopy(loop.ID, "x"))
		require.ErrorAs(t, err, new(*dlq.NotRetryableError))
		_, err = f.Replace(t.Context(), nil, dlq.NewID(), f.editedCopy(loop.ID, "x"))
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.Len(t, f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 50}).Messages, 3, "no copy was stored")
	},

	"a bulk retry sends neither a replaced message nor a copy that is newer than its snapshot": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(3)...)
		lane := f.startLane()
		copied, err := f.Replace(t.Context(), nil, stored[1].ID, f.editedCopy(stored[1].ID, "x"))
		require.NoError(t, err)
		require.Equal(t, []dlq.ID{stored[0].ID, stored[2].ID}, f.drain(lane))
		require.Equal(t, dlq.JobCounts{Retried: 2, Skipped: 1}, f.end(lane.Job, dlq.JobCompleted).Counts)
		require.Equal(t, []dlq.ID{copied.ID}, f.drain(f.startLane()), "the next one sends the copy")
	},

	"a copy is in the group of its message, which has not failed again": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival(dlqtest.Cause("boom")))[0]
		before := f.group(original.GroupID)
		held := dlq.GroupHeld
		require.NoError(t, f.ChangeGroup(t.Context(), nil, before.ID, dlq.GroupChange{State: &held, Hold: dlq.Hold{Count: 1}}))
		copied, err := f.Replace(t.Context(), nil, original.ID, f.editedCopy(original.ID, "x"))
		require.NoError(t, err)
		require.Equal(t, before.ID, copied.GroupID)
		for range 2 { // first with changes that are not in the sums, then with sums only
			after := f.group(original.GroupID)
			require.Equal(t, before.Arrived, after.Arrived)
			require.Equal(t, before.LastSeen, after.LastSeen)
			require.EqualValues(t, 1, dlqtest.Pending(&after))
			require.NoError(t, f.FoldCounts(t.Context()))
		}
		opened, err := f.OpenHeldGroups(t.Context())
		require.NoError(t, err)
		require.Zero(t, opened)
	},

	"a copy that comes back is linked to the copy": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival())[0]
		copied, err := f.Replace(t.Context(), nil, original.ID, f.editedCopy(original.ID, "x"))
		require.NoError(t, err)
		f.retry(copied.ID, dlq.ResultDelivered)
		back := dlqtest.Arrival(dlqtest.Retries(1, 3))
		back.PreviousID = copied.ID
		f.store(back)
		chain, err := f.Chain(t.Context(), original.ID)
		require.NoError(t, err)
		require.Len(t, chain.Hops, 3)
		require.Equal(t, copied.ID, chain.Hops[2].PreviousID)
	},

	"an edit is in the audit with its message": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival())[0]
		asked := &dlq.Operation{Subject: "ann", Action: dlq.PermMessageRetry, TargetID: original.ID}
		_, err := f.Replace(t.Context(), asked, original.ID, f.editedCopy(original.ID, "x"))
		require.NoError(t, err)
		_, err = f.Replace(t.Context(), asked, original.ID, f.editedCopy(original.ID, "y"))
		require.Error(t, err)
		page, err := f.Operations(t.Context(), dlq.OperationQuery{PageSize: 10})
		require.NoError(t, err)
		require.Len(t, page.Entries, 1, "the second one changed nothing")
		require.Equal(t, original.ID, page.Entries[0].TargetID)
		require.Equal(t, original.DLQTopic, page.Entries[0].Topic)
	},

	"an edited copy can have a null key, a null value and no headers": func(t *testing.T, f fixture) {
		original := f.store(dlqtest.Arrival(dlqtest.Key("k")))[0]
		d := f.detail(original.ID)
		edit := dlq.Edit{Key: new([]byte), Value: new([]byte), Headers: new([]dlq.Header)}
		copied, err := f.Replace(t.Context(), nil, original.ID, edit.Copy(&d, ""))
		require.NoError(t, err)
		after := f.detail(copied.ID)
		require.Nil(t, after.Record.Key)
		require.Nil(t, after.Record.Value)
		require.Empty(t, after.Record.Headers)
		require.Empty(t, after.Payload)
		_, err = f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		chain, err := f.Chain(t.Context(), copied.ID)
		require.NoError(t, err)
		require.True(t, chain.Hops[0].Archived)
		require.Equal(t, copied.ID, chain.Hops[0].Edits.By)
	},
}
