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

// Publisher sends dead letters back to their original topics, and is safe for concurrent
// use.
type Publisher struct {
	o         Options
	log       *zap.Logger
	batched   *kgo.Client
	unbatched *kgo.Client
	// unbatchedTopics lets a single unbatched publish run at a time for each topic.
	unbatchedTopics *topicLocks
	lookup          *Lookup
	// connections explains timeouts of both clients.
	connections *connectionFailures
	// unanswered counts the requests of both clients.
	unanswered *unansweredRequests
	metrics    *PublishMetrics
}

// NewPublisher does not connect; the first use does. So there is no error when the brokers
// are unavailable.
func NewPublisher(o Options, log *zap.Logger, reg prometheus.Registerer) (*Publisher, error) {
	o = o.withDefaults()
	failures, unanswered := &connectionFailures{}, &unansweredRequests{}
	batched, err := newClient(append(o.batchedProducer(log, reg, "publish"), kgo.WithHooks(failures, unanswered)))
	if err != nil {
		return nil, err
	}
	unbatched, err := newClient(append(o.unbatchedProducer(log, reg, "publish_alone"), kgo.WithHooks(failures, unanswered)))
	if err != nil {
		batched.Close()
		return nil, err
	}
	return &Publisher{o: o, log: log, batched: batched, unbatched: unbatched, lookup: NewLookup(o, log), connections: failures,
		unanswered: unanswered, unbatchedTopics: newTopicLocks(), metrics: NewPublishMetrics(reg)}, nil
}

// Close fails the records that are still being sent.
func (p *Publisher) Close() {
	p.batched.Close()
	p.unbatched.Close()
}

// Metrics returns the publisher's metrics.
func (p *Publisher) Metrics() *PublishMetrics { return p.metrics }

// Ping sends a request to any broker. Its errors wrap dlq.ErrUnavailable.
func (p *Publisher) Ping(ctx context.Context) error { return Ping(ctx, p.batched) }

// MaxDuration is how long a call of Publish can take. Activities that publish need a
// longer timeout.
func (p *Publisher) MaxDuration() time.Duration { return 3 * p.deliveryLimit() }

// deliveryLimit is the client library's delivery timeout plus a second. In this second
// the library can report the cause, before our own timeout hides it.
func (p *Publisher) deliveryLimit() time.Duration { return p.o.DeliveryTimeout + time.Second }

// Publish sends the messages in the order of the slice and waits until each is
// acknowledged by all in-sync replicas or has failed. The result has an entry for each
// message. A message that failed with a timeout, a broken connection or a refused login may
// still have been written.
//
// A message whose target, the topic or the partition, is closed is not sent, and fails with
// dlq.ErrTargetClosed. A message without a key, or with a new key, goes to another
// partition, if any is open.
//
// A message that only points to its record is sent with that record, which is fetched
// first. If Kafka no longer has the record, the message fails as bad data. Such messages are in no
// order, since their keys are unknown before.
//
// Unless the order is dlq.OrderNone, a message that fails for any reason blocks the later
// messages of its topic and key: they are not sent.
//
// Batches are pipelined. A broker that refuses a batch also refuses the later
// batches in flight, by their sequence numbers. Two gaps remain. In both, a message can be
// written although an earlier message of its key was refused:
//   - After a refusal, also of another call's record, the client starts a new sequence. A
//     record that is produced before this call learns of the refusal belongs to the new sequence.
//     This time is short, except for a record that waits for buffer space
//     (maxBufferedBytes).
//   - A broker forgets a producer that wrote nothing to a partition for a day
//     (producer.id.expiration.ms), and then accepts any sequence number. A broker that refuses the
//     first batch after that still writes the later batches in flight, but they are
//     reported as blocked.
func (p *Publisher) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	ctx, cancel := context.WithTimeout(ctx, p.MaxDuration())
	defer cancel()

	records := make([]*kgo.Record, len(envelopes))
	for i := range envelopes {
		records[i] = outgoing(&envelopes[i], p.o.RepublishKey)
	}
	d := newDispatch(p, records, order, closed)
	d.envelopes = envelopes
	d.sendAll(ctx)
	d.nameTopicIDs(ctx)
	return d.finish()
}

// send tries each message once, and again alone if another message may have failed its batch.
// The result is the first refusal of the login.
func (d *dispatch) send(ctx context.Context) error {
	for from := 0; from < len(d.records); {
		to := d.sendBatched(ctx, from)
		// A bad record fails its whole batch, also the records of other calls. An
		// unbatched record gets its own result, and later records wait for it.
		for i := from; i < to; i++ {
			if d.batched[i] && d.errs[i] != nil && d.refusesBatch(d.errs[i]) {
				d.sendUnbatched(ctx, i)
			}
		}
		if to < len(d.records) && d.isUnbatched(to) {
			d.sendUnbatched(ctx, to)
			to++
		}
		from = to
	}
	return d.refusedLogin()
}

