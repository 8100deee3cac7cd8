package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// failedIn is an arrival whose headers name a consumer group.
func failedIn(group string) dlq.Arrival {
	return dlqtest.Arrival(func(a *dlq.Arrival) {
		a.Origin.ConsumerGroup, a.Origin.Family = group, "spring-kafka"
		a.Fingerprint = dlqtest.Arrival(dlqtest.Cause("boom " + group)).Fingerprint
		a.Fingerprint.Scope = group
	})
}

// deliver stores an arrival, and retries it with success.
func (f fixture) deliver(a dlq.Arrival, to *dlq.Acknowledgement) dlq.ID {
	f.t.Helper()
	id := f.store(a)[0].ID
	outcome := dlqtest.Delivered(id)
	outcome.Acknowledgement = to
	_, ended, err := f.Finalize(f.t.Context(), f.claim(id), outcome)
	require.NoError(f.t, err)
	require.True(f.t, ended)
	return id
}

func (f fixture) verdict(id dlq.ID) dlq.Verdict {
	f.t.Helper()
	verdicts, err := f.Verdicts(f.t.Context(), []dlq.ID{id, dlq.NewID()})
	require.NoError(f.t, err)
	return verdicts[id]
}

// publish publishes the offset of the group shipping in partition 0 of the first target.
func (f fixture) publish(offset int64, at time.Time) {
	f.t.Helper()
	w := dlq.Watermarks{At: at, Groups: map[string]string{"shipping": ""}}
	if offset >= 0 {
		w.Committed = []dlq.Watermark{{Group: "shipping", Target: f.targets()[0].ID, Offset: offset}}
	}
	f.publishAll(&w)
}

// publishAll publishes the watermarks w. If w has no targets, it covers all targets.
func (f fixture) publishAll(w *dlq.Watermarks) {
	f.t.Helper()
	if w.Targets == nil {
		w.Targets = map[int32]time.Time{}
		for _, target := range f.targets() {
			w.Targets[target.ID] = w.At
		}
	}
	lease, taken, err := f.LeaseWatermarks(f.t.Context(), dlq.ID{1}, time.Minute)
	require.NoError(f.t, err)
	require.True(f.t, taken)
	require.NoError(f.t, f.PublishWatermarks(f.t.Context(), lease, w))
}

func (f fixture) targets() []dlq.WatermarkTarget {
	f.t.Helper()
	scope, err := f.WatermarkScope(f.t.Context())
	require.NoError(f.t, err)
	return scope.Targets
}

// sent is an acknowledgement of partition 0 of the original topic.
func sent(offset int64) *dlq.Acknowledgement {
	return &dlq.Acknowledgement{Topic: "orders", TopicID: dlq.ID{9}, Offset: offset}
}

var (
	yes = dlq.Verdict{Verified: dlq.VerifiedYes, Target: "orders"}
	no  = dlq.Verdict{Verified: dlq.VerifiedNo, Target: "orders"}
)

func unknown(reason dlq.VerifiedReason) dlq.Verdict {
	return dlq.Verdict{Verified: dlq.VerifiedUnknown, Reason: reason, Target: "orders"}
}

