package dlq_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestAPlanNamesEveryNumberThatHasChanged(t *testing.T) {
	t.Parallel()
	counts := func(names map[string]int64) (all []dlq.PreviewCount) {
		for _, name := range []string{"a", "b", "c"} {
			if names[name] > 0 {
				all = append(all, dlq.PreviewCount{Name: name, Count: names[name]})
			}
		}
		return all
	}
	plan := dlq.JobPlan{Effect: dlq.Effect{Matched: 5, Digest: 7, ByTarget: counts(map[string]int64{"a": 3, "b": 2})}}
	for name, c := range map[string]struct {
		now  dlq.Effect
		want []dlq.PlanDifference
	}{
		"nothing": {plan.Effect, nil},
		"one was sent": {dlq.Effect{Matched: 4, ByTarget: counts(map[string]int64{"a": 2, "b": 2})},
			[]dlq.PlanDifference{{Name: "matched", Planned: 5, Now: 4}, {Name: "by_target_topic.a", Planned: 3, Now: 2}}},
		"all are gone": {dlq.Effect{},
			[]dlq.PlanDifference{{Name: "matched", Planned: 5}, {Name: "by_target_topic.a", Planned: 3}, {Name: "by_target_topic.b", Planned: 2}}},
		"others": {dlq.Effect{Matched: 5, Digest: 8, ByTarget: plan.Effect.ByTarget}, []dlq.PlanDifference{{Name: "matched", Planned: 5, Now: 5}}},
		"another route": {dlq.Effect{Matched: 5, Digest: 7, ByTarget: counts(map[string]int64{"a": 3, "c": 2})},
			[]dlq.PlanDifference{{Name: "by_target_topic.b", Planned: 2}, {Name: "by_target_topic.c", Now: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, plan.DifferencesTo(&c.now))
		})
	}
}

func TestTheHashOfAPlanChangesWithWhatItDoes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	plan := func(change func(*dlq.JobPlan)) string {
		p := dlq.JobPlan{ID: dlq.NewID(), Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders"}},
			Scope: dlq.Scope{UpperBound: 7, SnapshotAt: at}, Effect: dlq.Effect{Matched: 5}, ExpiresAt: at.Add(time.Hour)}
		change(&p)
		return p.Hash()
	}
	same := plan(func(*dlq.JobPlan) {})
	require.Len(t, same, 64)
	require.Equal(t, same, plan(func(p *dlq.JobPlan) { p.Spec.Reason = "another note" }))
	require.Equal(t, plan(func(p *dlq.JobPlan) { p.Spec.Kind = dlq.KindRestore }), plan(func(p *dlq.JobPlan) {
		p.Spec.Kind, p.Spec.Archived = dlq.KindRestore, true // as it is stored
	}))
	require.Equal(t, same, plan(func(p *dlq.JobPlan) { p.Spec.Within = "^(orders)$" }))
	for _, change := range []func(*dlq.JobPlan){
		func(p *dlq.JobPlan) { p.Spec.Kind = dlq.KindDelete },
		func(p *dlq.JobPlan) { p.Spec.RateLimit = 1 },
		func(p *dlq.JobPlan) { p.Spec.TargetTopic = "others" },
		func(p *dlq.JobPlan) { p.UpperBound++ },
		func(p *dlq.JobPlan) { p.SnapshotAt = at.Add(time.Microsecond) },
		func(p *dlq.JobPlan) { p.Effect.Matched++ },
		func(p *dlq.JobPlan) { p.Effect.Digest++ },
	} {
		require.NotEqual(t, same, plan(change))
	}
}

func TestTheRuleOfJobsBesideEachOtherHoldsBothWays(t *testing.T) {
	t.Parallel()
	for _, kind := range dlq.JobKinds {
		require.NotContains(t, kind.Beside(), kind, "a second request joins the first")
		for _, other := range dlq.JobKinds {
			require.Equal(t, slices.Contains(kind.Beside(), other), slices.Contains(other.Beside(), kind), "%s and %s", kind, other)
		}
	}
	require.Empty(t, dlq.KindDelete.Beside())
	require.Empty(t, dlq.JobKind("unknown").Beside())
}
