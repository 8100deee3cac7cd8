package app

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// waitFor calls try until it succeeds or ctx ends, and logs the dependency that it waits for. So a program can start before the
// database, Kafka or Temporal is available.
func waitFor(ctx context.Context, log *zap.Logger, dependency string, try func(context.Context) error) error {
	const first, longest = 250 * time.Millisecond, 10 * time.Second
	started := time.Now()
	for pause := first; ; pause = min(2*pause, longest) {
		err := try(ctx)
		if err == nil {
			log.Info("ready: "+dependency, zap.Duration("after", time.Since(started)))
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn("waiting for "+dependency, zap.Error(err), zap.Duration("next_try", pause))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// stopWithin stops a part. If the part hangs, the parts that stop after it wait only until the time limit.
func stopWithin(log *zap.Logger, name string, limit time.Duration, stop func()) {
	started, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		stop()
	}()
	select {
	case <-done:
		log.Info("stopped: "+name, zap.Duration("after", time.Since(started)))
	case <-time.After(limit):
		log.Error("did not stop in time: "+name, zap.Duration("limit", limit))
	}
}
