package activities_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.temporal.io/sdk/testsuite"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/internal/kafkatest"
	"dlqmanager/kafka"
	"dlqmanager/store/postgres"
)

// target is a scripted Publisher that keeps the contract of the interface.
type target struct {
	mu sync.Mutex
	// answers has the errors of each value, one for each time that the value is sent. After these errors the value is
	// accepted.
	answers map[string][]error
	// asked are the values that were sent, in order; orders are the orders of the calls.
	asked  []string
	orders []dlq.Order
	// calls are how many messages each call was asked to send, and closed the closed targets that each call was given.
	calls  []int
	closed [][]dlq.Target
}

func (p *target) Publish(_ context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders, p.calls, p.closed = append(p.orders, order), append(p.calls, len(envelopes)), append(p.closed, closed)
	deliveries := make([]dlq.Delivery, len(envelopes))
	undelivered := map[[2]string]error{}
	for i, e := range envelopes {
		deliveries[i].Target, deliveries[i].Partitions = dlq.Target{Topic: e.OriginalTopic}, 1
		if slices.Contains(closed, deliveries[i].Target) {
			deliveries[i].Err = dlq.ErrTargetClosed
			continue
		}
		key := [2]string{e.OriginalTopic, string(e.Record.Key)}
		if behind := undelivered[key]; behind != nil && order != dlq.OrderNone {
			deliveries[i].Err = &dlq.BlockedError{Cause: behind}
			continue
		}
		value := string(e.Record.Value)
		p.asked = append(p.asked, value)
		if answers := p.answers[value]; len(answers) > 0 {
			deliveries[i].Err, p.answers[value] = answers[0], answers[1:]
		}
		if deliveries[i].Err == nil {
			deliveries[i].Acknowledgement = &dlq.Acknowledgement{Offset: int64(len(p.asked))}
		} else {
			undelivered[key] = deliveries[i].Err
		}
	}
	return deliveries
}

// refuse is a refusal with a short wait.
func refuse(category dlq.Category) *dlq.DeliveryError {
	return &dlq.DeliveryError{Category: category, RetryAfter: time.Millisecond, Err: fmt.Errorf("refused: %s", category)}
}

// laneTest is a bulk retry of one lane.
type laneTest struct {
	target  *target
	pool    *pgxpool.Pool
	store   *postgres.Store
	metrics *prometheus.Registry
	lane    dlq.Lane
	ids     map[string]dlq.ID
	shut    bool
}

// message is a dead letter with its own value.
func message(topic, key, value string) dlq.Arrival {
	return dlqtest.Arrival(dlqtest.FromTopic("all.dlq", topic), dlqtest.Key(key), dlqtest.Value(value))
}

func newLaneTest(t *testing.T, order dlq.Order, answers map[string][]error, arrivals ...dlq.Arrival) *laneTest {
	t.Helper()
	l := &laneTest{target: &target{answers: answers}, pool: dbtest.New(t), ids: map[string]dlq.ID{}}
	l.store = postgres.New(l.pool, dlqtest.Topics(t))
	for _, a := range arrivals {
		l.ids[string(a.Record.Value)] = a.ID
	}
	_, err := l.store.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	bulk, err := l.store.CreateJob(t.Context(), nil, dlqtest.Bulk("all.dlq", 1, func(s *dlq.JobSpec) { s.Order = order }))
	require.NoError(t, err)
	_, err = l.store.CountJob(t.Context(), bulk.ID) // the count also finds out whether the job has several targets
	require.NoError(t, err)
	l.lane = dlqtest.Lane(bulk, 0)
	return l
}

func (l *laneTest) run(t *testing.T) activities.LaneResult {
	t.Helper()
	return l.runTo(t, l.target)
}

