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

// Publisher sends messages to their targets, and exhausted messages to archive topics. It is
// safe for concurrent use.
type Publisher struct {
	o         Options
	log       *zap.Logger
	batched   *kgo.Client
	unbatched *kgo.Client
	// unbatchedTopics allows one unbatched publish at a time for each topic.
	unbatchedTopics *topicLocks
	lookup          *Lookup
	// connections explains timeouts of both clients.
	connections *connectionFailures
	// unanswered counts the produce requests of both clients that had no answer.
	unanswered *unansweredRequests
	metrics    *PublishMetrics
}

// NewPublisher does not connect; the first request does. So NewPublisher succeeds while the brokers are
// unavailable.
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

// Close closes both clients. Records that are still being sent fail.
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
// the library can report why a record timed out, before our own timeout hides the reason.
func (p *Publisher) deliveryLimit() time.Duration { return p.o.DeliveryTimeout + time.Second }

// Publish sends the messages in the order of the slice and waits until each is
// acknowledged by all in-sync replicas or has failed. The result has an entry for each
// message. A message that failed with a timeout, a broken connection or a refused login may
// still have been written.
//
// If closed lists the topic or the partition of a message, the message is not sent, and fails with
// dlq.ErrTargetClosed. But a message without a key, or with a generated key (RepublishUUIDKey), goes to an
// open partition if the topic has one.
//
// A pointer is a dead letter that only names the record that failed (dlq.Detail.IsPointer). Publish fetches this
// record from Kafka and sends it. If Kafka no longer has the record, the message fails as bad data.
// Pointers are sent in no promised order, since their keys are unknown until the fetch.
//
// If the order is dlq.OrderNone, a failed message blocks no other message. With any other order, it blocks
// the later messages of its topic and key: they are not written, except in the two gaps below.
//
// Batches are pipelined. A broker that refuses a batch also refuses the later
// batches in flight, by their sequence numbers. Two gaps remain. In both, a message can be
// written although an earlier message of its key was refused:
//   - After a refusal, even of a record of another call, the client starts a new sequence. A record that is
//     produced after that, but before this call learns of the refusal, belongs to the new sequence. The
//     call learns of the refusal soon, unless it waits for buffer space (maxBufferedBytes,
//     maxBufferedRecords).
//   - A broker forgets a producer that wrote nothing to a partition for a day
//     (producer.id.expiration.ms), and then accepts any sequence number. If the broker refuses
//     the first batch after that, it still writes the later batches in flight, although their
//     messages are reported as failed or blocked.
func (p *Publisher) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	ctx, cancel := context.WithTimeout(ctx, p.MaxDuration())
	defer cancel()

	sends := make([]sending, len(envelopes))
	for i := range envelopes {
		e := &envelopes[i]
		sends[i] = sending{record: outgoing(e, ownRecord(&e.Record), p.o.RepublishKey), envelope: e, pointer: pointedBy(e)}
	}
	d := newDispatch(p, sends, order, closed)
	d.sendAll(ctx)
	d.nameTopicIDs(ctx)
	return d.finish()
}

// send tries each message once, and once more alone if its batch may have failed because of another
// message. The result is the error of the first message that failed because a broker refused the login, or
// nil.
func (d *dispatch) send(ctx context.Context) error {
	for from := 0; from < len(d.sends); {
		to := d.sendBatched(ctx, from)
		// A bad record fails its whole batch, also the records of other calls. An
		// unbatched record gets its own result, and later records wait for it.
		for i := from; i < to; i++ {
			if s := &d.sends[i]; s.batched && s.err != nil && s.refusesBatch() {
				d.sendUnbatched(ctx, i)
			}
		}
		if to < len(d.sends) && d.sends[to].isUnbatched() {
			d.sendUnbatched(ctx, to)
			to++
		}
		from = to
	}
	return d.refusedLogin()
}

