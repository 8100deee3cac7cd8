package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// asked is a request by the subject ann.
func asked(action dlq.Permission) *dlq.Operation { return new(operation("ann", action)) }

func operation(subject string, action dlq.Permission) dlq.Operation {
	return dlq.Operation{Subject: subject, Method: "token", Address: "192.0.2.1", Action: action, Reason: "the bug is fixed",
		RequestID: "r-1", Detail: json.RawMessage(`{"n": 1}`)}
}

// audited lists all operations, the newest first.
func (f fixture) audited(q dlq.OperationQuery) []dlq.Operation {
	f.t.Helper()
	if q.PageSize == 0 {
		q.PageSize = 1000
	}
	page, err := f.Operations(f.t.Context(), q)
	require.NoError(f.t, err)
	return page.Entries
}

// requireRecorded checks that ann asked for the newest operation, and that there are n operations.
func (f fixture) requireRecorded(n int, want dlq.Operation) {
	f.t.Helper()
	all := f.audited(dlq.OperationQuery{})
	require.Len(f.t, all, n)
	got := all[0]
	require.False(f.t, got.ID.IsZero())
	require.WithinDuration(f.t, time.Now(), got.At, time.Minute)
	by := operation("ann", want.Action)
	want.ID, want.At = got.ID, got.At
	want.Subject, want.Method, want.Address, want.Reason, want.RequestID = by.Subject, by.Method, by.Address, by.Reason, by.RequestID
	if want.Detail == nil {
		want.Detail = by.Detail
	}
	require.JSONEq(f.t, string(want.Detail), string(got.Detail))
	want.Detail = got.Detail
	require.Equal(f.t, want, got)
}

// RunAuditLog checks that an empty store reports every operation that it records. reported returns
// the operations that the caller's hook has received.
func RunAuditLog(t *testing.T, store Store, reported func() []dlq.Operation) {
	f := fixture{Store: store, t: t}
	m := f.store(dlqtest.Arrivals(2)...)
	_, err := f.MarkDead(t.Context(), asked(dlq.PermMessageDead), m[0].ID)
	require.NoError(t, err)
	require.NoError(t, f.Delete(t.Context(), asked(dlq.PermMessageDelete), m[1].ID))
	bulk, err := f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	require.NoError(t, f.SetJobRate(t.Context(), asked(dlq.PermJobControl), bulk.ID, 5))
	f.end(bulk.ID, dlq.JobCompleted)
	require.NoError(t, f.RecordOperation(t.Context(), operation("ann", dlq.PermMessageRetry)))
	_, err = f.MarkDead(t.Context(), asked(dlq.PermMessageDead), m[0].ID) // the message is DEAD already
	require.NoError(t, err)
	all, lines := f.audited(dlq.OperationQuery{}), reported()
	require.Len(t, lines, 6)
	for i := range lines {
		stored := all[len(all)-1-i]
		require.Equal(t, []any{stored.ID, stored.Action, stored.TargetID, stored.Topic, stored.Outcome},
			[]any{lines[i].ID, lines[i].Action, lines[i].TargetID, lines[i].Topic, lines[i].Outcome})
	}
}

