package activities_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/kafka"
	"dlqmanager/store/postgres"
	"dlqmanager/webhook"
)

// endpointTest is a bulk retry of one lane to a real endpoint. At ten messages per second, each
// page has one message.
func endpointTest(t *testing.T, perSecond int, handler http.HandlerFunc, arrivals ...dlq.Arrival) (*laneTest, *activities.Router) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	publisher, err := webhook.New(webhook.Options{
		Endpoints:       map[string]webhook.Endpoint{"shop": {URL: server.URL, Timeout: 5 * time.Second, Concurrency: 4}},
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Metrics: kafka.NewPublishMetrics(nil),
		Original: func(ctx context.Context, e *dlq.Envelope) (dlq.Record, error) { return kafka.Original(ctx, e, nil) },
	}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(publisher.Close)
	targets, err := dlq.NewTargets(dlqtest.Topics(t), map[string]string{"orders": "http:shop"}, nil, []string{"shop"})
	require.NoError(t, err)
	l := &laneTest{store: postgres.New(dbtest.New(t), dlqtest.Topics(t)), ids: map[string]dlq.ID{}, metrics: prometheus.NewRegistry()}
	for _, a := range arrivals {
		l.ids[string(a.Record.Value)] = a.ID
	}
	_, err = l.store.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	bulk, err := l.store.CreateJob(t.Context(), nil, dlqtest.Bulk("all.dlq", 1, func(s *dlq.JobSpec) { s.RateLimit = perSecond }))
	require.NoError(t, err)
	_, err = l.store.CountJob(t.Context(), bulk.ID)
	require.NoError(t, err)
	l.lane = dlqtest.Lane(bulk, 0)
	return l, &activities.Router{Targets: targets, HTTP: publisher}
}

// runOnce runs the lane like its workflow. If the lane waits for a closed target, runOnce waits as long.
func (l *laneTest) runOnce(t *testing.T, publisher activities.Publisher) activities.LaneResult {
	t.Helper()
	result := l.runTo(t, publisher)
	l.shut = result.TargetClosed
	if result.End == activities.LaneWaiting {
		<-time.After(result.For)
	}
	return result
}

func TestAMessageThatBreaksAnEndpointDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	var broken atomic.Int32
	l, router := endpointTest(t, 10, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "poison" {
			if broken.Add(1) < 5 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			w.WriteHeader(489)
			_, _ = io.WriteString(w, "no such order")
		}
	}, message("orders", "a", "poison"), message("orders", "b", "1"), message("orders", "c", "2"), message("orders", "a", "later"), message("orders", "d", "3"))
	started := time.Now()
	for l.counts(t).Retried < 3 {
		require.Less(t, time.Since(started), 10*time.Second)
		l.runOnce(t, router)
	}
	require.Equal(t, dlq.StatusPending, l.detail(t, "poison").Status)
	require.Empty(t, l.detail(t, "poison").Attempts, "nothing is counted yet")
	for l.runOnce(t, router).End != activities.LaneDone {
		require.Less(t, time.Since(started), 40*time.Second)
	}
	require.Equal(t, dlq.JobCounts{Retried: 3, Dead: 1, Skipped: 1}, l.counts(t))
	poison := l.detail(t, "poison")
	require.Equal(t, "http:shop answered 489: no such order", poison.Attempts[0].Error)
	require.Equal(t, dlq.StatusDead, poison.Status)
	require.Equal(t, 1, poison.RetryCount, "counted once")
	l.requireUnchanged(t, "later")
}

func TestAMessageThatAnEndpointDoesNotKnowDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	l, router := endpointTest(t, 10, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "unknown" {
			w.WriteHeader(http.StatusNotFound)
		}
	}, message("orders", "a", "unknown"), message("orders", "b", "1"), message("orders", "c", "2"))
	started := time.Now()
	for l.counts(t).Retried < 2 {
		require.Less(t, time.Since(started), 10*time.Second)
		l.runOnce(t, router)
	}
	require.Equal(t, dlq.JobCounts{Retried: 2}, l.counts(t), "the URL may be wrong, so the message is not counted")
}

func TestAnEndpointThatIsAwayClosesTheTargetAndCountsNothing(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	l, router := endpointTest(t, 10, func(w http.ResponseWriter, _ *http.Request) {
		if !open.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, message("orders", "a", "1"), message("orders", "b", "2"), message("orders", "a", "3"))
	result := l.runOnce(t, router)
	require.Equal(t, activities.LaneWaiting, result.End)
	require.Equal(t, "http:shop answered 503 Service Unavailable", result.Reason)
	require.Zero(t, l.counts(t))
	open.Store(true)
	for l.runOnce(t, router).End != activities.LaneDone {
		require.Zero(t, l.counts(t).Failed)
	}
	require.Equal(t, dlq.JobCounts{Retried: 3}, l.counts(t))
}

func TestAnEndpointThatThrottlesGetsAllMessagesAndNothingIsCounted(t *testing.T) {
	t.Parallel()
	const window = 5 // messages that the endpoint takes in a second
	var mu sync.Mutex
	var end time.Time
	taken, throttled := 0, 0
	var arrivals []dlq.Arrival
	for i := range 3 * window {
		arrivals = append(arrivals, message("orders", fmt.Sprint("key-", i), fmt.Sprint(i)))
	}
	l, router := endpointTest(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(end) {
			taken, end = 0, now.Add(time.Second)
		}
		if taken++; taken > window {
			throttled++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}, arrivals...)
	started := time.Now()
	for l.runOnce(t, router).End != activities.LaneDone {
		require.Less(t, time.Since(started), 20*time.Second)
	}
	require.Equal(t, dlq.JobCounts{Retried: 3 * window}, l.counts(t))
	require.LessOrEqual(t, throttled, 10*window, "it gets few requests that it does not want")
	for i := range arrivals {
		require.Equal(t, 1, l.detail(t, fmt.Sprint(i)).RetryCount)
	}
}
