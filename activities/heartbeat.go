package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"dlqmanager/dlq"
)

const (
	// HeartbeatInterval is how often a lane reports that it lives.
	HeartbeatInterval = 500 * time.Millisecond

	// stepLimit is the longest that a step of a lane may take. Each has a time limit of
	// its own, the publisher's delivery timeout among them. A step that outlives this one
	// hangs: then the heartbeat stops, and Temporal gives the lane to another attempt.
	stepLimit = 30 * time.Second
)

// LaneReport is what a lane's heartbeat carries: progress for people who look at the
// Temporal Web UI, and what the next attempt must know.
type LaneReport struct {
	Lane    int            `json:"lane"`
	Counts  dlq.BulkCounts `json:"counts"`
	Waiting string         `json:"waiting,omitempty"`
	// Acknowledged are the messages that their target has and the store does not know
	// of yet. The next attempt writes them down before it sends anything.
	Acknowledged []Acknowledged `json:"acknowledged,omitempty"`
}

// Acknowledged is a message that was delivered.
type Acknowledged struct {
	ID dlq.ID `json:"id"`
	// RetryCount is that of the claim, and tells it from a later one.
	RetryCount int `json:"retry_count"`
}

// heartbeat reports in the background that a lane lives, as long as its steps return
// in time.
type heartbeat struct {
	ctx    context.Context //nolint:containedctx // that of the activity, which it lives in
	limit  time.Duration   // the longest that a step may take
	mu     sync.Mutex
	report LaneReport
	lived  time.Time
}

// startHeartbeat reports until stop is called.
func startHeartbeat(ctx context.Context, report LaneReport, limit time.Duration) (beat *heartbeat, stop func()) {
	beat = &heartbeat{ctx: ctx, limit: limit, report: report, lived: time.Now()}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(HeartbeatInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				beat.send(false)
			case <-done:
				return
			}
		}
	}()
	return beat, func() { close(done); <-finished }
}

// send reports, at once if it must, and else only while the lane lives.
func (b *heartbeat) send(must bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if must || time.Since(b.lived) < b.limit {
		activity.RecordHeartbeat(b.ctx, b.report)
	}
}

// alive notes that a step has returned, and what there is to report.
func (b *heartbeat) alive(change func(*LaneReport)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lived = time.Now()
	if change != nil {
		change(&b.report)
	}
}
