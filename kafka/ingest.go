package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// ArrivalStore is where dead letters go. Its errors that wrap dlq.ErrUnavailable say
// nothing about the arrivals; any other may be about one of them.
type ArrivalStore interface {
	// Ingest stores the arrivals in the order of the slice and moves the positions of
	// their partitions, all or nothing, and returns the ids of those that were new. It
	// returns dlq.ErrPositionMoved when a position is not where its advance starts from.
	Ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error)
	// Positions returns how far each partition has been taken in, in their order.
	Positions(ctx context.Context, partitions []dlq.Partition) ([]dlq.Position, error)
	// Pending counts the PENDING messages of each of these dead-letter topics, and of all.
	Pending(ctx context.Context, dlqTopics []string) (counts []int64, all int64, err error)
}

// Ingest takes every dead letter of the matching topics into the store. The store
// decides what was taken in: it keeps the next offset of each partition, and moves it
// together with the records in between. Reading goes on from there after a rebalance,
// a crash, a reset of the group's offsets, and a restore of the database to an earlier
// moment. A record that is read twice is stored once, since its id follows from it.
//
// One loop polls and stores. While the store is away the loop waits without polling, so
// that memory stays bounded by the records that were fetched already, and lets the
// group rebalance, so that it stays a member however long it takes. Records of
// partitions that are taken from it meanwhile are dropped, and read by the new owner.
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

	client   *kgo.Client                // set by Run
	group    atomic.Pointer[kgo.Client] // the same, for the group's calls, which may come sooner
	ids      *topicIDs
	logs     *logs
	compared time.Time
	flood    flood
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
		ids:     newTopicIDs(),
		logs:    &logs{},
		flood:   flood{room: map[string]int64{}},
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

func (in *Ingest) open() (err error) {
	in.flood = flood{room: map[string]int64{}}
	opts := append(in.o.consumer(in.log, in.reg, in.topics.Expression()),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, added map[string][]int32) { in.assigned(client, added) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) { in.revoked(ctx, gone) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { in.lost(gone) }),
		kgo.AdjustFetchOffsetsFn(in.locate),
		kgo.WithHooks(groupErrors{in.status}),
	)
	in.client, err = newClient(opts)
	return err
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

// poll is one turn: fetch and store. A turn without records ends when it is time to
// compare.
func (in *Ingest) poll(ctx, work context.Context) {
	limit, cancel := context.WithTimeout(ctx, compareInterval)
	defer cancel()
	fetches := in.client.PollRecords(limit, batchRecords)
	if fetches.NumRecords() > 0 {
		in.status.kafka(nil)
	}
	began := time.Now()
	for _, batch := range in.batches(work, fetches) {
		if time.Since(began) > pollBudget {
			in.client.AllowRebalance() // a slow store must not hold up the group
		}
		in.take(work, batch)
	}
	in.report(work, in.owned.all(nil))
	if time.Since(began) > pollBudget {
		in.client.AllowRebalance()
	}
	in.compare(work)
	in.client.AllowRebalance()
	in.settleErrors(ctx, fetches)
}

// received is a record on its way, with the claim that it came by.
type received struct {
	arrival  dlq.Arrival
	claim    *claim
	after    dlq.Position // once it is stored
	logStart int64        // of its partition, when it was fetched; -1 is unknown
}

// batches sorts the records of a poll into batches, whatever topics they are of.
func (in *Ingest) batches(ctx context.Context, fetches kgo.Fetches) (batches [][]received) {
	var batch []received
	var recreated []*claim
	bytes := 0
	fetches.EachTopic(func(topic kgo.FetchTopic) {
		id := in.ids.of(topic)
		topic.EachPartition(func(fetched kgo.FetchPartition) {
			claim := in.owned.claim(place{topic.Topic, fetched.Partition})
			if claim == nil || len(fetched.Records) == 0 {
				return // taken from us between the fetch and now
			}
			if claim.topicID != id { // deleted and created again: offsets start over
				recreated = append(recreated, claim.of(id))
				return
			}
			if !in.arrived(claim, &fetched) {
				return
			}
			for _, r := range fetched.Records {
				size := contentBytes(r)
				if len(batch) == batchRecords || bytes+size > batchBytes && len(batch) > 0 {
					batches = append(batches, batch)
					batch, bytes = nil, 0
				}
				bytes += size
				batch = append(batch, received{
					arrival:  arrivalOf(in.topics, in.o.MaxRetries, id, r),
					claim:    claim,
					after:    dlq.Position{Next: r.Offset + 1, Epoch: r.LeaderEpoch},
					logStart: fetched.LogStartOffset,
				})
			}
		})
	})
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	if len(recreated) > 0 {
		in.owned.set(recreated)
		if _, err := in.follow(ctx, recreated); err != nil {
			in.log.Warn("cannot read how far a topic that was created again was taken in", zap.Error(err))
		}
	}
	return batches
}

