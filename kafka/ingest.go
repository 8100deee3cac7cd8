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

// ArrivalStore stores dead letters. An error that wraps dlq.ErrUnavailable does not depend on
// the arrivals. Any other error may be caused by a single arrival.
type ArrivalStore interface {
	// Ingest stores the arrivals in the order of the slice and moves the positions of their partitions, in
	// one transaction. It returns the ids of the new messages. If a position differs from its Advance.From,
	// Ingest stores nothing and returns dlq.ErrPositionMoved.
	Ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error)
	// Positions returns the position of each partition, in the order of the partitions.
	Positions(ctx context.Context, partitions []dlq.Partition) ([]dlq.Position, error)
	// Pending counts the PENDING messages of each given dead-letter topic, and of all topics.
	Pending(ctx context.Context, dlqTopics []string) (counts []int64, all int64, err error)
}

// Ingest stores every dead letter of the matching topics. The store keeps the position of
// each partition, which is the next offset to read, and moves it in the transaction that
// stores the records. Reading continues at the position after a rebalance, a crash, a
// reset of the group's offsets, and a restore of the database to an earlier moment. A
// record that is read twice is stored once, since the message's id is computed from the record.
//
// A loop polls and stores. While the store is unavailable, the loop waits without polling, so memory stays
// bounded by the records that are already fetched. Meanwhile the loop allows rebalances, so this process
// stays a member of the group. When a partition is revoked, the loop drops the partition's records. The
// member that gets the partition reads them.
type Ingest struct {
	o           Options
	store       ArrivalStore
	topics      *dlq.Topics
	log         *zap.Logger
	reg         prometheus.Registerer
	metrics     *ingestMetrics
	assignments *assignmentSet
	status      *status

	client           *kgo.Client                // set by Run
	group            atomic.Pointer[kgo.Client] // the same client, for the group's callbacks, which may run before client is set
	logRanges        atomic.Pointer[logRanges]
	positionsChecked time.Time
	pendingLimit     pendingLimit
	// assignedTopics has the topics that were assigned to this process since Run began, without
	// deleted topics. Kafka hides a topic that the user may no longer describe, and the client
	// then forgets the topic silently.
	assignedTopics map[string]bool
	// denied and unknownRetention log a topic once an hour at most.
	denied, unknownRetention hourly
}

// NewIngest checks the options. Only Run connects to Kafka.
func NewIngest(o Options, store ArrivalStore, topics *dlq.Topics, log *zap.Logger, reg prometheus.Registerer) (*Ingest, error) {
	o = o.withDefaults()
	if err := kgo.ValidateOpts(o.consumer(log, reg, topics.Expression())...); err != nil {
		return nil, fmt.Errorf("kafka ingest: %w", err)
	}
	metrics := newIngestMetrics(reg)
	in := &Ingest{
		o:            o,
		store:        store,
		topics:       topics,
		log:          log,
		reg:          reg,
		metrics:      metrics,
		assignments:  &assignmentSet{byPartition: map[topicPartition]*assignment{}},
		pendingLimit: newPendingLimit(),
		status:       &status{metrics: metrics},
	}
	in.logRanges.Store(&logRanges{})
	return in, nil
}