var audits = map[string]func(*testing.T, fixture){
	"a change of a message is recorded with it, once": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(2)...)
		want := dlq.Operation{Target: dlq.TargetMessage, TargetID: stored[0].ID, Topic: stored[0].DLQTopic, Outcome: dlq.OperationDone}
		for range 2 {
			want.Action = dlq.PermMessageDead
			_, err := f.MarkDead(t.Context(), asked(want.Action), stored[0].ID)
			require.NoError(t, err)
			f.requireRecorded(1, want)
		}
		for n, change := range []func(*dlq.Operation) error{
			func(o *dlq.Operation) error { _, err := f.Revive(t.Context(), o, stored[0].ID); return err },
			func(o *dlq.Operation) error { return f.Delete(t.Context(), o, stored[0].ID) },
		} {
			want.Action = []dlq.Permission{dlq.PermMessageRevive, dlq.PermMessageDelete}[n]
			require.NoError(t, change(asked(want.Action)))
			f.requireRecorded(n+2, want)
			require.Error(t, change(asked(want.Action)), "there is nothing left to change")
			f.requireRecorded(n+2, want)
		}
	},

	"a change without an operation is not recorded": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(2)...)
		_, err := f.MarkDead(t.Context(), nil, stored[0].ID)
		require.NoError(t, err)
		require.NoError(t, f.Delete(t.Context(), nil, stored[1].ID))
		f.end(f.startBulk(dlqtest.Bulk("orders", 1)).ID, dlq.JobCompleted)
		f.act(dlq.KindDelete, orders)
		require.Empty(t, f.audited(dlq.OperationQuery{}))
	},

	"a refused change is not recorded": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival())[0]
		f.claim(m.ID)
		require.Error(t, f.Delete(t.Context(), asked(dlq.PermMessageDelete), m.ID))
		_, err := f.Revive(t.Context(), asked(dlq.PermMessageRevive), m.ID)
		require.Error(t, err)
		_, err = f.MarkDead(t.Context(), asked(dlq.PermMessageDead), dlq.NewID())
		require.Error(t, err)
		require.Error(t, f.SetJobRate(t.Context(), asked(dlq.PermJobControl), dlq.NewID(), 1))
		require.Empty(t, f.audited(dlq.OperationQuery{}))
	},

	"a restore is recorded": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrival(dlqtest.Retries(3, 3)))[0]
		f.archiveAll()
		_, err := f.Restore(t.Context(), asked(dlq.PermMessageRevive), m.ID)
		require.NoError(t, err)
		want := dlq.Operation{Action: dlq.PermMessageRevive, Target: dlq.TargetMessage, TargetID: m.ID, Topic: "orders.dlq", Outcome: dlq.OperationDone}
		f.requireRecorded(1, want)
		_, err = f.Restore(t.Context(), asked(dlq.PermMessageRevive), m.ID)
		require.Error(t, err)
		f.requireRecorded(1, want)
	},

	"a bulk retry is recorded at its start and, with its counts, at its end": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		b, err := f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		want := dlq.Operation{Action: dlq.PermJobCreate, Target: dlq.TargetJob, TargetID: b.ID, Topic: "orders",
			WorkflowID: b.WorkflowID, Outcome: dlq.OperationAccepted}
		f.requireRecorded(1, want)
		joined, err := f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		require.Equal(t, b.ID, joined.ID)
		want.Detail = json.RawMessage(`{"joined": true}`)
		f.requireRecorded(2, want)

		f.countBulk(b.ID)
		lane := f.openLane(dlqtest.Lane(b, 0))
		page := f.claimPage(lane)
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		outcomes[2] = outcome(page[2], dlq.ResultFailed)
		f.finalizePage(lane, outcomes)
		for range 2 {
			f.end(b.ID, dlq.JobCompleted)
			want.Outcome = dlq.OperationDone
			want.Detail = json.RawMessage(`{"state": "COMPLETED", "reason": "", "matched": 3, "retried": 2, "failed": 1, "dead": 0, "skipped": 0}`)
			f.requireRecorded(3, want)
		}
	},

	"a job that follows another one of the same request is recorded as itself": func(t *testing.T, f fixture) {
		o := operation("ann", dlq.PermJobCreate)
		o.TargetID = dlq.NewID() // the job that the request has joined and closed
		b, err := f.CreateJob(t.Context(), &o, dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		f.requireRecorded(1, dlq.Operation{Action: dlq.PermJobCreate, Target: dlq.TargetJob, TargetID: b.ID, Topic: "orders",
			WorkflowID: b.WorkflowID, Outcome: dlq.OperationAccepted})
	},

	"whoever cancels a job is recorded with its end": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		_, err := f.EndJob(t.Context(), asked(dlq.PermJobControl), b.ID, dlq.JobCancelled, "why")
		require.NoError(t, err)
		want := dlq.Operation{Action: dlq.PermJobControl, Target: dlq.TargetJob, TargetID: b.ID, Topic: "orders",
			WorkflowID: b.WorkflowID, Outcome: dlq.OperationCancelled,
			Detail: json.RawMessage(`{"state": "CANCELLED", "reason": "why", "matched": 3, "retried": 0, "failed": 0, "dead": 0, "skipped": 3}`)}
		f.requireRecorded(1, want)

		a := f.startAction(dlq.KindDead, orders)
		_, err = f.StopJob(t.Context(), asked(dlq.PermJobControl), a.ID, dlq.JobCancelling, "why")
		require.NoError(t, err)
		f.requireRecorded(2, dlq.Operation{Action: dlq.PermJobControl, Target: dlq.TargetJob, TargetID: a.ID, Topic: "orders",
			Outcome: dlq.OperationDone})
		_, err = f.EndJob(t.Context(), asked(dlq.PermJobControl), a.ID, dlq.JobFailed, "")
		require.NoError(t, err)
		f.requireRecorded(3, dlq.Operation{Action: dlq.PermJobControl, Target: dlq.TargetJob, TargetID: a.ID, Topic: "orders",
			WorkflowID: a.WorkflowID, Outcome: dlq.OperationFailed,
			Detail: json.RawMessage(`{"state": "FAILED", "reason": "", "matched": 3, "changed": 0, "skipped": 3}`)})
	},

	"a bulk change is recorded at its start and, with its counts, at its end": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		a, err := f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Change(dlq.KindDead, orders))
		require.NoError(t, err)
		want := dlq.Operation{Action: dlq.PermJobCreate, Target: dlq.TargetJob, TargetID: a.ID, Topic: "orders",
			WorkflowID: a.WorkflowID, Outcome: dlq.OperationAccepted}
		f.requireRecorded(1, want)
		_, err = f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Change(dlq.KindDead, orders))
		require.NoError(t, err)
		want.Detail = json.RawMessage(`{"joined": true}`)
		f.requireRecorded(2, want)
		_, err = f.CountJob(t.Context(), a.ID)
		require.NoError(t, err)
		f.finish(a)
		want.Outcome = dlq.OperationDone
		want.Detail = json.RawMessage(`{"state": "COMPLETED", "reason": "", "matched": 3, "changed": 3, "skipped": 0}`)
		f.requireRecorded(3, want)
	},

	"each command to a bulk retry is recorded, once": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		want := dlq.Operation{Action: dlq.PermJobControl, Target: dlq.TargetJob, TargetID: b.ID, Topic: "orders", Outcome: dlq.OperationDone}
		by := asked(want.Action)
		for n, command := range []func() error{
			func() error { return f.SetJobRate(t.Context(), by, b.ID, 7) },
			func() error { _, err := f.PauseJob(t.Context(), by, b.ID, "wait"); return err },
			func() error { _, err := f.ResumeJob(t.Context(), by, b.ID); return err },
		} {
			require.NoError(t, command())
			f.requireRecorded(n+1, want)
		}
		_, err := f.ResumeJob(t.Context(), by, b.ID)
		require.NoError(t, err)
		f.requireRecorded(3, want)
	},

	"an operation is recorded as it is, with bounded texts": func(t *testing.T, f fixture) {
		o := operation("ann", dlq.PermMessageRetry)
		o.Target, o.TargetID, o.Topic, o.WorkflowID, o.Outcome = dlq.TargetMessage, dlq.NewID(), "orders.dlq", "w", dlq.OperationAccepted
		require.NoError(t, f.RecordOperation(t.Context(), o))
		f.requireRecorded(1, dlq.Operation{Action: o.Action, Target: o.Target, TargetID: o.TargetID, Topic: o.Topic, WorkflowID: "w", Outcome: o.Outcome})

		require.NoError(t, f.RecordOperation(t.Context(), dlq.Operation{}))
		require.Equal(t, dlq.Operation{}, withoutKey(f.audited(dlq.OperationQuery{})[0]))

		hostile := strings.Repeat("\x00\xff界", 10_000)
		require.NoError(t, f.RecordOperation(t.Context(), dlq.Operation{Subject: hostile, Method: hostile, Address: hostile, Action: dlq.Permission(hostile),
			Topic: hostile, Target: dlq.OperationTarget(hostile), Reason: hostile, RequestID: hostile, WorkflowID: hostile,
			Outcome: dlq.OperationOutcome(hostile), Detail: json.RawMessage(`"\u0000"`)}))
		got := f.audited(dlq.OperationQuery{})[0]
		for _, text := range []string{got.Subject, got.Method, got.Address, string(got.Action), got.Topic, string(got.Target), got.Reason,
			got.RequestID, got.WorkflowID, string(got.Outcome)} {
			require.True(t, strings.HasPrefix(text, "\u2400\ufffd界"), text)
			require.Less(t, len(text), 5_000)
		}
		require.JSONEq(t, `{"omitted": true}`, string(got.Detail))
		require.NoError(t, f.RecordOperation(t.Context(), dlq.Operation{Detail: json.RawMessage(`"` + strings.Repeat("x", 70_000) + `"`)}))
		require.JSONEq(t, `{"omitted": true}`, string(f.audited(dlq.OperationQuery{})[0].Detail))
	},

	"an attempt names the operation that asked for it": func(t *testing.T, f fixture) {
		m := f.store(dlqtest.Arrivals(2, dlqtest.Retries(0, 5))...)
		ask := func() dlq.ID {
			o := operation("ann", dlq.PermMessageRetry)
			o.ID, o.Target, o.TargetID, o.Outcome = dlq.NewID(), dlq.TargetMessage, m[0].ID, dlq.OperationAccepted
			require.NoError(t, f.RecordOperation(t.Context(), o))
			return o.ID
		}
		retry := func(operation dlq.ID, result dlq.Result) string {
			owner := dlqtest.Owner()
			for range 2 {
				_, err := f.Claim(t.Context(), m[0].ID, owner, operation)
				require.NoError(t, err)
			}
			_, _, err := f.Finalize(t.Context(), owner, dlq.Outcome{ID: m[0].ID, Result: result})
			require.NoError(t, err)
			return owner.Token
		}
		first, second := ask(), ask()
		ask() // this request joined one of the two retries
		failed, unknown, released := retry(first, dlq.ResultFailed), retry(dlq.NewID(), dlq.ResultFailed), retry(dlq.ID{}, dlq.ResultReleased)
		bulk, err := f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		created := f.audited(dlq.OperationQuery{})[0].ID
		_, err = f.CreateJob(t.Context(), asked(dlq.PermJobCreate), dlqtest.Bulk("orders", 1)) // it joins the running job
		require.NoError(t, err)
		require.NoError(t, f.SetJobRate(t.Context(), asked(dlq.PermJobControl), bulk.ID, 5))
		f.end(bulk.ID, dlq.JobCompleted)
		delivered := retry(second, dlq.ResultDelivered)
		tokens := []string{failed, unknown, released, delivered, bulk.ID.String(), "", "x"}
		operations, err := f.OperationsOf(t.Context(), []dlq.ID{m[0].ID}, tokens)
		require.NoError(t, err)
		require.Equal(t, map[string]dlq.ID{failed: first, delivered: second, bulk.ID.String(): created}, operations)
		operations, err = f.OperationsOf(t.Context(), []dlq.ID{m[1].ID}, tokens[:4])
		require.NoError(t, err)
		require.Empty(t, operations)
	},

	"operations are listed by cursor, newest first": func(t *testing.T, f fixture) {
		for range 5 {
			require.NoError(t, f.RecordOperation(t.Context(), operation("ann", dlq.PermMessageRetry)))
		}
		all := f.audited(dlq.OperationQuery{})
		for i := range all[1:] {
			require.False(t, all[i+1].At.After(all[i].At))
		}
		q := dlq.OperationQuery{PageSize: 2}
		var paged []dlq.Operation
		for {
			page, err := f.Operations(t.Context(), q)
			require.NoError(t, err)
			paged = append(paged, page.Entries...)
			if page.Next == nil {
				break
			}
			require.Len(t, page.Entries, 2)
			cursor := paged[len(paged)-1].Place()
			q.After = &cursor
			require.NoError(t, f.RecordOperation(t.Context(), operation("bob", dlq.PermMessageRetry)), "the pages stay as they are")
		}
		require.Equal(t, all, paged)
	},

	"operations of some topics are listed by cursor, among many others": func(t *testing.T, f fixture) {
		var want []dlq.Operation
		for n := range 60 {
			o := operation("ann", dlq.PermMessageRetry)
			o.Topic = fmt.Sprintf("%c%d.dlq", "ab"[n%2], n%6)
			require.NoError(t, f.RecordOperation(t.Context(), o))
			if n%2 == 0 {
				want = append(want, f.audited(dlq.OperationQuery{PageSize: 1})...)
			}
		}
		slices.Reverse(want)
		var paged []dlq.Operation
		for q := (dlq.OperationQuery{PageSize: 7, Within: "^(a.*)$"}); ; {
			page, err := f.Operations(t.Context(), q)
			require.NoError(t, err)
			paged = append(paged, page.Entries...)
			if page.Next == nil {
				break
			}
			cursor := paged[len(paged)-1].Place()
			q.After = &cursor
		}
		require.Equal(t, want, paged)
		require.Empty(t, f.audited(dlq.OperationQuery{Within: "^(c.*)$"}))
	},

	"operations are found by every filter": func(t *testing.T, f fixture) {
		add := func(subject string, action dlq.Permission, topic string, outcome dlq.OperationOutcome) dlq.Operation {
			o := operation(subject, action)
			o.Topic, o.Target, o.TargetID, o.Outcome = topic, dlq.TargetMessage, dlq.NewID(), outcome
			require.NoError(t, f.RecordOperation(t.Context(), o))
			return f.audited(dlq.OperationQuery{PageSize: 1})[0]
		}
		first := add("ann", dlq.PermMessageRetry, "orders.dlq", dlq.OperationAccepted)
		second := add("bob", dlq.PermMessageDelete, "payments.dlq", dlq.OperationRefused)
		third := add("bob", dlq.PermMessageDelete, "", dlq.OperationFailed)
		for name, c := range map[string]struct {
			q    dlq.OperationQuery
			want []dlq.Operation
		}{
			"subject":  {dlq.OperationQuery{Subject: "bob"}, []dlq.Operation{third, second}},
			"action":   {dlq.OperationQuery{Action: dlq.PermMessageRetry}, []dlq.Operation{first}},
			"topic":    {dlq.OperationQuery{Topic: "orders.dlq"}, []dlq.Operation{first}},
			"target":   {dlq.OperationQuery{TargetID: second.TargetID}, []dlq.Operation{second}},
			"outcome":  {dlq.OperationQuery{Outcome: dlq.OperationFailed}, []dlq.Operation{third}},
			"from":     {dlq.OperationQuery{From: second.At}, []dlq.Operation{third, second}},
			"to":       {dlq.OperationQuery{To: second.At}, []dlq.Operation{first}},
			"granted":  {dlq.OperationQuery{Within: `^(orders\..*|x)$`}, []dlq.Operation{first}},
			"no grant": {dlq.OperationQuery{Within: `^ $`}, nil},
			"all of them": {
				dlq.OperationQuery{Subject: "bob", Action: dlq.PermMessageDelete, Within: "^(payments.dlq)$", To: third.At},
				[]dlq.Operation{second},
			},
			"none": {dlq.OperationQuery{Subject: "ann", Outcome: dlq.OperationFailed}, nil},
		} {
			require.Equal(t, c.want, nilIfEmpty(f.audited(c.q)), name)
		}
	},

	"operations of jobs on original topics are selected by the limits of the jobs": func(t *testing.T, f fixture) {
		const limit = "^(orders.*)$"
		by := asked(dlq.PermJobCreate)
		var limited []dlq.ID
		for _, filter := range []dlq.Filter{{Topic: "orders"}, {Topic: "orders", Within: limit}, {Topic: "orders.dlq"}} {
			bulk, err := f.CreateJob(t.Context(), by, dlqtest.Bulk(filter.Topic, 1, dlqtest.Filter(filter)))
			require.NoError(t, err)
			_, err = f.EndJob(t.Context(), nil, bulk.ID, dlq.JobCompleted, "")
			require.NoError(t, err)
			action, err := f.CreateJob(t.Context(), by, dlqtest.Change(dlq.KindDead, filter))
			require.NoError(t, err)
			_, err = f.EndJob(t.Context(), nil, action.ID, dlq.JobCompleted, "")
			require.NoError(t, err)
			if filter.Topic != "orders" || filter.Within != "" {
				limited = append(limited, bulk.ID, action.ID)
			}
		}
		seen := func(q dlq.OperationQuery) (jobs []dlq.ID) {
			for _, o := range f.audited(q) {
				jobs = append(jobs, o.TargetID)
			}
			slices.Reverse(jobs)
			return slices.Compact(jobs)
		}
		require.Len(t, seen(dlq.OperationQuery{}), 6)
		require.Equal(t, limited, seen(dlq.OperationQuery{Within: limit, Limits: []string{limit}}))
		require.Equal(t, limited[:2], seen(dlq.OperationQuery{Within: limit, Limits: []string{limit}, Topic: "orders"}))
		require.Equal(t, limited[2:], seen(dlq.OperationQuery{Within: limit, Limits: []string{"^ $"}}))
	},

	"recent operations are not purged, whatever the retention": func(t *testing.T, f fixture) {
		require.NoError(t, f.RecordOperation(t.Context(), operation("ann", dlq.PermMessageRetry)))
		for _, olderThan := range []time.Duration{0, -time.Hour, 365 * 24 * time.Hour} {
			purged, err := f.PurgeOperations(t.Context(), olderThan, 100)
			require.NoError(t, err)
			require.Zero(t, purged)
		}
		require.Len(t, f.audited(dlq.OperationQuery{}), 1)
	},
}

// withoutKey is an operation without the fields that the store sets.
func withoutKey(o dlq.Operation) dlq.Operation {
	o.ID, o.At = dlq.ID{}, time.Time{}
	return o
}

func nilIfEmpty(list []dlq.Operation) []dlq.Operation {
	if len(list) == 0 {
		return nil
	}
	return list
}
