package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"dlqmanager/dlq"
)

// HeartbeatInterval is how often a lane reports that it lives. It is also the
// longest that a cancellation takes to reach it.
const HeartbeatInterval = 500 * time.Millisecond

// LaneReport is what a lane's heartbeat shows in the Temporal Web UI. It is for
// people: after a crash the lane goes on from the store, never from here.
type LaneReport struct {
	Lane    int            `json:"lane"`
	Counts  dlq.BulkCounts `json:"counts"`
	Waiting string         `json:"waiting,omitempty"`
}

// startHeartbeat reports in the background, since a page may wait for its
// target longer than the heartbeat timeout. Everything that a lane waits for
// has a time limit of its own, so a beat still means that it makes progress.
func startHeartbeat(ctx context.Context, report LaneReport) (reports chan<- LaneReport, stop func()) {
	updates, done, finished := make(chan LaneReport), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(HeartbeatInterval)
		defer ticker.Stop()
		for {
			select {
			case report = <-updates:
			case <-ticker.C:
				activity.RecordHeartbeat(ctx, report)
			case <-done:
				return
			}
		}
	}()
	return updates, func() { close(done); <-finished }
}
