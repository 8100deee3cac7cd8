package activities

import (
	"errors"

	"dlqmanager/dlq"
)

// refusal is a target that takes nothing.
type refusal struct {
	category dlq.Category
	err      error
}

// giveBack is the outcome of a page that was refused: as if never claimed.
func giveBack(page []dlq.Envelope) []dlq.Outcome {
	outcomes := make([]dlq.Outcome, len(page))
	for i := range page {
		outcomes[i] = dlq.Outcome{ID: page[i].ID, Result: dlq.ResultReturned}
	}
	return outcomes
}

// refusedAll tells a target that is away or closed to us from messages that
// fail. A full page refused is always the target's doing. Of a smaller one that
// is assumed too, until it was refused as often as the category allows while
// other lanes got through; then its messages have failed.
func (l *laneRun) refusedAll(page []dlq.Envelope, errs []error) *refusal {
	var refused refusal
	for _, err := range errs {
		if errors.As(err, new(*dlq.BlockedError)) {
			continue // the target was not asked about it
		}
		category := dlq.CategoryOf(err)
		if err == nil || category == dlq.CategoryBadData || l.closedTarget(err) {
			return nil
		}
		if refused.err == nil {
			refused = refusal{category: category, err: err}
		}
	}
	if refused.err == nil || len(page) < dlq.PageSize && l.refusedAlone() >= PolicyOf(refused.category).Attempts {
		return nil
	}
	return &refused
}

// closedTarget reports whether the error is about one of several targets of the
// job: the others go on, and its own messages are skipped, uncounted. Where it
// is the only target, the job pauses instead.
func (l *laneRun) closedTarget(err error) bool {
	var delivery *dlq.DeliveryError
	return l.lane.Mixed && errors.As(err, &delivery) && delivery.TargetOnly
}
