package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Publisher sends dead letters back to the topics they came from. It is safe
// for concurrent use.
type Publisher struct {
	o       Options
	log     *zap.Logger
	batched *kgo.Client
	lone    *kgo.Client
	turns   turns
	// connections explains timeouts of both clients.
	connections *connections
	metrics     *publishMetrics
}

// NewPublisher connects when it is first used, so brokers that are away are no
// error yet.
func NewPublisher(o Options, log *zap.Logger, reg prometheus.Registerer) (*Publisher, error) {
	o = o.withDefaults()
	seen := &connections{}
	batched, err := newClient(append(o.producer(log, reg, "publish"), kgo.WithHooks(seen)))
	if err != nil {
		return nil, err
	}
	lone, err := newClient(append(o.lone(log, reg, "publish_alone"), kgo.WithHooks(seen)))
	if err != nil {
		batched.Close()
		return nil, err
	}
	return &Publisher{o: o, log: log, batched: batched, lone: lone, connections: seen, metrics: newPublishMetrics(reg)}, nil
}

// Close gives up what is still being sent.
func (p *Publisher) Close() {
	p.batched.Close()
	p.lone.Close()
}

// Ping asks any broker for a sign of life. Its errors wrap dlq.ErrUnavailable.
func (p *Publisher) Ping(ctx context.Context) error { return Ping(ctx, p.batched) }

// MaxDuration is how long one call of Publish can take. Activities that
// publish need a timeout beyond it.
func (p *Publisher) MaxDuration() time.Duration { return 3 * p.patience() }

// patience is the client library's delivery timeout, and a second for it to
// report with the real cause before we cut it off.
func (p *Publisher) patience() time.Duration { return p.o.DeliveryTimeout + time.Second }

// Publish sends the messages in the order of the slice and waits until each is
// acknowledged by all in-sync replicas or given up. The result has one entry
// for each message. A message that failed with a timeout or a broken connection
// may still have been written.
//
// A message whose target is closed, as a whole topic or as that partition, is not
// sent and fails with dlq.ErrTargetClosed. One that gets a new key goes to another
// partition, as long as one is open.
//
// Unless the order is dlq.OrderNone, one that fails, for whatever reason, blocks
// the later ones of its topic and key: they are not sent.
//
// Records on their way behind a refused batch fail with it: the broker refuses
// them by their sequence number. Two gaps are left, in which a message is written
// before an earlier one of its key, or though that one has failed:
//   - The client starts a new sequence after a refusal, be it of this call's
//     record or of another's in the same partition. A record that is handed to it
//     before the refusal is known here is part of the new one. That is a moment, but a
//     long one for a message that waits for room (maxBufferedBytes).
//   - A broker forgets a producer that was silent in a partition for a day
//     (producer.id.expiration.ms) and takes whatever sequence number comes
//     next. When the first batch after that is refused, those on their way
//     behind it are written, and reported as blocked.
func (p *Publisher) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	ctx, cancel := context.WithTimeout(ctx, p.MaxDuration())
	defer cancel()

	d := newDispatch(p, envelopes, order, closed)
	for from := 0; from < len(d.records); {
		to := d.together(ctx, from)
		// One bad record fails every record that waits for the same partition,
		// also those of other calls. Alone, each gets the answer that is its
		// own, and what comes after them waits for it.
		for i := from; i < to; i++ {
			if d.shared[i] && d.errs[i] != nil && categoryOf(d.errs[i]) == dlq.CategoryBadData {
				d.alone(ctx, i)
			}
		}
		if to < len(d.records) && tooBigForBatch(d.records[to]) {
			d.alone(ctx, to)
			to++
		}
		from = to
	}
	return d.finish()
}

// dispatch is one call of Publish.
type dispatch struct {
	p       *Publisher
	started time.Time
	records []*kgo.Record
	routes  []route
	errs    []error
	// shared tells which records went out together with others.
	shared []bool
	// ordered tells whether the order of a key matters.
	ordered bool
	closed  targets
}

func newDispatch(p *Publisher, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) *dispatch {
	d := &dispatch{
		p:       p,
		started: time.Now(),
		records: make([]*kgo.Record, len(envelopes)),
		routes:  make([]route, len(envelopes)),
		errs:    make([]error, len(envelopes)),
		shared:  make([]bool, len(envelopes)),
		ordered: order != dlq.OrderNone,
		closed:  newTargets(closed),
	}
	for i := range envelopes {
		d.records[i] = outgoing(&envelopes[i], p.o.RepublishKey)
		d.routes[i] = route{closed: d.closed, anywhere: d.records[i].Key == nil || p.o.RepublishKey == RepublishUUIDKey, partition: dlq.AnyPartition}
	}
	return d
}