// dispatch sends the records of a call.
type dispatch struct {
	publisher *Publisher
	started   time.Time
	records   []*kgo.Record
	// envelopes are the messages of the records; nil for records of the archive.
	envelopes []dlq.Envelope
	routes    []route
	errs      []error
	// acknowledgements are nil until the record is acknowledged.
	acknowledgements []*dlq.Acknowledgement
	// fetchErr is why records that messages point to cannot be read now.
	fetchErr error
	// batched tells which records were sent in shared batches.
	batched []bool
	// ordered tells whether the order of a key matters.
	ordered bool
	closed  targetSet
}

func newDispatch(p *Publisher, records []*kgo.Record, order dlq.Order, closed []dlq.Target) *dispatch {
	d := &dispatch{
		publisher: p,
		started:   time.Now(),
		records:   records,
		routes:    make([]route, len(records)),
		errs:      make([]error, len(records)),
		batched:   make([]bool, len(records)),
		ordered:   order != dlq.OrderNone,
		closed:    newTargetSet(closed),

		acknowledgements: make([]*dlq.Acknowledgement, len(records)),
	}
	for i, r := range records {
		d.routes[i] = route{closed: d.closed, anyPartition: r.Key == nil || p.o.RepublishKey == RepublishUUIDKey, partition: dlq.AnyPartition}
	}
	return d
}

// refusesBatch reports whether another record of the batch may be the cause of its error. A
// broker that fails on a record answers UNKNOWN_SERVER_ERROR for its batch; a message that is sent
// back is then tried again later.
func (d *dispatch) refusesBatch(err error) bool {
	return categoryOf(err) == dlq.CategoryBadData || d.envelopes == nil && errors.Is(err, kerr.UnknownServerError)
}

// pointer returns the origin of the record that a message only points to.
func (d *dispatch) pointer(i int) (origin dlq.Origin, ok bool) {
	if d.envelopes == nil {
		return dlq.Origin{}, false
	}
	return pointedBy(&d.envelopes[i])
}

// isUnbatched reports whether a record is sent alone: the record is too large for a batch, or
// must be fetched first, which happens one at a time to bound the memory.
func (d *dispatch) isUnbatched(i int) bool {
	_, pointer := d.pointer(i)
	return pointer || tooBigForBatch(d.records[i])
}

// sendBatched sends records in batches, starting at an index, and returns the index
// of the stop. A record that is too large for a batch is a stop. Where order
// matters, so is a failure, because that may block later records.
func (d *dispatch) sendBatched(ctx context.Context, from int) (to int) {
	ctx, cancel := context.WithTimeout(ctx, d.publisher.deliveryLimit())
	defer cancel()
	var (
		wait   sync.WaitGroup
		failed atomic.Bool
	)
	for to = from; to < len(d.records) && !d.isUnbatched(to); to++ {
		if d.ordered && failed.Load() {
			break
		}
		i := to
		if d.settleBlocked(i, from) {
			continue
		}
		d.batched[i] = true
		d.routes[i].begin(ctx, d.records[i])
		wait.Add(1)
		d.publisher.batched.Produce(ctx, d.records[i], func(r *kgo.Record, err error) {
			d.settle(i, r, err)
			// A closed partition is no reason to stop: the partitioner refuses the later
			// records of the key too.
			if err != nil && !d.routes[i].refused {
				failed.Store(true)
			}
			wait.Done()
		})
	}
	wait.Wait()
	d.forgetRecreated(d.publisher.batched, from, to)
	return to
}

// sendUnbatched sends a record alone, while no other unbatched record is in flight
// to the same topic.
func (d *dispatch) sendUnbatched(ctx context.Context, i int) {
	if d.settleBlocked(i, i) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.publisher.deliveryLimit())
	defer cancel()
	record := *d.records[i] // the library has changed the record that was refused
	record.Timestamp = time.Time{}
	if origin, pointer := d.pointer(i); pointer {
		pointed, err := d.fetch(ctx, origin, &d.envelopes[i])
		if err != nil {
			d.errs[i] = err
			return
		}
		record = *outgoingPointed(&d.envelopes[i], &pointed, d.publisher.o.RepublishKey)
		d.routes[i].anyPartition = pointed.Key == nil || d.publisher.o.RepublishKey == RepublishUUIDKey
	}
	topic := d.records[i].Topic
	if err := d.publisher.unbatchedTopics.lock(ctx, topic); err != nil {
		d.errs[i] = err
		return
	}
	defer d.publisher.unbatchedTopics.unlock(topic)
	d.routes[i].begin(ctx, &record)
	d.batched[i] = false
	d.settle(i, &record, d.publisher.unbatched.ProduceSync(ctx, &record).FirstErr())
	d.forgetRecreated(d.publisher.unbatched, i, i+1)
}

