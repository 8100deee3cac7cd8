package activities

import (
	"context"
	"errors"
	"time"

	"dlqmanager/dlq"
)

// The pause between two attempts at writing a page down doubles.
const (
	firstFinalizePause   = 100 * time.Millisecond
	longestFinalizePause = 2 * time.Second
)

// finalize writes down how a page ended. Publishing cannot be undone, so it tries
// until it succeeds, a newer attempt has the lane, or, for finishTimeout, the lane was
// told to stop. Meanwhile the heartbeat carries what was acknowledged.
func (l *laneRun) finalize(ctx context.Context, outcomes []dlq.PageOutcome) error {
	l.beat.alive(func(r *LaneReport) { r.Acknowledged = acknowledged(outcomes) })
	uncut := context.WithoutCancel(ctx)
	var stopAt time.Time
	for pause := firstFinalizePause; ; pause = min(2*pause, longestFinalizePause) {
		limited, cancel := context.WithTimeout(uncut, storeTimeout)
		result, err := l.Store.FinalizePage(limited, l.lane, outcomes)
		cancel()
		l.beat.alive(func(r *LaneReport) {
			r.Waiting = textOf(err)
			if err == nil {
				r.Counts, r.Acknowledged = result.Counts, nil
			}
		})
		if err == nil {
			l.Metrics.ended(result.Ended, outcomes)
			return nil
		}
		if !errors.Is(err, dlq.ErrUnavailable) {
			return err
		}
		if stopAt.IsZero() && stopped(ctx) != nil {
			stopAt = time.Now().Add(finishTimeout)
		}
		if !stopAt.IsZero() && time.Now().After(stopAt) {
			return err
		}
		// Not cut short by a stop, which is asked for above.
		time.Sleep(pause)
	}
}

// acknowledged are the messages of a page that their target has.
func acknowledged(outcomes []dlq.PageOutcome) []Acknowledged {
	var list []Acknowledged
	for i := range outcomes {
		if outcomes[i].Result == dlq.ResultDelivered {
			list = append(list, Acknowledged{ID: outcomes[i].ID, RetryCount: outcomes[i].RetryCount})
		}
	}
	return list
}

// finalizeAcknowledged writes down what the attempt before knew to be delivered.
func (l *laneRun) finalizeAcknowledged(ctx context.Context) error {
	if len(l.acknowledged) == 0 {
		return nil
	}
	outcomes := make([]dlq.PageOutcome, len(l.acknowledged))
	for i, a := range l.acknowledged {
		outcomes[i] = dlq.PageOutcome{Outcome: dlq.Outcome{ID: a.ID, Result: dlq.ResultDelivered}, RetryCount: a.RetryCount}
	}
	return l.finalize(ctx, outcomes)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
