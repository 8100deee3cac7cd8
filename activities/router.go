package activities

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"dlqmanager/dlq"
)

// Router is the Publisher that sends each message to its target: a topic of Kafka, or an HTTP
// endpoint.
type Router struct {
	// Targets decides where messages go.
	Targets *dlq.Targets
	// Kafka is nil when Kafka is not configured. Then messages to topics are resolved without
	// being sent.
	Kafka Publisher
	// HTTP is nil without endpoints.
	HTTP Publisher
}

// Publish sends the messages to Kafka and to endpoints at the same time. The target of each delivery is the target that
// Router.Targets returns for the message. Unreadable messages fail as bad data, and block the later messages of their keys.
func (r *Router) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	deliveries := make([]dlq.Delivery, len(envelopes))
	routed := slices.Clone(envelopes)
	var kafka, http []int // indexes
	type key struct{ target, key string }
	unreadable := map[key]error{}
	for i := range routed {
		e, d := &routed[i], &deliveries[i]
		target, err := r.Targets.Of(e.OriginalTopic, e.TargetTopic)
		d.Target = dlq.Target{Topic: cmp.Or(target, e.Target()), Partition: dlq.AnyPartition}
		if err != nil { // the configuration was changed meanwhile
			d.Err = &dlq.DeliveryError{Category: dlq.CategoryAuth, TargetOnly: true, Err: err}
			continue
		}
		e.TargetTopic = target
		_, isEndpoint := dlq.EndpointOf(target)
		k := key{target, string(e.Record.Key)}
		isOrdered := order != dlq.OrderNone && e.Record.Key != nil
		switch earlier := unreadable[k]; {
		case isOrdered && earlier != nil:
			d.Err = &dlq.BlockedError{Cause: earlier}
		case e.Unreadable != nil:
			unreadable[k] = &dlq.DeliveryError{Category: dlq.CategoryBadData, MessageOnly: true, Err: e.Unreadable}
			d.Err = unreadable[k]
		case isEndpoint:
			http = append(http, i)
		case r.Kafka == nil:
			d.Unsent = true
		default:
			kafka = append(kafka, i)
		}
	}
	var sending sync.WaitGroup
	send := func(publisher Publisher, indexes []int) {
		if len(indexes) == 0 {
			return
		}
		page := make([]dlq.Envelope, len(indexes))
		for n, i := range indexes {
			page[n] = routed[i]
		}
		sending.Go(func() {
			for n, d := range publisher.Publish(ctx, page, order, closed) {
				deliveries[indexes[n]] = d
			}
		})
	}
	send(r.Kafka, kafka)
	send(r.HTTP, http)
	sending.Wait()
	return deliveries
}
