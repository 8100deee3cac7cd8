package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watched is a broker that records every batch and the time of its arrival.
type watched struct {
	*broker
	mu      sync.Mutex
	appends []appended
	failed  error
}

// appended is one batch as the broker received it.
type appended struct {
	at time.Time
	// producer is the producer id, which differs between workers.
	producer int64
	records  int
}

// startWatched starts a broker that takes the given time to handle each produce request.
// Like Kafka, it handles one request of a connection at a time, and requests of several
// connections concurrently.
func startWatched(ctx context.Context, takes time.Duration, topics ...string) (*watched, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topics...))
	if err != nil {
		return nil, err
	}
	w := &watched{}
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		if takes > 0 {
			cluster.SleepControl(func() { time.Sleep(takes) })
		}
		w.record(request)
		return nil, nil, false //nolint:nilnil // not handled here: the broker answers as usual
	})
	w.broker, err = connect(ctx, cluster.ListenAddrs(), func(context.Context) error { cluster.Close(); return nil })
	return w, err
}

// record notes the batches of a request before the broker appends them.
func (w *watched) record(request kmsg.Request) {
	produce, ok := request.(*kmsg.ProduceRequest)
	if !ok {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, topic := range produce.Topics {
		for _, partition := range topic.Partitions {
			var batch kmsg.RecordBatch
			if err := batch.ReadFrom(partition.Records); err != nil {
				w.failed = fmt.Errorf("batch for partition %d: %w", partition.Partition, err)
				continue
			}
			w.appends = append(w.appends, appended{at: now, producer: batch.ProducerID, records: int(batch.NumRecords)})
		}
	}
}

// seen returns all batches so far.
func (w *watched) seen() ([]appended, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.appends), w.failed
}

// reset forgets all batches.
func (w *watched) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appends = nil
}