func (l *laneTest) runTo(t *testing.T, publisher activities.Publisher) activities.LaneResult {
	t.Helper()
	value, err := l.environment(t, l.store, publisher).ExecuteActivity("RunLane",
		activities.LaneInput{Bulk: l.lane.Job, Number: l.lane.Number, TargetClosed: l.shut})
	require.NoError(t, err)
	var result activities.LaneResult
	require.NoError(t, value.Get(&result))
	return result
}

func (l *laneTest) environment(t *testing.T, store activities.JobStore, publisher activities.Publisher) *testsuite.TestActivityEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	l.metrics = prometheus.NewRegistry() // another worker's
	env.RegisterActivity(&activities.Jobs{
		Store: store, Publisher: publisher, Metrics: activities.NewMetrics(l.metrics), Log: zap.NewNop(),
	})
	return env
}

func (l *laneTest) counts(t *testing.T) dlq.JobCounts {
	t.Helper()
	bulk, err := l.store.Job(t.Context(), l.lane.Job)
	require.NoError(t, err)
	return bulk.Counts
}

// counted is dlq_retried_total by result, without zeros.
func (l *laneTest) counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := l.metrics.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "dlq_retried_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "result" && metric.GetCounter().GetValue() > 0 {
					counted[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return counted
}

func (l *laneTest) detail(t *testing.T, value string) dlq.Detail {
	t.Helper()
	detail, err := dlqtest.Detail(t.Context(), l.store, l.ids[value])
	require.NoError(t, err)
	return detail
}

// requireUnchanged requires that the error of another message has not changed these messages.
func (l *laneTest) requireUnchanged(t *testing.T, values ...string) {
	t.Helper()
	for _, value := range values {
		detail := l.detail(t, value)
		require.Equal(t, dlq.StatusPending, detail.Status, value)
		require.Zero(t, detail.RetryCount, value)
		require.Empty(t, detail.Attempts, value)
	}
}

func TestLaneSkipsTheLaterMessagesOfABadMessagesKey(t *testing.T) {
	t.Parallel()
	for _, order := range []dlq.Order{dlq.OrderKey, ""} {
		t.Run(fmt.Sprintf("order %q", order), func(t *testing.T) {
			t.Parallel()
			l := newLaneTest(t, order, map[string][]error{"bad": {refuse(dlq.CategoryBadData)}},
				message("orders", "a", "before"), message("orders", "a", "bad"), message("orders", "b", "other"),
				message("orders", "a", "after"), message("orders", "a", "last"))
			require.Equal(t, activities.LaneResult{End: activities.LaneDone}, l.run(t))
			require.Equal(t, dlq.JobCounts{Retried: 2, Dead: 1, Skipped: 2}, l.counts(t))
			require.Equal(t, dlq.StatusDead, l.detail(t, "bad").Status)
			require.Equal(t, dlq.StatusResolved, l.detail(t, "before").Status)
			require.Equal(t, dlq.StatusResolved, l.detail(t, "other").Status)
			l.requireUnchanged(t, "after", "last")
			require.Equal(t, []dlq.Order{order}, l.target.orders, "no second attempt")
		})
	}
}

func TestLaneSkipsTheLaterMessagesOfABadMessagesKeyOnKafka(t *testing.T) {
	t.Parallel()
	for order, want := range map[dlq.Order]dlq.JobCounts{
		dlq.OrderKey:  {Retried: 2, Dead: 1, Skipped: 97},
		dlq.OrderNone: {Retried: 99, Dead: 1},
	} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			brokers := kafkatest.FakeCluster(t, kfake.SeedTopics(1, "orders"),
				kfake.BrokerConfigs(map[string]string{"message.max.bytes": "20000"})).ListenAddrs()
			publisher, err := kafka.NewPublisher(kafka.Options{Brokers: brokers}, zap.NewNop(), prometheus.NewRegistry())
			require.NoError(t, err)
			t.Cleanup(publisher.Close)
			noise := make([]byte, 30_000) // does not compress, and so does not fit
			_, err = rand.Read(noise)
			require.NoError(t, err)
			page := []dlq.Arrival{message("orders", "a", "before"), message("orders", "a", string(noise)), message("orders", "b", "other")}
			for i := len(page); i < dlq.PageSize; i++ {
				page = append(page, message("orders", "a", fmt.Sprint(i)))
			}
			l := newLaneTest(t, order, nil, page...)
			require.Equal(t, activities.LaneResult{End: activities.LaneDone}, l.runTo(t, publisher))
			require.Equal(t, want, l.counts(t))
			bad := l.detail(t, string(noise))
			require.Equal(t, dlq.StatusDead, bad.Status)
			require.Equal(t, dlq.CategoryBadData, bad.Attempts[0].Category)
			if order == dlq.OrderKey {
				l.requireUnchanged(t, "3", "99")
			}
		})
	}
}