// Run ingests dead letters until the context ends. Then it stores the current batch, for
// at most Options.StopGrace, commits, and leaves the group. Run waits for unavailable
// brokers, and returns an error only when the start fails.
func (in *Ingest) Run(ctx context.Context) error {
	if !in.status.start() { // before the client starts, because the client's hooks update the status
		return errors.New("the ingest is running already")
	}
	defer in.status.stop()
	if err := in.open(); err != nil {
		return err
	}

	// work ends StopGrace after ctx, so that the current batch can still be stored.
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() {
		in.log.Info("ingest stopping")
		sleep(work, in.o.StopGrace)
		abandon()
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
	in.pendingLimit, in.assignedTopics = newPendingLimit(), map[string]bool{}
	opts := append(in.o.consumer(in.log, in.reg, in.topics.Expression()),
		kgo.OnPartitionsAssigned(func(_ context.Context, client *kgo.Client, added map[string][]int32) { in.assigned(client, added) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) { in.revoked(ctx, revoked) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { in.lost(lost) }),
		kgo.AdjustFetchOffsetsFn(in.startOffsets),
		kgo.WithHooks(groupErrors{in.status, in.o.ConsumerGroup}),
	)
	in.client, err = newClient(opts)
	return err
}

// close leaves the group, so that the other members get this member's partitions immediately and
// not after the session timeout. close takes commitTimeout at most.
func (in *Ingest) close() {
	in.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := in.client.LeaveGroupContext(ctx); err != nil {
		in.log.Warn("could not leave the consumer group; the session timeout will end the membership", zap.Error(err))
	}
	// Client.Close takes no context and leaves the group once more. During a rebalance the
	// coordinator answers only after the dead members have timed out.
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

// batchRecords and batchBytes (headers included) limit a batch of records that is stored
// in one transaction. A larger record is a batch by itself.
const (
	batchRecords = 500
	batchBytes   = 4 << 20
)

// poll polls once and stores the records. It waits at most positionCheckInterval for records,
// and then calls checkPositions.
func (in *Ingest) poll(ctx, work context.Context) {
	limit, cancel := context.WithTimeout(ctx, positionCheckInterval)
	defer cancel()
	fetches := in.client.PollRecords(limit, batchRecords)
	if fetches.NumRecords() > 0 {
		in.status.setError(brokersFail, nil)
	}
	began := time.Now()
	for _, batch := range in.batches(work, fetches) {
		if time.Since(began) > pollBudget {
			in.client.AllowRebalance() // a slow store must not delay a rebalance
		}
		if in.o.Decoder != nil {
			in.o.Decoder.DecodeArrivals(work, arrivalsOf(batch))
		}
		in.storeBatch(work, batch)
	}
	in.commit(work)
	if time.Since(began) > pollBudget {
		in.client.AllowRebalance()
	}
	in.checkPositions(work)
	in.client.AllowRebalance()
	in.settleErrors(ctx, fetches)
}

// received is a fetched record that is not stored yet, with the assignment that the record
// belongs to.
type received struct {
	// arrival is nil for the marker of a transaction. A marker is not stored, but it moves the
	// position. Otherwise Kafka's deletion of the marker would count as a loss.
	arrival    *dlq.Arrival
	assignment *assignment
	after      dlq.Position // the partition's position once the record is stored
	logStart   int64        // the partition's log start offset at the fetch; -1 if unknown
}

// batches divides the records of a poll into batches. A batch may have records of several topics.
func (in *Ingest) batches(ctx context.Context, fetches kgo.Fetches) (batches [][]received) {
	var batch []received
	var recreated []*assignment
	bytes := 0
	fetches.EachTopic(func(topic kgo.FetchTopic) {
		topic.EachPartition(func(fetched kgo.FetchPartition) {
			assignment := in.assignments.assignment(topicPartition{topic.Topic, fetched.Partition})
			if assignment == nil || len(fetched.Records) == 0 {
				return // the partition was revoked after the fetch, or has no records
			}
			topicID := cmp.Or(topic.TopicID, assignment.topicID) // a fetch names no topic ids before Kafka 3.1
			if assignment.topicID != topicID {                   // the topic was re-created, with new offsets
				recreated = append(recreated, assignment.recreated(topicID))
				return
			}
			if !in.reachedSeekOffset(assignment, &fetched) {
				return
			}
			for _, r := range fetched.Records {
				size := contentBytes(r)
				if len(batch) == batchRecords || bytes+size > batchBytes && len(batch) > 0 {
					batches = append(batches, batch)
					batch, bytes = nil, 0
				}
				bytes += size
				next := received{
					assignment: assignment,
					after:      dlq.Position{Next: r.Offset + 1, Epoch: r.LeaderEpoch},
					logStart:   fetched.LogStartOffset,
				}
				if !r.Attrs.IsControl() {
					next.arrival = new(ArrivalOf(in.topics, in.o.Grouping, in.o.MaxRetries, topicID, r))
				}
				batch = append(batch, next)
			}
		})
	})
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	if len(recreated) > 0 {
		in.assignments.set(recreated)
		if _, err := in.followDatabase(ctx, recreated); err != nil {
			in.log.Warn("cannot read the positions of a re-created topic", zap.Error(err))
		}
	}
	return batches
}

// A batch that could not be stored is tried again after storeBackoffMin. Each further wait is twice as long, up to storeBackoffMax.
const (
	storeBackoffMin = 100 * time.Millisecond
	storeBackoffMax = 5 * time.Second
)

// storeBatch retries until the batch is stored, its partitions are revoked, or the
// context ends.
func (in *Ingest) storeBatch(work context.Context, batch []received) {
	for wait := storeBackoffMin; ; wait = min(2*wait, storeBackoffMax) {
		if batch = in.assignments.filter(batch); len(batch) == 0 || work.Err() != nil {
			return
		}
		assignments, advances := advancesOf(batch)
		arrivals := arrivalsOf(batch)
		stored, err := in.tryStore(work, arrivals, advances)
		if err == nil {
			in.status.setError(storeFails, nil)
			in.advanced(assignments, advances)
			in.count(arrivals, stored)
			if in.hasPendingLimit() && in.pendingLimit.subtract(arrivals, in) {
				in.enforcePendingLimit(work)
			}
			return
		}
		if work.Err() != nil {
			return
		}
		if errors.Is(err, dlq.ErrPositionMoved) {
			moved, followErr := in.followDatabase(work, assignments)
			if moved {
				continue
			}
			// The positions could not be read, or are as expected now, as when two databases answer in turn.
			err = fmt.Errorf("%w: %w", dlq.ErrUnavailable, cmp.Or(followErr, err))
		}
		// One arrival may have caused the error, so each half of the batch is tried alone.
		if len(batch) > 1 && !errors.Is(err, dlq.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			in.storeBatch(work, batch[:len(batch)/2])
			in.storeBatch(work, batch[len(batch)/2:])
			return
		}
		in.reportStalled(batch, wait, err)
		in.commit(work)            // the positions that earlier batches reached
		in.client.AllowRebalance() // a rebalance must not wait for the store
		sleep(work, wait)
	}
}

func arrivalsOf(batch []received) []*dlq.Arrival {
	arrivals := make([]*dlq.Arrival, 0, len(batch))
	for _, r := range batch {
		if r.arrival != nil {
			arrivals = append(arrivals, r.arrival)
		}
	}
	return arrivals
}

// advancesOf returns the assignments of a batch and, in the same order, the move of each partition's
// position past the records of the batch.
func advancesOf(batch []received) (assignments []*assignment, advances []dlq.Advance) {
	for i := range batch {
		r := &batch[i]
		n := slices.Index(assignments, r.assignment)
		if n < 0 {
			n = len(assignments)
			assignments = append(assignments, r.assignment)
			advance := dlq.Advance{Partition: r.assignment.partitionID(), Topic: r.assignment.topic, From: r.assignment.position}
			// Only records before the log start offset are lost. Later offsets that are missing
			// were compacted, or belong to aborted transactions.
			if next := r.assignment.position.Next; next >= 0 && r.after.Next > r.logStart {
				advance.Lost = max(r.logStart-next, 0)
			}
			advances = append(advances, advance)
		}
		advances[n].To = r.after
	}
	return assignments, advances
}

func (in *Ingest) tryStore(work context.Context, arrivals []*dlq.Arrival, advances []dlq.Advance) ([]dlq.ID, error) {
	ctx, cancel := context.WithTimeout(work, storeTimeout)
	defer cancel()
	values := make([]dlq.Arrival, len(arrivals))
	for i, a := range arrivals {
		values[i] = *a
	}
	return in.store.Ingest(ctx, values, advances)
}

func (in *Ingest) reportStalled(batch []received, wait time.Duration, err error) {
	first := &batch[0]
	in.status.setError(storeFails, fmt.Errorf("store: %w", err))
	in.log.Error("cannot store dead letters; ingest waits and retries",
		zap.Error(err),
		zap.Int("messages", len(batch)),
		zap.String("topic", first.assignment.topic),
		zap.Int32("partition", first.assignment.partition),
		zap.Int64("offset", first.after.Next-1),
		zap.Duration("wait", wait),
	)
}

// count updates the metrics for a stored batch.
func (in *Ingest) count(arrivals []*dlq.Arrival, stored []dlq.ID) {
	isNew := make(map[dlq.ID]bool, len(stored))
	for _, id := range stored {
		isNew[id] = true
	}
	debug := in.log.Core().Enabled(zap.DebugLevel)
	for _, a := range arrivals {
		topic := in.metrics.topics.Of(a.DLQTopic)
		if isNew[a.ID] {
			in.metrics.ingested.WithLabelValues(topic).Inc()
		} else {
			in.metrics.duplicates.WithLabelValues(topic).Inc()
		}
		if isNew[a.ID] && !a.PreviousID.IsZero() {
			in.metrics.cameBack.WithLabelValues(topic).Inc()
		}
		in.metrics.lastArrival.WithLabelValues(topic).SetToCurrentTime()
		if debug {
			in.log.Debug("dead letter stored", zap.Stringer("message_id", a.ID), zap.String("topic", a.DLQTopic),
				zap.Int32("partition", a.Source.Partition), zap.Int64("offset", a.Source.Offset))
		}
	}
}

// every calls the function do immediately, and then once in each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.Tick(interval)
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-tick:
		case <-ctx.Done():
		}
	}
}

// put sets the value of a partition.
func put[V any](partitions map[string]map[int32]V, p topicPartition, value V) {
	if partitions[p.topic] == nil {
		partitions[p.topic] = map[int32]V{}
	}
	partitions[p.topic][p.partition] = value
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
