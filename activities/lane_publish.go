package activities

import (
	"context"
	"errors"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// A target that is closed is asked again after closedPause, which doubles: soon enough
// after a broker's restart, rare enough through a night's outage.
const (
	firstClosedPause   = time.Second
	longestClosedPause = 30 * time.Second
)

// send publishes what was claimed and writes down how each message ended. A publish
// under way is never cut short: its outcome would be unknown. The publisher's own
// delivery timeout bounds it.
func (l *laneRun) send(ctx context.Context, claim *dlq.LaneClaim) error {
	if len(claim.Page) == 0 {
		return nil
	}
	outcomes := make([]dlq.PageOutcome, 0, len(claim.Page))
	page := make([]dlq.Envelope, 0, len(claim.Page))
	for i := range claim.Page {
		e := &claim.Page[i]
		if e.Blocked {
			skipped := outcomeOf(&e.Envelope, dlq.ResultSkipped, nil)
			if claim.Queue != nil && !claim.Queue.OfKey {
				skipped.Target = claim.Queue.Target // the next one asks it
			}
			outcomes = append(outcomes, skipped)
			continue
		}
		page = append(page, e.Envelope)
	}
	if l.Publisher == nil {
		for i := range page {
			outcomes = append(outcomes, outcomeOf(&page[i], dlq.ResultDelivered, nil))
		}
		return l.finalize(ctx, outcomes)
	}
	if len(page) > 0 {
		deliveries := l.Publisher.Publish(context.WithoutCancel(ctx), page, l.lane.Spec.Order, closedBut(claim))
		judged, answered := judge(page, deliveries, claim.Queue, l.lane.Spec.Order)
		outcomes = append(outcomes, judged...)
		switch {
		case answered:
			l.fruitless = 0
		case allClosed(judged, deliveries, claim.Closed):
			l.fruitless++
		}
	}
	return l.finalize(ctx, outcomes)
}

// closedBut are the closed targets without those that are asked again. A topic may be
// closed as a whole and by its partitions at once: a message that asks gets past both.
func closedBut(claim *dlq.LaneClaim) []dlq.Target {
	if claim.Queue == nil || claim.Queue.OfKey {
		return claim.Closed
	}
	asked := claim.Queue.Target
	return slices.DeleteFunc(slices.Clone(claim.Closed), func(t dlq.Target) bool {
		return t.Topic == asked.Topic && (t.Partition == asked.Partition || t.Partition == dlq.AnyPartition || asked.Partition == dlq.AnyPartition)
	})
}

// allClosed tells whether every topic of a page of which nothing was taken is closed
// as a whole, as far as is known.
func allClosed(outcomes []dlq.PageOutcome, deliveries []dlq.Delivery, closed []dlq.Target) bool {
	known := map[dlq.Target]bool{}
	partitions := map[string]int{} // how many are known to be closed
	learn := func(t dlq.Target) {
		if !known[t] {
			known[t] = true
			partitions[t.Topic]++
		}
	}
	for _, t := range closed {
		learn(t)
	}
	for i := range outcomes {
		if w := &outcomes[i].Wait; outcomes[i].Result == dlq.ResultWaiting && !w.OfKey {
			learn(w.Target)
		}
	}
	return !slices.ContainsFunc(deliveries, func(d dlq.Delivery) bool {
		whole := known[dlq.Target{Topic: d.Target.Topic, Partition: dlq.AnyPartition}]
		return !whole && (d.Partitions == 0 || partitions[d.Target.Topic] < d.Partitions)
	})
}

// judge decides how each message of a page ended, in their order. answered says that
// some target took a message, or judged one.
//
// A target that took no message of the page, and refused some for a reason that is not
// theirs, is closed: its messages wait for it, uncounted. Where it took others, the
// message itself waits and is tried again as the error's category allows; then it has
// failed. The later messages of its key share its fate, but are not counted.
func judge(page []dlq.Envelope, deliveries []dlq.Delivery, queue *dlq.LaneQueue, order dlq.Order) (outcomes []dlq.PageOutcome, answered bool) {
	open := map[dlq.Target]bool{}
	for i := range deliveries {
		d := &deliveries[i]
		if d.Err == nil || isJudged(d.Err) {
			open[d.Target], open[dlq.Target{Topic: d.Target.Topic, Partition: dlq.AnyPartition}] = true, true
		}
	}
	type key struct{ topic, key string }
	first := map[key]dlq.PageOutcome{} // of the messages that were not delivered
	for i := range page {
		e, d := &page[i], &deliveries[i]
		k := key{e.OriginalTopic, string(e.Record.Key)}
		ordered := order != dlq.OrderNone && e.Record.Key != nil
		earlier, behind := first[k]
		var o dlq.PageOutcome
		switch {
		case d.Err == nil:
			o = outcomeOf(e, dlq.ResultDelivered, nil)
			o.Target = d.Target
		case ordered && behind:
			o = sharedFate(e, &earlier)
		default:
			tries, own := triesBefore(queue, refusedBy(d), i == 0)
			o = undelivered(e, d, own || open[d.Target], tries)
			if isJudged(d.Err) {
				o.Target = d.Target
			}
		}
		if d.Err != nil && ordered && !behind {
			first[k] = o
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, len(open) > 0
}

// isJudged tells whether the target has refused the message for what it is.
func isJudged(err error) bool {
	return !errors.As(err, new(*dlq.BlockedError)) && !errors.Is(err, dlq.ErrTargetClosed) && dlq.CategoryOf(err) == dlq.CategoryBadData
}

// triesBefore is how often the target, or the message as the first of its key, was asked
// in vain before. own says that it was the message: its target took others then.
func triesBefore(queue *dlq.LaneQueue, target dlq.Target, isFirst bool) (tries int, own bool) {
	switch {
	case queue == nil:
		return 0, false
	case queue.OfKey && isFirst:
		return queue.Tries, queue.Tries > 0
	case !queue.OfKey && queue.Target == target:
		return queue.Tries, false
	default:
		return 0, false
	}
}

// undelivered is the outcome of a message that its target did not take. open says that
// the target takes others.
func undelivered(e *dlq.Envelope, d *dlq.Delivery, open bool, tries int) dlq.PageOutcome {
	category := dlq.CategoryOf(d.Err)
	policy := PolicyOf(category)
	switch {
	case errors.Is(d.Err, dlq.ErrTargetClosed):
		o := outcomeOf(e, dlq.ResultWaiting, d.Err)
		o.Wait = dlq.Wait{Target: d.Target}
		return o
	case isJudged(d.Err) || open && tries+1 >= policy.Attempts:
		return outcomeOf(e, category.Result(), d.Err)
	case open:
		o := outcomeOf(e, dlq.ResultWaiting, d.Err)
		o.Wait = dlq.Wait{Target: dlq.Target{Topic: e.OriginalTopic, Partition: dlq.AnyPartition}, OfKey: true,
			Tries: tries + 1, For: policy.Wait(tries+1, d.Err)}
		return o
	default:
		o := outcomeOf(e, dlq.ResultWaiting, d.Err)
		o.Wait = dlq.Wait{Target: refusedBy(d), Tries: tries + 1, For: closedPause(tries+1, category, d.Err)}
		return o
	}
}

// refusedBy is the target that an error is about: the partition, or the topic as a whole.
func refusedBy(d *dlq.Delivery) dlq.Target {
	var refusal *dlq.DeliveryError
	if errors.As(d.Err, &refusal) && refusal.TargetOnly {
		return dlq.Target{Topic: d.Target.Topic, Partition: dlq.AnyPartition}
	}
	return d.Target
}

// closedPause is how long a closed target is left alone.
func closedPause(tries int, category dlq.Category, err error) time.Duration {
	if category == dlq.CategoryRateLimit {
		return PolicyOf(category).Wait(tries, err)
	}
	return min(firstClosedPause<<min(tries-1, 10), longestClosedPause)
}

// sharedFate is the outcome of a message behind one of its key that was not delivered:
// it is skipped when that one has failed, and else waits for the same.
func sharedFate(e *dlq.Envelope, earlier *dlq.PageOutcome) dlq.PageOutcome {
	if earlier.Result != dlq.ResultWaiting {
		return outcomeOf(e, dlq.ResultSkipped, nil)
	}
	o := outcomeOf(e, dlq.ResultWaiting, nil)
	o.Wait, o.Category, o.Error = earlier.Wait, earlier.Category, earlier.Error
	o.Wait.Tries = 0 // it was not asked
	return o
}

func outcomeOf(e *dlq.Envelope, result dlq.Result, err error) dlq.PageOutcome {
	o := dlq.PageOutcome{Outcome: dlq.Outcome{ID: e.ID, Result: result}, RetryCount: e.RetryCount}
	if err != nil {
		o.Category, o.Error = dlq.CategoryOf(err), err.Error()
	}
	return o
}