func TestLaneWithoutOrderSendsTheLaterMessagesOfABadMessagesKey(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderNone, map[string][]error{
		"bad": {refuse(dlq.CategoryBadData)}, "worse": {refuse(dlq.CategoryTransient), refuse(dlq.CategoryBadData)},
	}, message("orders", "a", "bad"), message("orders", "a", "after"), message("orders", "a", "worse"), message("orders", "a", "last"))
	require.Equal(t, activities.LaneDone, l.run(t).End)
	require.Equal(t, dlq.JobCounts{Retried: 2, Dead: 2}, l.counts(t))
	require.Equal(t, dlq.StatusResolved, l.detail(t, "after").Status)
	require.Equal(t, dlq.StatusResolved, l.detail(t, "last").Status)
	require.Equal(t, []dlq.Order{dlq.OrderNone, dlq.OrderNone}, l.target.orders)
}

func TestPageBlockedByABadMessageIsNotARefusal(t *testing.T) {
	t.Parallel()
	var arrivals []dlq.Arrival
	for i := range 2*dlq.PageSize + 1 {
		arrivals = append(arrivals, message("orders", "a", fmt.Sprint(i)))
	}
	l := newLaneTest(t, dlq.OrderKey, map[string][]error{"0": {refuse(dlq.CategoryBadData)}}, arrivals...)
	require.Equal(t, activities.LaneResult{End: activities.LaneDone}, l.run(t))
	require.Equal(t, dlq.JobCounts{Dead: 1, Skipped: 2 * dlq.PageSize}, l.counts(t))
	require.Equal(t, []string{"0"}, l.target.asked)
	l.requireUnchanged(t, "1", "99", "100", "200")
}

// pausing is a target that is so slow that the job is paused meanwhile.
type pausing struct {
	*target
	pause func()
}

func (p pausing) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	p.pause()
	return p.target.Publish(ctx, envelopes, order, closed)
}

func TestLaneCountsOnlyPagesThatItFinalized(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, map[string][]error{"bad": {refuse(dlq.CategoryBadData)}},
		message("orders", "a", "bad"), message("orders", "a", "after"), message("orders", "b", "other"))
	unavailable := map[string][]error{"bad": {refuse(dlq.CategoryTransient)}, "other": {refuse(dlq.CategoryTransient)}}
	require.Equal(t, activities.LaneClosed, l.runTo(t, pausing{&target{answers: unavailable}, func() {
		_, err := l.store.PauseJob(t.Context(), nil, l.lane.Job, "")
		require.NoError(t, err)
	}}).End)
	require.Empty(t, l.counted(t), "its page was released")
	_, err := l.store.ResumeJob(t.Context(), nil, l.lane.Job)
	require.NoError(t, err)
	require.Equal(t, activities.LaneDone, l.run(t).End)
	require.Equal(t, map[string]float64{"delivered": 1, "rejected": 1, "skipped": 1}, l.counted(t))
}