// dispatch sends the records of one call of the Publisher.
type dispatch struct {
	publisher *Publisher
	started   time.Time
	sends     []sending
	// fetchErr is the error with which all further fetches of this call fail; nil if they are still made.
	fetchErr error
	// ordered tells whether the order of a key matters.
	ordered bool
	closed  targetSet
}

// sending is a record on its way, and the result.
type sending struct {
	record   *kgo.Record
	envelope *dlq.Envelope // of the record's message; nil for a record that goes to an archive topic
	pointer  *dlq.Origin   // the place of the record that the message points to, or nil
	route    route
	batched  bool // it was sent in a shared batch
	err      error
	// acknowledgement is nil until the record is acknowledged. It stays nil if the broker does not name the
	// record's offset.
	acknowledgement *dlq.Acknowledgement
}

func newDispatch(p *Publisher, sends []sending, order dlq.Order, closed []dlq.Target) *dispatch {
	d := &dispatch{publisher: p, started: time.Now(), sends: sends, ordered: order != dlq.OrderNone, closed: targetSet{}}
	for _, target := range closed {
		d.closed[target] = true
	}
	for i := range sends {
		anyPartition := sends[i].record.Key == nil || p.o.RepublishKey == RepublishUUIDKey
		sends[i].route = route{closed: d.closed, anyPartition: anyPartition, partition: dlq.AnyPartition}
	}
	return d
}

// refusesBatch reports whether another record of the batch may be the cause of the error. A broker that
// fails on one record answers UNKNOWN_SERVER_ERROR for the whole batch. For this answer, refusesBatch is true
// only for records to archive topics, since other messages are tried again later anyway.
func (s *sending) refusesBatch() bool {
	return categoryOf(s.err) == dlq.CategoryBadData || s.envelope == nil && errors.Is(s.err, kerr.UnknownServerError)
}

// isUnbatched reports whether a record is sent alone from the start. Such a record is too large for a batch,
// or must be fetched first. Records are fetched one at a time, to bound the memory.
func (s *sending) isUnbatched() bool {
	return s.pointer != nil || tooBigForBatch(s.record)
}

