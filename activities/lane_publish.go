package activities

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"dlqmanager/dlq"
)

// A closed target is tried again after a pause, which doubles from firstClosedPause to
// longestClosedPause. The short pauses suit the restart of a broker, and the longest pause suits
// a long outage.
const (
	firstClosedPause   = time.Second
	longestClosedPause = 30 * time.Second
)

// send publishes a page and passes the outcomes of its messages to published. A cancellation does
// not interrupt the publish, because the outcomes would be unknown. The publisher bounds the
// duration of a publish.
func (l *laneRun) send(ctx context.Context, claim *dlq.LaneClaim) {
	if len(claim.Page) == 0 {
		return
	}
	ctx, span := startSpan(ctx, "page", trace.WithAttributes(attribute.Int("dlq.messages", len(claim.Page))))
	linkMessages(span, claim.Page)
	defer endSpan(span, nil)
	outcomes := make([]dlq.PageOutcome, 0, len(claim.Page))
	page := make([]dlq.Envelope, 0, len(claim.Page))
	for i := range claim.Page {
		e := &claim.Page[i]
		if e.Blocked {
			skipped := outcomeOf(&e.Envelope, dlq.ResultSkipped, nil)
			if claim.Queue != nil && !claim.Queue.OfKey() {
				skipped.Target = claim.Queue.Target // so that the next message of the queue tries the target
			}
			outcomes = append(outcomes, skipped)
			continue
		}
		e.TargetTopic, e.Token = l.lane.Spec.TargetTopic, l.lane.Owner.Token
		page = append(page, e.Envelope)
	}
	if len(page) > 0 {
		deliveries := make([]dlq.Delivery, len(page)) // without Kafka, all messages count as delivered
		if l.Publisher != nil {
			deliveries = l.Publisher.Publish(context.WithoutCancel(ctx), page, l.lane.Spec.Order, closedExceptTried(claim))
		}
		judged, answered := judge(page, deliveries, claim.Queue, l.lane.Spec.Order)
		outcomes = append(outcomes, judged...)
		switch {
		case answered:
			l.closedPages, l.doubtful = 0, false
		case allClosed(judged, deliveries, claim.Closed):
			l.closedPages++
			l.doubtful = l.doubtful || slices.ContainsFunc(deliveries, isDoubtful)
		}
	}
	l.published(outcomes)
}

// closedExceptTried returns the closed targets without the target that this page tries again.
// A topic may be closed both as a whole and in some partitions. A message that tries the topic may
// go to any partition, so the list must not have the topic's partitions. A message that tries a
// partition must also be sent when the topic is closed, so the list must not have the topic.
func closedExceptTried(claim *dlq.LaneClaim) []dlq.Target {
	if claim.Queue == nil || claim.Queue.OfKey() {
		return claim.Closed
	}
	tried := claim.Queue.Target
	return slices.DeleteFunc(slices.Clone(claim.Closed), func(t dlq.Target) bool {
		return t.Topic == tried.Topic && (t.Partition == tried.Partition || t.Partition == dlq.AnyPartition || tried.Partition == dlq.AnyPartition)
	})
}

// allClosed tells whether all topics of a page are known to be closed: as a whole, or in
// every partition. The page must have no open target.
func allClosed(outcomes []dlq.PageOutcome, deliveries []dlq.Delivery, closed []dlq.Target) bool {
	known := map[dlq.Target]bool{}
	partitions := map[string]int{} // the number of entries of each topic in known
	add := func(t dlq.Target) {
		if !known[t] {
			known[t] = true
			partitions[t.Topic]++
		}
	}
	for _, t := range closed {
		add(t)
	}
	for i := range outcomes {
		if w := &outcomes[i].Wait; outcomes[i].Result == dlq.ResultWaiting && !w.OfKey {
			add(w.Target)
		}
	}
	return !slices.ContainsFunc(deliveries, func(d dlq.Delivery) bool {
		whole := known[dlq.Target{Topic: d.Target.Topic, Partition: dlq.AnyPartition}]
		return !whole && (d.Partitions == 0 || partitions[d.Target.Topic] < d.Partitions)
	})
}

