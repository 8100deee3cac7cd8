package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// ArrivalStore is where dead letters go.
type ArrivalStore interface {
	// StoreArrivals stores the arrivals in the order of the slice, all or
	// none, and returns how many were new; one whose Source is known is
	// skipped. An error that wraps dlq.ErrUnavailable says nothing about the
	// arrivals; any other may be about one of them.
	StoreArrivals(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error)
}

// Ingest takes every dead letter of the matching topics into the store. An
// offset is committed only after its record is stored; a record that is read
// twice is stored once, since the store knows its Source.
//
// One loop polls, stores and commits. While the store is away the loop waits
// without polling, so that memory stays bounded by what was already fetched,
// and lets the group rebalance, so that it stays a member however long it
// takes. What is taken from it meanwhile is dropped, uncommitted, and read by
// the new owner.
type Ingest struct {
	o       Options
	store   ArrivalStore
	topics  *dlq.Topics
	log     *zap.Logger
	reg     prometheus.Registerer
	metrics *ingestMetrics
	owned   *ownership
	status  *status
	running atomic.Bool

	client *kgo.Client // set by Run
	ids    *topicIDs   // set by Run
}

// NewIngest connects to nothing; Run does.
func NewIngest(o Options, store ArrivalStore, topics *dlq.Topics, log *zap.Logger, reg prometheus.Registerer) (*Ingest, error) {
	o = o.withDefaults()
	if err := kgo.ValidateOpts(o.consumer(log, reg, topics.Expression())...); err != nil {
		return nil, fmt.Errorf("kafka ingest: %w", err)
	}
	metrics := newIngestMetrics(reg)
	return &Ingest{
		o:       o,
		store:   store,
		topics:  topics,
		log:     log,
		reg:     reg,
		metrics: metrics,
		owned:   newOwnership(),
		status:  newStatus(metrics),
	}, nil
}

// Run takes in dead letters until the context ends, then finishes the batch in
// hand, for at most Options.StopGrace, commits it and leaves the group. Brokers
// that are away are waited for. It returns an error only when it cannot start.
func (in *Ingest) Run(ctx context.Context) error {
	if !in.running.CompareAndSwap(false, true) {
		return errors.New("the ingest is running already")
	}
	defer in.running.Store(false)
	in.status.start() // before the client, which reports to it at once
	defer in.status.stop()
	if err := in.open(); err != nil {
		return err
	}

	// What is begun is finished: work outlives ctx by the grace period.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() {
		in.log.Info("ingest stopping")
		timer := time.NewTimer(in.o.StopGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			abandon()
		case <-work.Done():
		}
	})()

	var watch sync.WaitGroup
	watching, stopWatching := context.WithCancel(ctx)
	watch.Go(func() { in.watch(watching) })
	in.log.Info("ingest running", zap.String("group", in.o.ConsumerGroup), zap.String("topics", in.topics.Expression()))
	for ctx.Err() == nil {
		in.poll(ctx, work)
	}
	stopWatching()
	watch.Wait()
	in.close()
	return nil
}

func (in *Ingest) open() error {
	opts := append(in.o.consumer(in.log, in.reg, in.topics.Expression()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) { in.assigned(added) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) { in.revoked(ctx, gone) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { in.lost(gone) }),
		kgo.WithHooks(groupErrors{in.status}),
	)
	ids := newTopicIDs()
	client, err := newClient(append(opts, ids.opts()...))
	if err != nil {
		return err
	}
	in.client, in.ids = client, ids
	return nil
}

// close leaves the group, so that the others take over at once rather than
// after the session timeout. A group that cannot be reached is not waited for.
func (in *Ingest) close() {
	in.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := in.client.LeaveGroupContext(ctx); err != nil {
		in.log.Warn("could not leave the consumer group; it will notice by itself", zap.Error(err))
	}
	// Close leaves the group once more and waits for the answer, which a group
	// that is rebalancing owes until its dead members have timed out.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		in.client.Close()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		in.log.Warn("the consumer group does not answer; not waiting for it any longer")
	}
	in.log.Info("ingest stopped")
}

// batchRecords is how many records are stored at once at most; batchBytes is
// how many bytes, with their headers, unless a single record has more.
const (
	batchRecords = 500
	batchBytes   = 4 << 20
)

// poll is one turn: fetch, store, commit.
func (in *Ingest) poll(ctx, work context.Context) {
	fetches := in.client.PollRecords(ctx, batchRecords)
	if fetches.NumRecords() > 0 {
		in.status.kafka(nil)
	}
	began := time.Now()
	for _, batch := range in.batches(fetches) {
		if time.Since(began) > pollBudget {
			in.client.AllowRebalance() // a slow store must not hold up the group
		}
		in.take(work, batch)
	}
	in.client.AllowRebalance()
	in.settleErrors(ctx, fetches)
}