// together sends records in batches, from the given one on, and returns where
// it stopped: at the end, at a record that must travel alone, or, where order
// matters, once one has failed, so that it can block those after it.
func (d *dispatch) together(ctx context.Context, from int) (to int) {
	ctx, cancel := context.WithTimeout(ctx, d.p.patience())
	defer cancel()
	var (
		wait   sync.WaitGroup
		failed atomic.Bool
	)
	for to = from; to < len(d.records) && !tooBigForBatch(d.records[to]); to++ {
		if d.ordered && failed.Load() {
			break
		}
		i := to
		if d.withheld(i, from) {
			continue
		}
		d.shared[i] = true
		d.routes[i].begin(ctx, d.records[i])
		wait.Add(1)
		d.p.batched.Produce(ctx, d.records[i], func(_ *kgo.Record, err error) {
			d.settle(i, err)
			// A closed partition refuses the rest of the key by itself, so that
			// is no reason to stop and wait for the others.
			if err != nil && !d.routes[i].refused {
				failed.Store(true)
			}
			wait.Done()
		})
	}
	wait.Wait()
	d.forgetRecreated(d.p.batched, from, to)
	return to
}

// alone sends one record while no other is on its way to the same topic.
func (d *dispatch) alone(ctx context.Context, i int) {
	if d.withheld(i, i) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.p.patience())
	defer cancel()
	topic := d.records[i].Topic
	if err := d.p.turns.take(ctx, topic); err != nil {
		d.errs[i] = err
		return
	}
	defer d.p.turns.give(topic)
	record := *d.records[i] // the library wrote into the one that was refused
	record.Timestamp = time.Time{}
	d.routes[i].begin(ctx, &record)
	d.shared[i] = false
	d.settle(i, d.p.lone.ProduceSync(ctx, &record).FirstErr())
	d.forgetRecreated(d.p.lone, i, i+1)
}

func (d *dispatch) settle(i int, err error) {
	if way := &d.routes[i]; way.refused {
		err = targetClosed(way.target(d.records[i].Topic))
	}
	d.errs[i] = err
	if err == nil {
		d.p.metrics.duration.Observe(time.Since(d.started).Seconds())
	}
}

// withheld settles a message that the client library need not see: its whole topic
// is closed, or one of the settled messages of its topic and key has failed.
// Messages without a key were given one of their own, and so have no order to keep.
func (d *dispatch) withheld(i, settled int) bool {
	r := d.records[i]
	if d.closed.has(r.Topic, dlq.AnyPartition) {
		d.errs[i] = targetClosed(dlq.Target{Topic: r.Topic, Partition: dlq.AnyPartition})
		return true
	}
	if !d.ordered {
		return false
	}
	for j, earlier := range d.records[:settled] {
		if d.errs[j] == nil || earlier.Topic != r.Topic || string(earlier.Key) != string(r.Key) {
			continue
		}
		d.routes[i] = d.routes[j] // they have the same partition
		d.errs[i] = d.errs[j]
		if !errors.Is(d.errs[j], dlq.ErrTargetClosed) {
			d.errs[i] = &dlq.BlockedError{Cause: d.errs[j]}
		}
		return true
	}
	return false
}

// forgetRecreated makes the client learn anew a topic that was deleted and
// created again: it would refuse the new one for ever. The next attempt then
// succeeds. This is safe only for a topic with a new identity, in which no
// sequence number of ours is known.
func (d *dispatch) forgetRecreated(client *kgo.Client, from, to int) {
	recreated := map[string]bool{}
	for i := from; i < to; i++ {
		if topic := d.records[i].Topic; errors.Is(d.errs[i], kerr.UnknownTopicID) && !recreated[topic] {
			recreated[topic] = true
			d.p.log.Warn("the original topic was deleted and created again; using the new one", zap.String("topic", topic))
			go client.PurgeTopicsFromProducing(topic) // waits for a metadata request, which may take long
		}
	}
}

// finish turns the library's errors into ours and counts.
func (d *dispatch) finish() []dlq.Delivery {
	deliveries := make([]dlq.Delivery, len(d.records))
	for i, err := range d.errs {
		topic, way := d.records[i].Topic, &d.routes[i]
		result, err := d.judge(topic, err)
		d.p.metrics.count(topic, result)
		deliveries[i] = dlq.Delivery{Target: way.target(topic), Partitions: way.partitions, Err: err}
	}
	return deliveries
}

// judge returns the name of the result for the metrics, and the error for the
// caller.
func (d *dispatch) judge(topic string, err error) (string, error) {
	if err == nil {
		return resultDelivered, nil
	}
	if errors.Is(err, dlq.ErrTargetClosed) {
		return resultClosed, err
	}
	var blocked *dlq.BlockedError
	if errors.As(err, &blocked) {
		blocked.Cause = deliveryError(topic, d.p.connections.explain(blocked.Cause, d.started))
		return resultBlocked, blocked
	}
	delivery := deliveryError(topic, d.p.connections.explain(err, d.started))
	return string(delivery.Category), delivery
}