// judge decides the outcome of each message of a page, in the order of the page. A target is open
// when it accepted a message of the page, or rejected a message as bad data. answered is set if a target is open.
//
// A target is closed when it is not open and refused messages of the page. The messages to a
// closed target wait, and their retries are not counted. A message that an open target refuses,
// or whose record cannot be read, waits by itself and is tried again as often as the policy of
// the error's category allows. After the last try the message has failed. The later messages of
// its key wait with it, or are skipped when it has failed. Their retries are not counted.
func judge(page []dlq.Envelope, deliveries []dlq.Delivery, queue *dlq.Queue, order dlq.Order) (outcomes []dlq.PageOutcome, answered bool) {
	open := map[dlq.Target]bool{}
	for i := range deliveries {
		d := &deliveries[i]
		if (d.Err == nil || isRejected(d)) && !open[d.Target] {
			open[d.Target], open[dlq.Target{Topic: d.Target.Topic, Partition: dlq.AnyPartition}] = true, true
		}
	}
	type key struct{ target, key string }
	firstUndelivered := map[key]dlq.PageOutcome{}
	outcomes = make([]dlq.PageOutcome, 0, len(page))
	for i := range page {
		e, d := &page[i], &deliveries[i]
		if d.Err == nil {
			o := outcomeOf(e, dlq.ResultDelivered, nil)
			o.Target, o.Acknowledgement = d.Target, d.Acknowledgement
			outcomes = append(outcomes, o)
			continue
		}
		k := key{cmp.Or(d.Target.Topic, e.Target()), string(e.Record.Key)}
		ordered := order != dlq.OrderNone && e.Record.Key != nil
		earlier, isBlocked := firstUndelivered[k]
		var o dlq.PageOutcome
		switch {
		case ordered && isBlocked:
			o = blockedOutcome(e, &earlier)
		case isThrottledEndpoint(d):
			o = undelivered(e, d, false, 0)
		case hasFailedOften(queue, d):
			o = outcomeOf(e, dlq.CategoryOf(d.Err).Result(), d.Err)
			if queue.Keys <= 1 {
				o.Target, open[d.Target] = d.Target, true // the messages of one key failed, so the target may be open
			}
		default:
			tries, own := previousTries(queue, refusingTarget(d), i == 0)
			o = undelivered(e, d, own || open[d.Target] || refusal(d).MessageOnly, tries)
			if isRejected(d) {
				o.Target = d.Target
			}
		}
		if ordered && !isBlocked {
			firstUndelivered[k] = o
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, len(open) > 0
}

// refusal returns the *dlq.DeliveryError of a delivery; zero if there is none.
func refusal(d *dlq.Delivery) (r dlq.DeliveryError) {
	var failed *dlq.DeliveryError
	if errors.As(d.Err, &failed) {
		r = *failed
	}
	return r
}

// isRejected tells whether the target has rejected the message as bad data.
func isRejected(d *dlq.Delivery) bool {
	r := refusal(d)
	return r.Category == dlq.CategoryBadData && !r.MessageOnly
}

// isThrottledEndpoint tells whether an HTTP endpoint refused a request because of its rate limit.
func isThrottledEndpoint(d *dlq.Delivery) bool {
	_, isEndpoint := dlq.EndpointOf(d.Target.Topic)
	return isEndpoint && refusal(d).Category == dlq.CategoryRateLimit
}

// isDoubtful tells whether a refusal may be due to the message and not to its target. An endpoint may answer 403 or
// 404 for a single message. If the endpoint then counted as closed, this message would hold back all other messages.
func isDoubtful(d dlq.Delivery) bool {
	r := refusal(&d)
	_, isEndpoint := dlq.EndpointOf(d.Target.Topic)
	return r.MaybeMessage || isEndpoint && r.Category == dlq.CategoryAuth && !r.TargetOnly
}

// hasFailedOften tells whether a message that tried a closed endpoint has failed for good. The queue's tries take its keys
// in turn, so the message has failed after the policy's attempts times the number of keys.
func hasFailedOften(queue *dlq.Queue, d *dlq.Delivery) bool {
	return queue != nil && !queue.OfKey() && queue.Target == d.Target && refusal(d).MaybeMessage &&
		queue.Tries+1 >= PolicyOf(dlq.CategoryOf(d.Err)).Attempts*max(queue.Keys, 1)
}

// previousTries returns how often the target of the page's queue, or the first message of a key's
// queue, was tried before without success. own says that the message itself was tried before,
// while its target was open.
func previousTries(queue *dlq.Queue, target dlq.Target, isFirst bool) (tries int, own bool) {
	switch {
	case queue == nil: // the page is from the scan
	case queue.OfKey() && isFirst:
		return queue.Tries, queue.Tries > 0
	case !queue.OfKey() && queue.Target == target:
		return queue.Tries, false
	}
	return 0, false
}

// undelivered is the outcome of a message that its target did not accept. open says whether the
// target is open.
func undelivered(e *dlq.Envelope, d *dlq.Delivery, open bool, tries int) dlq.PageOutcome {
	category := dlq.CategoryOf(d.Err)
	policy := PolicyOf(category)
	o := outcomeOf(e, dlq.ResultWaiting, d.Err)
	switch {
	case errors.Is(d.Err, dlq.ErrTargetClosed):
		o.Wait = dlq.Wait{Target: d.Target}
	case category == dlq.CategoryBadData || open && tries+1 >= policy.Attempts:
		o.Result = category.Result()
	case open:
		o.Wait = dlq.Wait{Target: dlq.Target{Topic: cmp.Or(d.Target.Topic, e.Target()), Partition: dlq.AnyPartition}, OfKey: true,
			Tries: tries + 1, For: policy.Wait(tries+1, d.Err)}
	default:
		o.Wait = dlq.Wait{Target: refusingTarget(d), Tries: tries + 1, For: closedPause(tries+1, category, d.Err)}
	}
	return o
}

// refusingTarget is the target that refused a message: the partition, or the whole topic.
func refusingTarget(d *dlq.Delivery) dlq.Target {
	if refusal(d).TargetOnly {
		return dlq.Target{Topic: d.Target.Topic, Partition: dlq.AnyPartition}
	}
	return d.Target
}

// closedPause returns the pause before a closed target is tried again.
func closedPause(tries int, category dlq.Category, err error) time.Duration {
	if category == dlq.CategoryRateLimit {
		return PolicyOf(category).Wait(tries, err)
	}
	return min(firstClosedPause<<min(tries-1, 10), longestClosedPause)
}

// blockedOutcome is the outcome of a message that is blocked by an earlier message of its key.
// The message waits with the earlier message, or is skipped when the earlier message has failed.
func blockedOutcome(e *dlq.Envelope, earlier *dlq.PageOutcome) dlq.PageOutcome {
	if earlier.Result != dlq.ResultWaiting {
		return outcomeOf(e, dlq.ResultSkipped, nil)
	}
	o := outcomeOf(e, dlq.ResultWaiting, nil)
	o.Wait, o.Category, o.Error = earlier.Wait, earlier.Category, earlier.Error
	o.Wait.Tries = 0 // this message was not sent
	return o
}

func outcomeOf(e *dlq.Envelope, result dlq.Result, err error) dlq.PageOutcome {
	o := dlq.PageOutcome{Outcome: dlq.Outcome{ID: e.ID, Result: result}, RetryCount: e.RetryCount}
	if err != nil {
		o.Category, o.Error = dlq.CategoryOf(err), err.Error()
	}
	return o
}