func TestBlockedMessagesFollowTheOutcomeOfTheEarlierOne(t *testing.T) {
	t.Parallel()
	transient, bad := refuse(dlq.CategoryTransient), refuse(dlq.CategoryBadData)
	page := func() []dlq.Arrival {
		return []dlq.Arrival{
			message("orders", "a", "a1"), message("orders", "a", "a2"), message("orders", "b", "b1"), message("orders", "a", "a3"),
		}
	}
	t.Run("it is delivered in the end", func(t *testing.T) {
		t.Parallel()
		l := newLaneTest(t, dlq.OrderKey, map[string][]error{"a1": {transient, transient}}, page()...)
		l.run(t)
		require.Equal(t, dlq.JobCounts{Retried: 4}, l.counts(t))
		require.Equal(t, []string{"a1", "b1", "a1", "a1", "a2", "a3"}, l.target.asked)
	})
	t.Run("it turns out to be bad", func(t *testing.T) {
		t.Parallel()
		l := newLaneTest(t, dlq.OrderKey, map[string][]error{"a1": {transient, transient, bad}}, page()...)
		l.run(t)
		require.Equal(t, dlq.JobCounts{Retried: 1, Dead: 1, Skipped: 2}, l.counts(t))
		require.Equal(t, []string{"a1", "b1", "a1", "a1"}, l.target.asked)
		l.requireUnchanged(t, "a2", "a3")
	})
	t.Run("the second is bad", func(t *testing.T) {
		t.Parallel()
		l := newLaneTest(t, dlq.OrderKey, map[string][]error{"a1": {transient}, "a2": {bad}}, page()...)
		l.run(t)
		require.Equal(t, dlq.JobCounts{Retried: 2, Dead: 1, Skipped: 1}, l.counts(t))
		require.Equal(t, []string{"a1", "b1", "a1", "a2"}, l.target.asked)
		l.requireUnchanged(t, "a3")
	})
}

func TestOneClosedTargetDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for _, category := range []dlq.Category{dlq.CategoryTransient, dlq.CategoryAuth} {
		t.Run(string(category), func(t *testing.T) {
			t.Parallel()
			l := newLaneTest(t, dlq.OrderKey, map[string][]error{"a1": {refuse(category)}},
				message("orders", "a", "a1"), message("orders", "a", "a2"), message("pay", "b", "b1"))
			result := l.run(t)
			require.Equal(t, activities.LaneWaiting, result.End)
			require.Equal(t, "refused: "+string(category), result.Reason)
			require.Equal(t, category, result.Category)
			require.InDelta(t, time.Second, result.For, float64(time.Second))
			bulk, err := l.store.Job(t.Context(), l.lane.Job)
			require.NoError(t, err)
			require.Equal(t, dlq.JobCounts{Retried: 1}, bulk.Counts)
			require.EqualValues(t, 2, bulk.Waiting)
			require.Equal(t, result.Reason, bulk.Reason)
			l.requireUnchanged(t, "a1", "a2")

			_, err = l.store.PauseJob(t.Context(), nil, l.lane.Job, "mended")
			require.NoError(t, err)
			_, err = l.store.ResumeJob(t.Context(), nil, l.lane.Job) // the resumed job tries the target at once
			require.NoError(t, err)
			require.Equal(t, activities.LaneDone, l.run(t).End)
			require.Equal(t, dlq.JobCounts{Retried: 3}, l.counts(t))
			require.Equal(t, []string{"a1", "b1", "a1", "a2"}, l.target.asked)
		})
	}
}

