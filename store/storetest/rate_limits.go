package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

var rateLimits = map[string]func(*testing.T, fixture){
	"a rate that was not used is not saved": func(t *testing.T, f fixture) {
		const rate = 100
		f.store(dlqtest.Arrivals(2 * rate)...)
		lane := dlqtest.Lane(f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Rate(rate))), 0)
		require.NotEmpty(t, f.send(lane).Page)
		<-time.After(time.Second) // the job sends nothing in this second
		began, claimed := time.Now(), 0
		for {
			claim := f.send(lane)
			if claim.Wait > 0 || len(claim.Page) == 0 {
				break
			}
			claimed += len(claim.Page)
		}
		require.LessOrEqual(t, float64(claimed), rate*(0.2+time.Since(began).Seconds()), "a tenth of a second, and a tenth in advance")
	},

	"a rate limit allows a tenth of a second at once and then waits": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(30)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Rate(50)))
		require.Equal(t, 50, b.Spec.RateLimit)
		lane := dlqtest.Lane(b, 0)
		claimed, began := 0, time.Now()
		for range 10 {
			claim := f.send(lane)
			require.True(t, claim.Limited)
			require.False(t, claim.StepLimitReached)
			require.LessOrEqual(t, len(claim.Page), 5)
			claimed += len(claim.Page)
			if claim.Wait > 0 {
				require.Empty(t, claim.Page)
				require.LessOrEqual(t, claim.Wait, 100*time.Millisecond)
			}
		}
		require.NotZero(t, claimed)
		require.LessOrEqual(t, float64(claimed), 50*(time.Since(began)+200*time.Millisecond).Seconds())

		require.NoError(t, f.SetJobRate(t.Context(), nil, b.ID, 0))
		require.Zero(t, f.job(b.ID).Spec.RateLimit)
		require.Len(t, f.claimPage(lane), 30-claimed)
	},

	"a slow rate limit allows one message at a time": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(5)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		require.NoError(t, f.SetJobRate(t.Context(), nil, b.ID, 1))
		require.Equal(t, 1, f.job(b.ID).Spec.RateLimit)
		lane := dlqtest.Lane(b, 0)
		began := time.Now()
		require.Len(t, f.send(lane).Page, 1)
		claim := f.send(lane)
		require.LessOrEqual(t, claim.Wait, time.Second)
		require.Greater(t, claim.Wait+time.Since(began), 850*time.Millisecond) // a tenth of a second may have passed before
		claimed := 1 + len(claim.Page)
		require.LessOrEqual(t, claimed, 2)
		require.NoError(t, f.SetJobRate(t.Context(), nil, b.ID, -1))
		require.Len(t, f.claimPage(lane), 5-claimed)
	},

	"claims use up a step limit": func(t *testing.T, f fixture) {
		stored := f.store(dlqtest.Arrivals(20)...)
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		f.setStepLimit(b.ID, 3)
		claim := f.tryClaim(lane)
		require.True(t, claim.Limited)
		require.False(t, claim.StepLimitReached)
		require.Equal(t, ids(stored[:3]), envelopeIDs(claim.Page))

		outcomes := dlqtest.Outcomes(claim.Page, dlq.ResultWaiting)
		outcomes[0] = outcome(claim.Page[0], dlq.ResultDelivered)
		f.finalizePage(lane, outcomes)
		claim = f.tryClaim(lane)
		require.Equal(t, ids(stored[1:3]), envelopeIDs(claim.Page), "requeued messages may be claimed again")

		f.pause(b.ID, "")
		f.resume(b.ID)
		lane = f.openLane(lane)
		require.Equal(t, ids(stored[1:3]), envelopeIDs(f.send(lane).Page), "also those that a pause requeued")
		require.Equal(t, dlq.LaneClaim{StepLimitReached: true, Limited: true}, f.tryClaim(lane))
		require.NoError(t, f.SetStepLimit(t.Context(), b.ID, nil))
		require.Equal(t, ids(stored[3:]), envelopeIDs(f.send(lane).Page))

		f.setStepLimit(b.ID, 5)
		claim = f.tryClaim(lane)
		require.Equal(t, dlq.LaneClaim{Limited: true}, claim, "the lane is done, the step limit is not reached")
		f.end(b.ID, dlq.JobCompleted)
		require.Equal(t, dlq.LaneClaim{Stopped: true, Limited: true}, f.tryClaim(lane))
		f.setStepLimit(b.ID, 7)
		require.NoError(t, f.SetJobRate(t.Context(), nil, b.ID, 7))
		require.Zero(t, f.job(b.ID).Spec.RateLimit, "it has ended")
	},

	"all lanes share a step limit": func(t *testing.T, f fixture) {
		f.store(dlqtest.Arrivals(100)...)
		b := f.startBulk(dlqtest.Bulk("orders", 4, dlqtest.Rate(100_000)))
		f.setStepLimit(b.ID, 37)
		failures := make([]error, 4)
		var group sync.WaitGroup
		for number := range failures {
			group.Go(func() {
				lane, outcomes := dlqtest.Lane(b, number), []dlq.PageOutcome(nil)
				for {
					claim, _, err := f.NextPage(t.Context(), lane, outcomes, true)
					if outcomes = dlqtest.Outcomes(claim.Page, dlq.ResultDelivered); err != nil || claim.StepLimitReached {
						failures[number] = err
						return
					}
				}
			})
		}
		group.Wait()
		require.NoError(t, errors.Join(failures...))
		require.Equal(t, dlq.JobCounts{Retried: 37}, f.job(b.ID).Counts)
	},

	"a filter limits the claims": func(t *testing.T, f fixture) {
		stored := f.store(
			dlqtest.Arrival(dlqtest.Error("Connection TIMEOUT"), dlqtest.Key("a")),
			dlqtest.Arrival(dlqtest.Error("100% full"), dlqtest.Key("a")),
			dlqtest.Arrival(dlqtest.Error("timeout again"), dlqtest.Key("")),
			dlqtest.Arrival(dlqtest.Error("boom"), dlqtest.NoKey),
			dlqtest.Arrival(dlqtest.Error("timeout"), dlqtest.Key("a"), dlqtest.Topic("elsewhere")),
			dlqtest.Arrival(dlqtest.Error("timeout"), dlqtest.Key("a"), dlqtest.Retries(3, 3)))
		elsewhere, dead, unknown := stored[4].ID, stored[5].ID, dlq.NewID()
		for name, test := range map[string]struct {
			filter dlq.Filter
			want   []int
		}{
			"nothing":        {dlq.Filter{}, []int{0, 1, 2, 3}},
			"error":          {dlq.Filter{ErrorContains: "timeOUT"}, []int{0, 2}},
			"wildcard":       {dlq.Filter{ErrorContains: "0% f"}, []int{1}},
			"key":            {dlq.Filter{Key: []byte("a")}, []int{0, 1}},
			"empty key":      {dlq.Filter{Key: []byte{}}, []int{2}},
			"from":           {dlq.Filter{CreatedFrom: stored[0].CreatedAt}, []int{0, 1, 2, 3}},
			"to":             {dlq.Filter{CreatedTo: stored[0].CreatedAt}, nil},
			"later":          {dlq.Filter{CreatedFrom: stored[0].CreatedAt.Add(time.Hour)}, nil},
			"ids":            {dlq.Filter{IDs: []dlq.ID{stored[3].ID, unknown, stored[1].ID, stored[3].ID, elsewhere, dead}}, []int{1, 3}},
			"ids and error":  {dlq.Filter{IDs: ids(stored), ErrorContains: "again"}, []int{2}},
			"ids and key":    {dlq.Filter{IDs: ids(stored), Key: []byte("a")}, []int{0, 1}},
			"key and error":  {dlq.Filter{Key: []byte("a"), ErrorContains: "full"}, []int{1}},
			"pending":        {dlq.Filter{Statuses: []dlq.Status{dlq.StatusPending, dlq.StatusDead}}, []int{0, 1, 2, 3}},
			"dead":           {dlq.Filter{Statuses: []dlq.Status{dlq.StatusDead}}, nil},
			"hostile":        {dlq.Filter{ErrorContains: "\x00'\xff", Key: []byte{0, 0xff}}, nil},
			"ids and status": {dlq.Filter{IDs: ids(stored), Statuses: []dlq.Status{dlq.StatusResolved}}, nil},
		} {
			b := f.startBulk(dlqtest.Bulk("orders", 2, dlqtest.Filter(test.filter)))
			require.EqualValues(t, len(test.want), b.Matched, name)
			preview, err := f.PreviewJob(t.Context(), b.Spec)
			require.NoError(t, err)
			require.EqualValues(t, len(test.want), preview.Matched, name)
			require.Len(t, preview.Sample, len(test.want), name)
			var claimed []int
			for number := range 2 {
				for _, e := range f.claimPage(dlqtest.Lane(b, number)) {
					claimed = append(claimed, slices.Index(ids(stored), e.ID))
				}
			}
			require.ElementsMatch(t, test.want, claimed, name)
			require.Zero(t, f.end(b.ID, dlq.JobCancelled).Counts.Retried)
		}
	},

	"a filter that matches little is searched to the end": func(t *testing.T, f fixture) {
		const messages = 21_000
		arrivals := dlqtest.Arrivals(messages, func(a *dlq.Arrival) { a.Record.Headers, a.Record.Value, a.Payload = nil, nil, nil })
		var want []dlq.ID
		for i := range arrivals {
			if i%6999 == 0 {
				arrivals[i].ErrorMessage = "needle"
				want = append(want, arrivals[i].ID)
			}
		}
		stored, err := f.StoreArrivals(t.Context(), arrivals)
		require.NoError(t, err)
		require.Equal(t, messages, stored)
		b := f.startBulk(dlqtest.Bulk("orders", 1, dlqtest.Filter(dlq.Filter{ErrorContains: "NEEDLE"})))
		lane := dlqtest.Lane(b, 0)
		require.Equal(t, want, f.drain(lane))
	},

	"the specification is stored unchanged": func(t *testing.T, f fixture) {
		at := time.Date(2026, 2, 20, 10, 30, 0, 123456000, time.UTC)
		spec := dlq.JobSpec{Kind: dlq.KindRetry, RateLimit: 12, Order: dlq.OrderNone, Reason: "because",
			Ramp: &dlq.Ramp{Steps: []int{1, 10}, Wait: 30 * time.Second, MaxCameBack: 0.25},
			Filter: dlq.Filter{Topic: "orders", Statuses: []dlq.Status{dlq.StatusPending}, ErrorContains: `a "b" %`, Key: []byte{0, 0xff},
				CreatedFrom: at, CreatedTo: at.Add(time.Hour), IDs: []dlq.ID{dlq.NewID(), dlq.NewID()}}}
		for _, spec := range []dlq.JobSpec{spec, {Kind: dlq.KindDead, Filter: dlq.Filter{Topic: "orders"}},
			{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders", Key: []byte{}}}} {
			b := dlqtest.Bulk("", 1)
			b.Spec = spec
			started := f.startBulk(b)
			require.Equal(t, spec, started.Spec)
			require.Equal(t, started.Spec, f.job(b.ID).Spec)
			f.end(b.ID, dlq.JobCancelled)
		}
		b := dlqtest.Bulk("a", 1, func(s *dlq.JobSpec) { s.Topic, s.Reason, s.ErrorContains = "a\x00", "\x00", "\xff\x00" })
		require.Equal(t, f.startBulk(b).Spec, f.job(b.ID).Spec)
	},
}
