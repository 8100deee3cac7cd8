package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// The pause between two attempts to finalize a page doubles.
const (
	firstFinalizePause   = 100 * time.Millisecond
	longestFinalizePause = 2 * time.Second
)

// published keeps the outcomes of a page in hand, and lets the heartbeat carry the acknowledged messages.
func (l *laneRun) published(outcomes []dlq.PageOutcome) {
	l.inHand, l.unanswered = outcomes, false
	acknowledged := slices.DeleteFunc(slices.Clone(outcomes), func(o dlq.PageOutcome) bool { return o.Result != dlq.ResultDelivered })
	l.beat.stepReturned(func(r *LaneReport) { r.Acknowledged = acknowledged })
}

// pageEnded adds a recorded page to the metrics. If the store ended no claim of the page, the page counts only after an
// unanswered call, which may have recorded the page. Otherwise another client had released the page.
func (l *laneRun) pageEnded(result dlq.PageResult, outcomes []dlq.PageOutcome) {
	l.beat.stepReturned(func(r *LaneReport) { r.Counts, r.Acknowledged = result.Counts, nil })
	if result.Ended == 0 && !l.unanswered {
		return
	}
	type labels struct {
		result   dlq.Result
		category dlq.Category
	}
	messages := map[labels]int{}
	for i := range outcomes {
		messages[labels{outcomes[i].Result, outcomes[i].Category}]++
	}
	for of, n := range messages {
		l.Metrics.retried(of.result, of.category, n)
	}
}

// notRecorded notes an error of a call that records the page in hand. After dlq.ErrBlocked nothing is recorded.
func (l *laneRun) notRecorded(err error) {
	l.unanswered = l.unanswered || errors.Is(err, dlq.ErrUnavailable) && !errors.Is(err, dlq.ErrBlocked)
}

// finishPage records the outcomes of the page in hand, if there is one. Publishing cannot be undone, so finishPage
// retries while the database is unavailable, until finishTimeout has passed since a stop was requested.
func (l *laneRun) finishPage(ctx context.Context) error {
	outcomes := l.inHand
	if len(outcomes) == 0 {
		return nil
	}
	l.inHand = nil // after an error, only the heartbeat has the acknowledged messages
	uncancelled := context.WithoutCancel(ctx)
	var result dlq.PageResult
	var stopAt time.Time
	for pause := firstFinalizePause; ; pause = min(2*pause, longestFinalizePause) {
		err := l.call(uncancelled, storeTimeout, func(ctx context.Context) (err error) {
			result, err = l.Store.FinalizePage(ctx, l.lane, outcomes)
			return err
		})
		if err == nil {
			l.pageEnded(result, outcomes)
			return nil
		}
		if !errors.Is(err, dlq.ErrUnavailable) {
			return err
		}
		l.notRecorded(err)
		if stopAt.IsZero() && stopRequested(ctx) != nil {
			stopAt = time.Now().Add(finishTimeout)
		}
		if !stopAt.IsZero() && time.Now().After(stopAt) {
			return err
		}
		// A stop does not interrupt this sleep. The loop checks for a stop above.
		time.Sleep(pause)
	}
}