var verified = map[string]func(*testing.T, fixture){
	"a message is verified once its group has committed beyond it": func(t *testing.T, f fixture) {
		id := f.deliver(failedIn("shipping"), sent(7))
		require.Equal(t, unknown(dlq.ReasonNotRead), f.verdict(id))
		scope, err := f.WatermarkScope(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"shipping"}, scope.Groups)
		require.Equal(t, []dlq.WatermarkTarget{{ID: scope.Targets[0].ID, Topic: "orders", TopicID: dlq.ID{9}, DLQTopics: scope.Targets[0].DLQTopics}},
			scope.Targets)
		require.Equal(t, []string{"orders.dlq"}, slices.Compact(scope.Targets[0].DLQTopics))
		for offset, want := range map[int64]dlq.Verdict{0: no, 7: no, 8: yes, 100: yes, -1: unknown(dlq.ReasonGroupGone)} {
			f.publish(offset, time.Now())
			require.Equal(t, want, f.verdict(id), offset)
		}
		f.publish(7, time.Now().Add(-dlq.WatermarksOutdated-time.Second))
		require.Equal(t, unknown(dlq.ReasonOutdated), f.verdict(id))
		f.publish(8, time.Now().Add(-time.Hour))
		require.Equal(t, yes, f.verdict(id), "it stays so")
	},

	"a message that came back is not verified": func(t *testing.T, f fixture) {
		first, second := f.deliver(failedIn("shipping"), sent(7)), f.deliver(failedIn("shipping"), sent(8))
		f.publish(9, time.Now())
		require.Equal(t, yes, f.verdict(first))
		partition, offset := int32(0), int64(8)
		f.store(cameBackFrom(first), dlqtest.Arrival(func(a *dlq.Arrival) { // this message has lost the header with the id
			a.Origin.Partition, a.Origin.Offset = &partition, &offset
		}))
		cameBack := dlq.Verdict{Verified: dlq.VerifiedNo, Reason: dlq.ReasonCameBack, Target: "orders"}
		require.Equal(t, cameBack, f.verdict(first))
		require.Equal(t, cameBack, f.verdict(second))
	},

	"a message that came back without our headers stays so when it is archived": func(t *testing.T, f fixture) {
		id := f.deliver(failedIn("shipping"), sent(7))
		f.publish(9, time.Now())
		partition, offset := int32(0), int64(7)
		f.deliver(dlqtest.Arrival(func(a *dlq.Arrival) { a.Origin.Partition, a.Origin.Offset = &partition, &offset }), sent(8))
		archived, err := f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		require.EqualValues(t, 2, archived)
		require.Equal(t, dlq.Verdict{Verified: dlq.VerifiedNo, Reason: dlq.ReasonCameBack, Target: "orders"}, f.verdict(id))
	},

	"the reason says why nobody knows": func(t *testing.T, f fixture) {
		family := func(name string) dlq.Arrival {
			a := failedIn("shipping")
			a.Origin.Family = name
			return a
		}
		f.deliver(failedIn("shipping"), sent(7))
		f.publish(100, time.Now())
		for reason, id := range map[dlq.VerifiedReason]dlq.ID{
			dlq.ReasonNoGroup:     f.deliver(dlqtest.Arrival(), sent(7)),
			dlq.ReasonShareGroup:  f.deliver(family(dlq.FamilyShareGroup), sent(7)),
			dlq.ReasonRetryTopics: f.deliver(family(dlq.FamilyRetryable), sent(7)),
			dlq.ReasonNotRead:     f.deliver(failedIn("billing"), sent(7)),
			dlq.ReasonNoOffset:    f.deliver(failedIn("shipping"), &dlq.Acknowledgement{Topic: "orders", Offset: 7}),
		} {
			require.Equal(t, unknown(reason), f.verdict(id))
		}
		require.Equal(t, dlq.Verdict{Verified: dlq.VerifiedUnknown, Reason: dlq.ReasonHTTP, Target: "http:shop"},
			f.verdict(f.deliver(failedIn("shipping"), &dlq.Acknowledgement{Topic: "http:shop", Partition: dlq.AnyPartition})))
		require.Equal(t, dlq.Verdict{Verified: dlq.VerifiedUnknown, Reason: dlq.ReasonNoTarget},
			f.verdict(f.deliver(failedIn("shipping"), &dlq.Acknowledgement{Offset: 7})))
		require.Zero(t, f.verdict(f.store(failedIn("shipping"))[0].ID), "it was not delivered")

		f.publishAll(&dlq.Watermarks{At: time.Now(), Groups: map[string]string{"billing": "no access"}})
		require.Equal(t, unknown(dlq.ReasonRefused), f.verdict(f.deliver(failedIn("billing"), sent(7))))
	},

	"a topic that was made anew is another target": func(t *testing.T, f fixture) {
		before, after := f.deliver(failedIn("shipping"), sent(7)), failedIn("shipping")
		anew := sent(0)
		anew.TopicID = dlq.ID{10}
		id := f.deliver(after, anew)
		var targets [2]int32
		for _, target := range f.targets() {
			targets[target.TopicID[0]-9] = target.ID
		}
		w := dlq.Watermarks{At: time.Now(), Groups: map[string]string{"shipping": ""},
			Committed: []dlq.Watermark{{Group: "shipping", Target: targets[1], Offset: 100}}, Changed: targets[:1]}
		f.publishAll(&w)
		require.Equal(t, unknown(dlq.ReasonTopicChanged), f.verdict(before))
		require.Equal(t, yes, f.verdict(id))
		w.Changed = nil
		f.publishAll(&w)
		require.Equal(t, unknown(dlq.ReasonGroupGone), f.verdict(before), "a broker may have been mistaken")
	},

	"the offsets of a group that is away stay": func(t *testing.T, f fixture) {
		passed, next := f.deliver(failedIn("shipping"), sent(7)), f.deliver(failedIn("shipping"), sent(8))
		f.publish(8, time.Now())
		require.Equal(t, yes, f.verdict(passed))
		require.Equal(t, dlq.VerifiedNo, f.verdict(next).Verified)
		f.publishAll(&dlq.Watermarks{At: time.Now(), Groups: map[string]string{"billing": ""}, Away: []string{"shipping"}})
		require.Equal(t, yes, f.verdict(passed))
		require.Equal(t, unknown(dlq.ReasonNotRead), f.verdict(next), "it may have committed since")
		f.publish(9, time.Now())
		require.Equal(t, yes, f.verdict(next))
	},

	"each dead-letter topic has watermarks of its own": func(t *testing.T, f fixture) {
		elsewhere := failedIn("shipping")
		elsewhere.DLQTopic = "shop.dlq"
		held, ahead := f.deliver(elsewhere, sent(7)), f.deliver(failedIn("shipping"), sent(8))
		next := f.deliver(failedIn("shipping"), sent(20))
		targets := map[string]int32{}
		for _, target := range f.targets() {
			targets[target.DLQTopics[0]] = target.ID
			require.ElementsMatch(t, []string{"orders.dlq", "shop.dlq"}, slices.Compact(slices.Sorted(slices.Values(target.DLQTopics))))
		}
		publish := func(topic string, at time.Time, offset int64) {
			f.publishAll(&dlq.Watermarks{At: at, Groups: map[string]string{"shipping": ""}, Targets: map[int32]time.Time{targets[topic]: at},
				Committed: []dlq.Watermark{{Group: "shipping", Target: targets[topic], Offset: offset}}})
		}
		publish("shop.dlq", time.Now().Add(-dlq.WatermarksOutdated-time.Second), 7)
		require.Equal(t, unknown(dlq.ReasonOutdated), f.verdict(held))
		require.Equal(t, unknown(dlq.ReasonNotRead), f.verdict(ahead))
		publish("orders.dlq", time.Now(), 9)
		require.Equal(t, unknown(dlq.ReasonOutdated), f.verdict(held), "its dead-letter topic is behind")
		require.Equal(t, yes, f.verdict(ahead))
		require.Equal(t, no, f.verdict(next))
		publish("shop.dlq", time.Now(), 9)
		require.Equal(t, yes, f.verdict(held))
		require.Equal(t, yes, f.verdict(ahead), "its offsets stay")
	},

	"only the holder of the lease publishes": func(t *testing.T, f fixture) {
		id := f.deliver(failedIn("shipping"), sent(7))
		first, taken, err := f.LeaseWatermarks(t.Context(), dlq.ID{1}, -time.Second)
		require.NoError(t, err)
		require.True(t, taken)
		again, taken, err := f.LeaseWatermarks(t.Context(), dlq.ID{1}, -time.Second)
		require.NoError(t, err)
		require.True(t, taken)
		require.Equal(t, first, again)
		second, taken, err := f.LeaseWatermarks(t.Context(), dlq.ID{2}, time.Minute)
		require.NoError(t, err)
		require.True(t, taken, "it has expired")
		_, taken, err = f.LeaseWatermarks(t.Context(), dlq.ID{1}, time.Minute)
		require.NoError(t, err)
		require.False(t, taken)
		w := dlq.Watermarks{At: time.Now(), Groups: map[string]string{"shipping": ""},
			Committed: []dlq.Watermark{{Group: "shipping", Target: f.targets()[0].ID, Offset: 100}}}
		w.Targets = map[int32]time.Time{w.Committed[0].Target: w.At}
		require.ErrorIs(t, f.PublishWatermarks(t.Context(), first, &w), dlq.ErrFenced)
		require.Equal(t, unknown(dlq.ReasonNotRead), f.verdict(id))
		require.NoError(t, f.PublishWatermarks(t.Context(), second, &w))
		require.Equal(t, yes, f.verdict(id))
	},

	"lists and bulk retries tell how many are verified": func(t *testing.T, f fixture) {
		for range 3 {
			f.store(failedIn("shipping"))
		}
		f.store(dlqtest.Arrival(), dlqtest.Arrival())
		b := f.startBulk(dlqtest.Bulk("orders", 1))
		lane := dlqtest.Lane(b, 0)
		f.setStepLimit(b.ID, 4)
		page := f.tryClaim(lane).Page
		outcomes := dlqtest.Outcomes(page, dlq.ResultDelivered)
		for i := range outcomes {
			outcomes[i].Acknowledgement = sent(int64(i))
		}
		f.finalizePage(lane, outcomes)
		f.publish(2, time.Now())
		f.store(cameBackFrom(page[1].ID))

		counts, err := f.VerifyJob(t.Context(), b.ID)
		require.NoError(t, err)
		require.Equal(t, dlq.Verifications{Yes: 1, No: 2, CameBack: 1, Unknown: 1, Reasons: map[dlq.VerifiedReason]int64{dlq.ReasonNoGroup: 1}}, counts)
		for value, want := range map[dlq.Verified][]dlq.ID{
			dlq.VerifiedYes: {page[0].ID}, dlq.VerifiedNo: {page[2].ID, page[1].ID}, dlq.VerifiedUnknown: {page[3].ID},
		} {
			list := f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Verified: value}, PageSize: 10})
			require.Equal(t, want, ids(list.Messages))
			list = f.list(dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Verified: value, IDs: want[:1]}, PageSize: 10})
			require.Equal(t, want[:1], ids(list.Messages))
		}
		_, err = f.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
		require.NoError(t, err)
		require.Equal(t, yes, f.verdict(page[0].ID), "also in the archive")
	},
}