func TestAJobWithAClosedTargetIsPausedOnlyWhileItIsClosed(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, map[string][]error{"a1": {refuse(dlq.CategoryAuth)}}, message("orders", "a", "a1"))
	pause := func() dlq.JobState {
		_, err := l.store.StopJob(t.Context(), nil, l.lane.Job, dlq.JobPausing, "closed")
		require.NoError(t, err)
		value, err := l.environment(t, l.store, l.target).ExecuteActivity("PauseJob",
			activities.StateInput{ID: l.lane.Job, Reason: "closed", TargetClosed: true})
		require.NoError(t, err)
		var bulk dlq.Job
		require.NoError(t, value.Get(&bulk))
		return bulk.State
	}
	require.Equal(t, activities.LaneWaiting, l.run(t).End)
	require.Equal(t, dlq.JobPaused, pause())
	_, err := l.store.ResumeJob(t.Context(), nil, l.lane.Job)
	require.NoError(t, err)
	require.Equal(t, activities.LaneDone, l.run(t).End)
	require.Equal(t, dlq.JobPausing, pause(), "the caller resumes it")
}

func TestAClosedTargetIsTriedByOneMessageAndNotByTheRestOfTheScope(t *testing.T) {
	t.Parallel()
	var arrivals []dlq.Arrival
	answers := map[string][]error{}
	for i := range 3 * dlq.PageSize {
		value := fmt.Sprint(i)
		arrivals = append(arrivals, message("orders", value, value))
		answers[value] = []error{refuse(dlq.CategoryTransient)}
	}
	l := newLaneTest(t, dlq.OrderKey, answers, arrivals...)
	result := l.run(t)
	require.Equal(t, activities.LaneWaiting, result.End)
	require.True(t, result.TargetClosed)
	require.Len(t, l.target.asked, dlq.PageSize, "the first page has told enough")

	l.shut = true
	_, err := l.store.PauseJob(t.Context(), nil, l.lane.Job, "")
	require.NoError(t, err)
	_, err = l.store.ResumeJob(t.Context(), nil, l.lane.Job)
	require.NoError(t, err)
	l.target.answers = nil
	require.Equal(t, activities.LaneDone, l.run(t).End)
	require.Equal(t, dlq.JobCounts{Retried: 3 * dlq.PageSize}, l.counts(t))
	require.Len(t, l.target.asked, 4*dlq.PageSize)
	require.Equal(t, 1, l.target.calls[1], "one message asks")
}

func TestNothingIsSentToATargetThatIsKnownToBeClosed(t *testing.T) {
	t.Parallel()
	l := newLaneTest(t, dlq.OrderKey, nil, message("orders", "a", "a1"), message("orders", "b", "b1"), message("users", "c", "c1"))
	lane, err := l.store.OpenLane(t.Context(), l.lane.Job, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	one := int64(1)
	require.NoError(t, l.store.SetStepLimit(t.Context(), l.lane.Job, &one))
	claim, _, err := l.store.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	closed := dlq.Target{Topic: "orders"}
	outcomes := dlq.RequeuePage(claim.Page)
	outcomes[0].Wait = dlq.Wait{Target: closed, Tries: 1, For: time.Hour}
	_, err = l.store.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)
	require.NoError(t, l.store.SetStepLimit(t.Context(), l.lane.Job, nil))

	require.Equal(t, activities.LaneWaiting, l.run(t).End)
	require.Equal(t, [][]dlq.Target{{closed}}, l.target.closed)
	require.Equal(t, []string{"c1"}, l.target.asked)
}

func TestAMessageThatIsRefusedByItselfFailsAfterItsAttempts(t *testing.T) {
	t.Parallel()
	var refusals []error
	for range 10 {
		refusals = append(refusals, refuse(dlq.CategoryTransient))
	}
	l := newLaneTest(t, dlq.OrderKey, map[string][]error{"a1": refusals},
		message("orders", "a", "a1"), message("orders", "b", "b1"), message("orders", "a", "a2"))
	require.Equal(t, activities.LaneDone, l.run(t).End)
	require.Equal(t, dlq.JobCounts{Retried: 1, Failed: 1, Skipped: 1}, l.counts(t))
	require.Len(t, l.target.asked, 11)
	require.Equal(t, 1, l.detail(t, "a1").RetryCount, "one retry, whatever attempts it made")
	l.requireUnchanged(t, "a2")
}