// sendBatched sends records in batches. It begins with the record at index from, and returns the index of the
// first record that it did not handle. It stops before a record that is sent alone (isUnbatched). Where order
// matters, it also stops after a failure, because the failure may block later records. A closed partition
// does not stop it.
func (d *dispatch) sendBatched(ctx context.Context, from int) (to int) {
	ctx, cancel := context.WithTimeout(ctx, d.publisher.deliveryLimit())
	defer cancel()
	var (
		wait   sync.WaitGroup
		failed atomic.Bool
	)
	for to = from; to < len(d.sends) && !d.sends[to].isUnbatched(); to++ {
		if d.ordered && failed.Load() {
			break
		}
		if d.settleBlocked(to, from) {
			continue
		}
		s := &d.sends[to]
		s.batched = true
		s.route.begin(ctx, s.record)
		wait.Add(1)
		d.publisher.batched.Produce(ctx, s.record, func(r *kgo.Record, err error) {
			d.settle(s, r, err)
			// A closed partition is no reason to stop: the partitioner refuses the later
			// records of the key too.
			if err != nil && !s.route.refused {
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
	s := &d.sends[i]
	record := *s.record // a copy without the timestamp that the library set in an earlier attempt
	record.Timestamp = time.Time{}
	if s.pointer != nil {
		pointed, err := d.fetch(ctx, *s.pointer, s.envelope)
		if err != nil {
			s.err = err
			return
		}
		record = *outgoing(s.envelope, ownPointed(pointed), d.publisher.o.RepublishKey)
		s.route.anyPartition = pointed.Key == nil || d.publisher.o.RepublishKey == RepublishUUIDKey
	}
	unlock, err := d.publisher.unbatchedTopics.lock(ctx, s.record.Topic)
	if err != nil {
		s.err = err
		return
	}
	defer unlock()
	s.route.begin(ctx, &record)
	s.batched = false
	d.settle(s, &record, d.publisher.unbatched.ProduceSync(ctx, &record).FirstErr())
	d.forgetRecreated(d.publisher.unbatched, i, i+1)
}

// fetch reads the record that a message points to. After a fetch has failed, the other fetches of the call
// fail at once, to leave time for the other messages. But if Kafka is available, and only this record or
// its topic is gone, the other fetches are made.
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

// sourceError is the error of a record that could not be read. It says nothing about the target.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

func (d *dispatch) settle(s *sending, r *kgo.Record, err error) {
	if s.route.refused {
		err = targetClosedError(s.route.target(s.record.Topic))
	}
	s.err = err
	if err == nil {
		if r.Offset >= 0 { // the broker named the offset
			s.acknowledgement = &dlq.Acknowledgement{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
		}
		if s.envelope != nil {
			d.publisher.metrics.Observe(r.Context, time.Since(d.started))
		}
	}
}

// settleBlocked fails a message that must not be sent: its whole topic is closed, or an earlier message of
// its topic and key has failed. It looks for such an earlier message only in d.sends[:settled], where all
// results are known. settleBlocked returns true if it failed the message.
func (d *dispatch) settleBlocked(i, settled int) bool {
	s, r := &d.sends[i], d.sends[i].record
	if topic := (dlq.Target{Topic: r.Topic, Partition: dlq.AnyPartition}); d.closed[topic] {
		s.err = targetClosedError(topic)
		return true
	}
	if !d.ordered || r.Key == nil { // without a key there is no order
		return false
	}
	for j := range d.sends[:settled] {
		earlier := &d.sends[j]
		if earlier.err == nil || earlier.record.Topic != r.Topic || string(earlier.record.Key) != string(r.Key) {
			continue
		}
		s.route, s.err = earlier.route, earlier.err // the same key has the same partition
		if !errors.Is(earlier.err, dlq.ErrTargetClosed) {
			s.err = &dlq.BlockedError{Cause: earlier.err}
		}
		return true
	}
	return false
}

// forgetRecreated makes the client forget a topic that was deleted and re-created. Otherwise the broker
// would refuse the client's old topic id without end. Once the topic is forgotten, the next attempt
// succeeds. To forget a topic is safe only if the topic has a new id, for which the broker knows no
// sequence number of this producer.
func (d *dispatch) forgetRecreated(client *kgo.Client, from, to int) {
	recreated := map[string]bool{}
	for _, s := range d.sends[from:to] {
		if topic := s.record.Topic; errors.Is(s.err, kerr.UnknownTopicID) && !recreated[topic] {
			recreated[topic] = true
			d.publisher.log.Warn("a topic was deleted and re-created; using the new one", zap.String("topic", topic))
			go client.PurgeTopicsFromProducing(topic) // waits for a metadata request, and that may take long
		}
	}
}

// finish translates the library's errors to the errors of package dlq, and counts the results.
func (d *dispatch) finish() []dlq.Delivery {
	deliveries := make([]dlq.Delivery, len(d.sends))
	for i := range d.sends {
		s := &d.sends[i]
		topic := s.record.Topic
		err := d.translate(topic, s.err)
		d.publisher.metrics.Count(topic, err)
		deliveries[i] = dlq.Delivery{Target: s.route.target(topic), Partitions: s.route.partitions, Acknowledgement: s.acknowledgement, Err: err}
	}
	return deliveries
}

// translate turns an error of the library into the error that the caller of Publish gets.
func (d *dispatch) translate(topic string, err error) error {
	if err == nil || errors.Is(err, dlq.ErrTargetClosed) {
		return err
	}
	if blocked, ok := errors.AsType[*dlq.BlockedError](err); ok {
		blocked.Cause = deliveryError(topic, d.publisher.connections.explain(blocked.Cause, d.started))
		return blocked
	}
	return deliveryError(topic, d.publisher.connections.explain(err, d.started))
}
