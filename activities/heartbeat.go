package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"dlqmanager/dlq"
)

const (
	// HeartbeatInterval is how often a lane or a bulk change sends a heartbeat.
	HeartbeatInterval = 500 * time.Millisecond

	// maxStepDuration is the longest time that a step of a lane or a bulk change may
	// take. Every step has a shorter timeout of its own. A step that takes longer hangs:
	// then the heartbeat stops, and Temporal starts another attempt.
	maxStepDuration = 30 * time.Second
)

// LaneReport is the content of a lane's heartbeat: the progress, for the Temporal Web UI,
// and the acknowledged messages, for the next attempt.
type LaneReport struct {
	Lane    int           `json:"lane"`
	Counts  dlq.JobCounts `json:"counts"`
	Waiting string        `json:"waiting,omitempty"`
	// Acknowledged are the messages that their target has acknowledged, and that are not
	// finalized yet. The next attempt finalizes them before any publish.
	Acknowledged []dlq.PageOutcome `json:"acknowledged,omitempty"`
	// InParts is set if a scan was too long for a claim. The next attempt scans in parts (dlq.Lane.Bounded).
	InParts bool `json:"in_parts,omitempty"`
}

// heartbeat sends an activity's heartbeats in the background, as long as its steps return
// in time. The content of a heartbeat is an R.
type heartbeat[R any] struct {
	ctx        context.Context //nolint:containedctx // the activity's, which outlives the heartbeat
	limit      time.Duration   // the longest that a step may take
	mu         sync.Mutex
	report     R
	lastReturn time.Time
}

// startHeartbeat sends heartbeats until stop is called.
func startHeartbeat[R any](ctx context.Context, report R, limit time.Duration) (beat *heartbeat[R], stop func()) {
	beat = &heartbeat[R]{ctx: ctx, limit: limit, report: report, lastReturn: time.Now()}
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

// send sends a heartbeat. Unless force is set, it sends nothing when the present step
// takes too long.
func (b *heartbeat[R]) send(force bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if force || time.Since(b.lastReturn) < b.limit {
		activity.RecordHeartbeat(b.ctx, b.report)
	}
}

// stepReturned notes that a step has returned, and lets the caller change the report.
func (b *heartbeat[R]) stepReturned(change func(*R)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastReturn = time.Now()
	if change != nil {
		change(&b.report)
	}
}
