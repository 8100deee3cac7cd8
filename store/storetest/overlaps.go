package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// requireRefused checks that the job b cannot be created because of a running job.
func (f fixture) requireRefused(b, running dlq.Job) {
	f.t.Helper()
	_, err := f.CreateJob(f.t.Context(), nil, b)
	f.requireBusy(err, b, running)
	_, err = f.Job(f.t.Context(), b.ID)
	require.ErrorIs(f.t, err, dlq.ErrNotFound, "nothing is left of it")
}

func (f fixture) requireBusy(err error, b, running dlq.Job) {
	f.t.Helper()
	var busy *dlq.JobBusyError
	require.ErrorAs(f.t, err, &busy)
	require.Equal(f.t, dlq.JobBusyError{Topic: b.Spec.Topic, Running: running.ID}, *busy)
}

func unordered(s *dlq.JobSpec) { s.Order = dlq.OrderNone }

var overlaps = map[string]func(*testing.T, fixture){
	"a bulk retry is refused while another of its topic runs": func(_ *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(3)...)
		for _, topic := range []string{"orders", "orders.dlq", "nothing", ""} {
			for _, end := range []dlq.JobState{dlq.JobCompleted, dlq.JobCancelled, dlq.JobFailed} {
				first, second := f.startBulk(dlqtest.Bulk(topic, 1)), dlqtest.Bulk(topic, 1, unordered)
				f.requireRefused(second, first)
				f.pause(first.ID, "")
				f.requireRefused(second, first)
				f.end(first.ID, end)
				f.startBulk(second)
				f.end(second.ID, dlq.JobCompleted)
			}
		}
	},

	"a request for the same work joins the running bulk retry": func(t *testing.T, f fixture) {
		at := time.Date(2026, 2, 20, 10, 30, 0, 123456000, time.UTC)
		ramp := &dlq.Ramp{Steps: []int{1, 10}, Wait: time.Minute, MaxCameBack: 0.1}
		asked := dlq.JobSpec{Kind: dlq.KindRetry, Order: dlq.OrderKey, RateLimit: 5, Reason: "the first", Ramp: ramp, Filter: dlq.Filter{
			Topic: "orders", Statuses: []dlq.Status{dlq.StatusPending}, ErrorContains: "boom", Key: []byte{}, CreatedFrom: at,
			CreatedTo: at.Add(time.Hour), IDs: []dlq.ID{dlq.NewID(), dlq.NewID()}}}
		with := func(change func(*dlq.JobSpec)) dlq.Job {
			return dlqtest.Bulk("", 2, func(s *dlq.JobSpec) { *s = asked; change(s) })
		}
		job := f.startBulk(with(func(*dlq.JobSpec) {}))
		for name, change := range map[string]func(*dlq.JobSpec){
			"nothing":     func(*dlq.JobSpec) {},
			"rate":        func(s *dlq.JobSpec) { s.RateLimit = 7 },
			"reason":      func(s *dlq.JobSpec) { s.Reason = "the second" },
			"no order":    func(s *dlq.JobSpec) { s.Order = "" },
			"time zone":   func(s *dlq.JobSpec) { s.CreatedFrom = at.In(time.FixedZone("", 3600)) },
			"an id twice": func(s *dlq.JobSpec) { s.IDs = append(slices.Clone(s.IDs), s.IDs[0]) },
		} {
			joined, err := f.CreateJob(t.Context(), nil, with(change))
			require.NoError(t, err, name)
			require.Equal(t, job, joined, name)
		}
		for name, change := range map[string]func(*dlq.JobSpec){
			"statuses": func(s *dlq.JobSpec) { s.Statuses = nil },
			"error":    func(s *dlq.JobSpec) { s.ErrorContains = "boo" },
			"no key":   func(s *dlq.JobSpec) { s.Key = nil },
			"from":     func(s *dlq.JobSpec) { s.CreatedFrom = time.Time{} },
			"to":       func(s *dlq.JobSpec) { s.CreatedTo = at.Add(2 * time.Hour) },
			"ids":      func(s *dlq.JobSpec) { s.IDs = s.IDs[:1] },
			"order":    func(s *dlq.JobSpec) { s.Order = dlq.OrderNone },
			"no ramp":  func(s *dlq.JobSpec) { s.Ramp = nil },
			"ramp":     func(s *dlq.JobSpec) { s.Ramp = &dlq.Ramp{Steps: []int{2, 10}, Wait: time.Minute, MaxCameBack: 0.1} },
		} {
			_, err := f.CreateJob(t.Context(), nil, with(change))
			require.ErrorAs(t, err, new(*dlq.JobBusyError), name)
		}
		f.end(job.ID, dlq.JobCompleted)
		f.startBulk(with(func(*dlq.JobSpec) {}))
	},

	"a bulk retry is refused while another under the topic's other name runs": func(_ *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.Topic("users")), dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "stock")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders")))
		for _, names := range [][2]string{{"orders", "orders.dlq"}, {"orders", "shared.dlq"}, {"stock", "shared.dlq"}, {"users", "users.dlq"}} {
			for _, order := range [][2]string{names, {names[1], names[0]}} {
				first, second := f.startBulk(dlqtest.Bulk(order[0], 1)), dlqtest.Bulk(order[1], 1)
				f.requireRefused(second, first)
				f.end(first.ID, dlq.JobCompleted)
				f.end(f.startBulk(second).ID, dlq.JobCompleted)
			}
		}
	},

	"bulk retries without messages in common run at the same time": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.Topic("users")), dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "stock")), dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders")))
		for _, topic := range []string{"orders", "stock", "users", "shared", "nothing", ""} {
			f.startBulk(dlqtest.Bulk(topic, 1))
		}
		// shared.dlq has messages in common with two running jobs. The error may name either of them.
		_, err := f.CreateJob(t.Context(), nil, dlqtest.Bulk("shared.dlq", 1))
		var busy *dlq.JobBusyError
		require.ErrorAs(t, err, &busy)
		require.Contains(t, []string{"orders", "stock"}, f.job(busy.Running).Spec.Topic)
	},

	"jobs with limits conflict within both limits only": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrival(dlqtest.FromTopic("a.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("b.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("a.dlq", "b.dlq"))) // a producer of a.dlq can name any original topic
		const onlyA, onlyB, both, none = "^(a.dlq)$", "^(b.dlq)$", "^([ab].dlq)$", "^(c.dlq)$"
		for _, c := range []struct {
			first, second dlq.Filter
			conflict      bool
		}{
			{dlq.Filter{Topic: "orders", Within: onlyA}, dlq.Filter{Topic: "orders", Within: onlyB}, false},
			{dlq.Filter{Topic: "orders", Within: onlyA}, dlq.Filter{Topic: "b.dlq", Within: onlyB}, false},
			{dlq.Filter{Topic: "orders", Within: onlyA}, dlq.Filter{Topic: "b.dlq"}, false},
			{dlq.Filter{Topic: "a.dlq", Within: onlyA}, dlq.Filter{Topic: "b.dlq", Within: onlyB}, false},
			{dlq.Filter{Topic: "orders", Within: none}, dlq.Filter{Topic: "orders"}, false},
			{dlq.Filter{Topic: "orders", Within: onlyA}, dlq.Filter{Topic: "orders", Within: both}, true},
			{dlq.Filter{Topic: "orders", Within: onlyA}, dlq.Filter{Topic: "orders"}, true},
			{dlq.Filter{Topic: "a.dlq", Within: both}, dlq.Filter{Topic: "orders", Within: onlyA}, true},
			{dlq.Filter{Topic: "a.dlq", Within: onlyA}, dlq.Filter{Topic: "b.dlq"}, true}, // a.dlq has messages that name b.dlq
			{dlq.Filter{Topic: "nothing", Within: onlyA}, dlq.Filter{Topic: "nothing", Within: onlyA}, true},
		} {
			for _, order := range [][2]dlq.Filter{{c.first, c.second}, {c.second, c.first}} {
				running, err := f.CreateJob(t.Context(), nil, dlqtest.Bulk("", 1, unordered, func(s *dlq.JobSpec) { s.Filter = order[0] }))
				require.NoError(t, err)
				asked := dlqtest.Bulk("", 1, func(s *dlq.JobSpec) { s.Filter = order[1] })
				acting := f.startAction(dlq.KindDead, order[0])
				action, err := f.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindRevive, order[1]))
				if c.conflict {
					require.ErrorAs(t, err, new(*dlq.JobBusyError), c)
					f.requireRefused(asked, running)
				} else {
					require.NoError(t, err, c)
					f.end(action.ID, dlq.JobCancelled)
					f.end(f.startBulk(asked).ID, dlq.JobCompleted)
				}
				f.end(acting.ID, dlq.JobCancelled)
				f.end(running.ID, dlq.JobCompleted)
			}
		}
	},

	"messages in common count in any status": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival())
		first, second := f.startBulk(dlqtest.Bulk("orders", 1)), dlqtest.Bulk("orders.dlq", 1)
		lane := dlqtest.Lane(first, 0)
		page := f.claimPage(lane)
		require.Equal(t, ids(stored), envelopeIDs(page))
		f.requireRefused(second, first)
		f.finalizePage(lane, dlqtest.Outcomes(page, dlq.ResultDelivered))
		f.requireRefused(second, first)

		dead := f.store(dlqtest.Arrival(dlqtest.Topic("users")))[0]
		_, err := f.MarkDead(t.Context(), nil, dead.ID)
		require.NoError(t, err)
		f.requireRefused(dlqtest.Bulk("users.dlq", 1), f.startBulk(dlqtest.Bulk("users", 1)))
	},

	"one of several bulk retries that are created at once under both names wins": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(50)...)
		for range 10 {
			jobs := []dlq.Job{dlqtest.Bulk("orders", 2), dlqtest.Bulk("orders.dlq", 2), dlqtest.Bulk("orders", 2), dlqtest.Bulk("orders.dlq", 2)}
			created, failures := make([]dlq.Job, len(jobs)), make([]error, len(jobs))
			begin := make(chan struct{})
			var group sync.WaitGroup
			for i, b := range jobs {
				group.Go(func() {
					<-begin
					created[i], failures[i] = f.CreateJob(t.Context(), nil, b)
				})
			}
			close(begin)
			group.Wait()
			running, err := f.RunningRetries(t.Context())
			require.NoError(t, err)
			require.Len(t, running, 1)
			for i, b := range jobs {
				if b.Spec.Topic == running[0].Spec.Topic {
					require.NoError(t, failures[i])
					require.Equal(t, running[0].ID, created[i].ID, "created or joined")
					continue
				}
				f.requireBusy(failures[i], b, running[0])
			}
			f.end(running[0].ID, dlq.JobCompleted)
		}
	},

	"a bulk retry knows whether it has more than one target": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrival(dlqtest.FromTopic("a.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("b.dlq", "orders")),
			dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("shared.dlq", "Orders"), dlqtest.Key("k")),
			dlqtest.Arrival(dlqtest.FromTopic("mixed.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("mixed.dlq", "stock"), dlqtest.Retries(3, 3)),
			dlqtest.Arrival(dlqtest.FromTopic("mixed.dlq", "mixed.dlq")))
		for _, test := range []struct {
			topic  string
			filter dlq.Filter
			want   bool
		}{
			{"orders", dlq.Filter{}, false}, // from several topics, all to one target
			{"nothing", dlq.Filter{}, false},
			{"shared.dlq", dlq.Filter{}, true},
			{"shared.dlq", dlq.Filter{Key: []byte("k")}, false},
			{"shared.dlq", dlq.Filter{IDs: ids(stored)}, true},
			{"shared.dlq", dlq.Filter{IDs: ids(stored[:3])}, false},
			{"mixed.dlq", dlq.Filter{}, false}, // only retryable messages count
		} {
			b := f.startBulk(dlqtest.Bulk(test.topic, 1, dlqtest.Filter(test.filter)))
			require.Equal(t, test.want, b.MultiTarget, test)
			require.Equal(t, test.want, f.job(b.ID).MultiTarget, test)
			running, err := f.RunningRetries(t.Context())
			require.NoError(t, err)
			require.Equal(t, test.want, running[0].MultiTarget, test)
			listed := f.jobs(dlq.JobQuery{PageSize: 1})
			require.Equal(t, test.want, listed[0].MultiTarget, test)
			require.Equal(t, test.want, f.end(b.ID, dlq.JobCompleted).MultiTarget, test)
		}
	},
}