// Waiting times between attempts to store, doubling.
const (
	storeBackoffMin = 100 * time.Millisecond
	storeBackoffMax = 5 * time.Second
)

// take stores a batch, however long that takes, unless its partitions are taken away
// or the work is to end.
func (in *Ingest) take(work context.Context, batch []received) {
	for wait := storeBackoffMin; ; wait = min(2*wait, storeBackoffMax) {
		if batch = in.owned.filter(batch); len(batch) == 0 || work.Err() != nil {
			return
		}
		claims, advances := advancesOf(batch)
		arrivals := make([]dlq.Arrival, len(batch))
		for i := range batch {
			arrivals[i] = batch[i].arrival
		}
		stored, err := in.tryStore(work, arrivals, advances)
		if err == nil {
			in.status.storing(nil)
			in.advanced(claims, advances)
			in.count(batch, stored)
			if in.limits() && in.flood.fill(batch, in) {
				in.regulate(work)
			}
			return
		}
		if work.Err() != nil {
			return
		}
		if errors.Is(err, dlq.ErrPositionMoved) {
			moved, followErr := in.follow(work, claims)
			if moved {
				continue
			}
			err = fmt.Errorf("%w: %w", dlq.ErrUnavailable, cmp.Or(followErr, err)) // perhaps two databases answer in turn
		}
		// If one arrival is at fault, the others need not wait for it.
		if len(batch) > 1 && !errors.Is(err, dlq.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			in.take(work, batch[:len(batch)/2])
			in.take(work, batch[len(batch)/2:])
			return
		}
		in.stalled(batch, wait, err)
		in.report(work, in.owned.all(nil)) // the records before
		in.client.AllowRebalance()         // the group must not wait for the store
		sleep(work, wait)
	}
}

// advancesOf moves the position of each claim of a batch beyond its records.
func advancesOf(batch []received) (claims []*claim, advances []dlq.Advance) {
	for i := range batch {
		r := &batch[i]
		n := slices.Index(claims, r.claim)
		if n < 0 {
			n = len(claims)
			claims = append(claims, r.claim)
			advance := dlq.Advance{Partition: r.claim.partitionID(), Topic: r.claim.topic, From: r.claim.at}
			// Offsets that are missing for another reason are those of a compacted
			// topic, or of the markers of transactions.
			if next := r.claim.at.Next; next >= 0 && r.arrival.Source.Offset >= r.logStart {
				advance.Lost = max(r.logStart-next, 0)
			}
			advances = append(advances, advance)
		}
		advances[n].To = r.after
	}
	return claims, advances
}

func (in *Ingest) tryStore(work context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) ([]dlq.ID, error) {
	ctx, cancel := context.WithTimeout(work, storeTimeout)
	defer cancel()
	return in.store.Ingest(ctx, arrivals, advances)
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

// count counts what is in the store now.
func (in *Ingest) count(batch []received, stored []dlq.ID) {
	isNew := make(map[dlq.ID]bool, len(stored))
	for _, id := range stored {
		isNew[id] = true
	}
	debug := in.log.Core().Enabled(zap.DebugLevel)
	for i := range batch {
		a := &batch[i].arrival
		switch {
		case !isNew[a.ID]:
			in.metrics.duplicates.WithLabelValues(a.DLQTopic).Inc()
		default:
			in.metrics.ingested.WithLabelValues(a.DLQTopic).Inc()
			if !a.PreviousID.IsZero() {
				in.metrics.cameBack.WithLabelValues(a.DLQTopic).Inc()
			}
		}
		in.metrics.lastArrival.WithLabelValues(a.DLQTopic).SetToCurrentTime()
		if debug {
			in.log.Debug("dead letter stored", zap.Stringer("message_id", a.ID), zap.String("topic", a.DLQTopic),
				zap.Int32("partition", a.Source.Partition), zap.Int64("offset", a.Source.Offset))
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
