package activities

import (
	"cmp"
	"context"
	"errors"
	"time"

	"dlqmanager/dlq"
)

// publish sends the page and tries failed messages again as their category
// allows. Messages without an outcome were not decided when it returned early,
// and stay claimed by this lane.
func (l *laneRun) publish(ctx context.Context, page []dlq.Envelope) ([]dlq.Outcome, *refusal, error) {
	outcomes := make([]dlq.Outcome, 0, len(page))
	if l.Publisher == nil {
		for i := range page {
			outcomes = append(outcomes, dlq.Outcome{ID: page[i].ID, Result: dlq.ResultDelivered})
		}
		return outcomes, nil, nil
	}
	pending, skipped := l.blocked.split(page)
	outcomes = append(outcomes, skipped...)
	if len(pending) == 0 {
		return outcomes, nil, nil
	}
	// A publish under way is never cut short: its outcome would be unknown. The
	// publisher's own delivery timeout bounds it.
	uncut := context.WithoutCancel(ctx)
	for attempt := 1; ; attempt++ {
		errs := make([]error, len(pending))
		for i, delivery := range l.Publisher.Publish(uncut, pending, l.lane.Spec.Order, nil) {
			errs[i] = delivery.Err
		}
		if attempt == 1 {
			if refused := l.refusedAll(pending, errs); refused != nil {
				return nil, refused, nil
			}
		}
		round := l.decide(pending, errs, attempt)
		outcomes = append(outcomes, round.outcomes...)
		if round.closed != nil {
			l.note(uncut, "skipping messages whose target is closed: "+round.closed.Error())
		}
		if len(round.again) == 0 {
			return outcomes, nil, nil
		}
		pending = round.again
		l.reports <- LaneReport{Lane: l.lane.Number, Counts: l.counts, Waiting: round.cause.Error()}
		if err := sleep(ctx, round.wait); err != nil {
			return outcomes, nil, err
		}
	}
}

// publishRound is what one attempt at publishing decided.
type publishRound struct {
	outcomes []dlq.Outcome
	again    []dlq.Envelope
	wait     time.Duration
	// cause is why the first of them is sent again.
	cause error
	// closed is why messages were skipped whose target alone is closed.
	closed error
}

// decide judges one attempt, message by message in their order, so that a
// message that has failed for good blocks those behind it. One that the publisher
// did not send, because of an earlier message of its key, is sent again with that
// one, and skipped once that one has failed.
func (l *laneRun) decide(page []dlq.Envelope, errs []error, attempt int) publishRound {
	var round publishRound
	for i, err := range errs {
		e := &page[i]
		if err == nil {
			round.outcomes = append(round.outcomes, dlq.Outcome{ID: e.ID, Result: dlq.ResultDelivered})
			continue
		}
		if l.blocked.has(e.Record.Key) {
			round.outcomes = append(round.outcomes, dlq.Outcome{ID: e.ID, Result: dlq.ResultSkipped})
			continue
		}
		if errors.As(err, new(*dlq.BlockedError)) {
			round.again, round.cause = append(round.again, *e), cmp.Or(round.cause, err)
			continue
		}
		if l.closedTarget(err) {
			l.blocked.add(e.Record.Key)
			round.outcomes = append(round.outcomes, dlq.Outcome{ID: e.ID, Result: dlq.ResultSkipped})
			round.closed = err
			continue
		}
		category := dlq.CategoryOf(err)
		policy := PolicyOf(category)
		if attempt < policy.Attempts && l.refusedAlone() < policy.Attempts {
			round.again = append(round.again, *e)
			round.wait = max(round.wait, policy.Wait(attempt, err))
			round.cause = cmp.Or(round.cause, err)
			continue
		}
		l.blocked.add(e.Record.Key)
		round.outcomes = append(round.outcomes, dlq.Outcome{ID: e.ID, Result: category.Result(), Category: category, Error: err.Error()})
	}
	return round
}

// blockedKeys are keys that have a message which could not be delivered. The nil
// map has none and takes none: order does not matter then.
type blockedKeys map[string]struct{}

func newBlockedKeys(keys [][]byte) blockedKeys {
	blocked := make(blockedKeys, len(keys))
	for _, key := range keys {
		blocked.add(key)
	}
	return blocked
}

// has is false for messages without a key: they have no order to keep.
func (b blockedKeys) has(key []byte) bool {
	if key == nil {
		return false
	}
	_, blocked := b[string(key)]
	return blocked
}

func (b blockedKeys) add(key []byte) {
	if b != nil && key != nil {
		b[string(key)] = struct{}{}
	}
}

// split takes the messages of blocked keys out of the page.
func (b blockedKeys) split(page []dlq.Envelope) (free []dlq.Envelope, skipped []dlq.Outcome) {
	if len(b) == 0 {
		return page, nil
	}
	for i := range page {
		if b.has(page[i].Record.Key) {
			skipped = append(skipped, dlq.Outcome{ID: page[i].ID, Result: dlq.ResultSkipped})
			continue
		}
		free = append(free, page[i])
	}
	return free, skipped
}