// received is a record on its way, with the assignment that it came by.
type received struct {
	arrival dlq.Arrival
	claim   *claim
	after   kgo.EpochOffset // to commit once it is stored
}

// batches sorts what was fetched into batches of one topic each.
func (in *Ingest) batches(fetches kgo.Fetches) [][]received {
	var batches [][]received
	fetches.EachTopic(func(topic kgo.FetchTopic) {
		id := in.ids.of(topic)
		var batch []received
		bytes := 0
		topic.EachPartition(func(fetched kgo.FetchPartition) {
			claim := in.owned.claim(place{topic.Topic, fetched.Partition}, id)
			if claim == nil {
				return // taken from us between the fetch and now
			}
			for _, r := range fetched.Records {
				size := contentBytes(r)
				if len(batch) == batchRecords || bytes+size > batchBytes && len(batch) > 0 {
					batches = append(batches, batch)
					batch, bytes = nil, 0
				}
				bytes += size
				batch = append(batch, received{
					arrival: arrivalOf(in.topics, in.o.MaxRetries, id, r),
					claim:   claim,
					after:   kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1},
				})
			}
		})
		if len(batch) > 0 {
			batches = append(batches, batch)
		}
	})
	return batches
}

// Waiting times between attempts to store, doubling.
const (
	storeBackoffMin = 100 * time.Millisecond
	storeBackoffMax = 5 * time.Second
)

// take stores a batch and commits it, however long that takes, unless its
// partitions are taken away or the work is to end.
func (in *Ingest) take(work context.Context, batch []received) {
	for wait := storeBackoffMin; ; wait = min(2*wait, storeBackoffMax) {
		if batch = in.owned.filter(batch); len(batch) == 0 || work.Err() != nil {
			return
		}
		stored, err := in.tryStore(work, batch)
		if err == nil {
			in.status.storing(nil)
			in.stored(work, batch, stored)
			return
		}
		if work.Err() != nil {
			return
		}
		// If one arrival is at fault, the others need not wait for it.
		if len(batch) > 1 && !errors.Is(err, dlq.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			in.take(work, batch[:len(batch)/2])
			in.take(work, batch[len(batch)/2:])
			return
		}
		in.stalled(batch, wait, err)
		in.client.AllowRebalance() // the group must not wait for the store
		sleep(work, wait)
	}
}

func (in *Ingest) tryStore(work context.Context, batch []received) (int, error) {
	arrivals := make([]dlq.Arrival, len(batch))
	for i := range batch {
		arrivals[i] = batch[i].arrival
	}
	ctx, cancel := context.WithTimeout(work, storeTimeout)
	defer cancel()
	return in.store.StoreArrivals(ctx, arrivals)
}

func (in *Ingest) stalled(batch []received, wait time.Duration, err error) {
	first := batch[0].arrival
	in.status.storing(fmt.Errorf("store: %w", err))
	in.log.Error("cannot store dead letters; ingest waits and tries again",
		zap.Error(err),
		zap.Int("messages", len(batch)),
		zap.String("topic", first.DLQTopic),
		zap.Int32("partition", first.Source.Partition),
		zap.Int64("offset", first.Source.Offset),
		zap.Duration("wait", wait),
	)
}

// stored commits what is in the store now.
func (in *Ingest) stored(work context.Context, batch []received, stored int) {
	topic := batch[0].arrival.DLQTopic
	in.metrics.ingested.WithLabelValues(topic).Add(float64(stored))
	in.metrics.duplicates.WithLabelValues(topic).Add(float64(len(batch) - stored))
	in.metrics.cameBack.WithLabelValues(topic).Add(float64(cameBack(batch, stored)))
	in.metrics.lastArrival.WithLabelValues(topic).SetToCurrentTime()
	if in.log.Core().Enabled(zap.DebugLevel) {
		for i := range batch {
			a := &batch[i].arrival
			in.log.Debug("dead letter stored", zap.Stringer("message_id", a.ID), zap.String("topic", topic),
				zap.Int32("partition", a.Source.Partition), zap.Int64("offset", a.Source.Offset))
		}
	}
	in.owned.advance(batch)
	in.commit(work, nil)
}

// cameBack counts the arrivals that had been sent back before, among as many of
// the batch as were new. The known ones of a partition come before its new
// ones: they are what was stored and not committed. So the count is exact for
// a batch of one partition, and for one that is new as a whole. Else, which is
// about once after a crash, it is the least that it can be.
func cameBack(batch []received, stored int) int {
	if isOnePartition(batch) {
		batch = batch[max(len(batch)-stored, 0):]
	}
	firstTime := 0
	for i := range batch {
		if batch[i].arrival.PreviousID.IsZero() {
			firstTime++
		}
	}
	return max(stored-firstTime, 0)
}

func isOnePartition(batch []received) bool {
	for i := range batch {
		if batch[i].claim.place != batch[0].claim.place {
			return false
		}
	}
	return true
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