// fetch reads the record that a message points to. After a fetch has failed, the other fetches of
// the same call fail at once, so that they leave the time to the other messages.
func (d *dispatch) fetch(ctx context.Context, origin dlq.Origin, e *dlq.Envelope) (dlq.Record, error) {
	if d.fetchErr != nil {
		return dlq.Record{}, d.fetchErr
	}
	pointed, err := d.publisher.lookup.Fetch(ctx, origin, e.Record.Timestamp)
	switch {
	case err == nil, errors.Is(err, dlq.ErrGone):
		return pointed, err
	case errors.Is(err, kerr.UnknownTopicOrPartition) && e.Target() == e.OriginalTopic:
		return pointed, err
	default:
		d.fetchErr = &sourceError{err}
		return dlq.Record{}, d.fetchErr
	}
}

// sourceError is a record that could not be read, which says nothing about writing.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

func (d *dispatch) settle(i int, r *kgo.Record, err error) {
	if route := &d.routes[i]; route.refused {
		err = targetClosedError(route.target(d.records[i].Topic))
	}
	d.errs[i] = err
	if err == nil {
		d.acknowledgements[i] = acknowledgementOf(r)
		if d.envelopes != nil {
			d.publisher.metrics.Observe(r.Context, time.Since(d.started))
		}
	}
}

// acknowledgementOf is nil when the broker did not name an offset.
func acknowledgementOf(r *kgo.Record) *dlq.Acknowledgement {
	if r.Offset < 0 {
		return nil
	}
	return &dlq.Acknowledgement{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
}

// settleBlocked fails a message that must not be sent: its whole topic is closed, or an
// earlier message of its topic and key has failed. Only the first settled messages count,
// whose results are known. The result tells whether the message was failed.
func (d *dispatch) settleBlocked(i, settled int) bool {
	r := d.records[i]
	if d.closed.has(r.Topic, dlq.AnyPartition) {
		d.errs[i] = targetClosedError(dlq.Target{Topic: r.Topic, Partition: dlq.AnyPartition})
		return true
	}
	if !d.ordered || r.Key == nil { // without a key there is no order
		return false
	}
	for j, earlier := range d.records[:settled] {
		if d.errs[j] == nil || earlier.Topic != r.Topic || string(earlier.Key) != string(r.Key) {
			continue
		}
		d.routes[i] = d.routes[j] // the same key has the same partition
		d.errs[i] = d.errs[j]
		if !errors.Is(d.errs[j], dlq.ErrTargetClosed) {
			d.errs[i] = &dlq.BlockedError{Cause: d.errs[j]}
		}
		return true
	}
	return false
}

// forgetRecreated makes the client forget a topic that was deleted and re-created, which
// would otherwise be refused without end. The next attempt then succeeds. This is safe only
// for a topic with a new id, where the broker knows no sequence number of this producer.
func (d *dispatch) forgetRecreated(client *kgo.Client, from, to int) {
	recreated := map[string]bool{}
	for i := from; i < to; i++ {
		if topic := d.records[i].Topic; errors.Is(d.errs[i], kerr.UnknownTopicID) && !recreated[topic] {
			recreated[topic] = true
			d.publisher.log.Warn("a topic was deleted and re-created; using the new one", zap.String("topic", topic))
			go client.PurgeTopicsFromProducing(topic) // waits for a metadata request, which may take long
		}
	}
}

// finish translates the library's errors to the errors of package dlq, and counts the results.
func (d *dispatch) finish() []dlq.Delivery {
	deliveries := make([]dlq.Delivery, len(d.records))
	for i, err := range d.errs {
		topic, route := d.records[i].Topic, &d.routes[i]
		err = d.translate(topic, err)
		d.publisher.metrics.Count(topic, err)
		deliveries[i] = dlq.Delivery{Target: route.target(topic), Partitions: route.partitions, Acknowledgement: d.acknowledgements[i], Err: err}
	}
	return deliveries
}

// translate returns the error for the caller.
func (d *dispatch) translate(topic string, err error) error {
	if err == nil || errors.Is(err, dlq.ErrTargetClosed) {
		return err
	}
	var blocked *dlq.BlockedError
	if errors.As(err, &blocked) {
		blocked.Cause = deliveryError(topic, d.publisher.connections.explain(blocked.Cause, d.started))
		return blocked
	}
	return deliveryError(topic, d.publisher.connections.explain(err, d.started))
}
