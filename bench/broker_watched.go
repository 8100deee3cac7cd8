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

// watched is a broker that remembers what was written to it, and when.
type watched struct {
	*broker
	mu      sync.Mutex
	appends []appended
	failed  error
}

// appended is one batch as the broker took it in.
type appended struct {
	at time.Time
	// producer is the id that the broker has given to the client, so it tells
	// workers apart.
	producer int64
	records  int
}

// startWatched starts a broker that takes so long for every produce request. It
// works on one request of a connection at a time, as Kafka does, and on those of
// several connections at once.
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
		w.note(request)
		return nil, nil, false //nolint:nilnil // not handled: the broker answers as always
	})
	w.broker, err = connect(ctx, cluster.ListenAddrs(), func(context.Context) error { cluster.Close(); return nil })
	return w, err
}

// note remembers a request that the broker appends next.
func (w *watched) note(request kmsg.Request) {
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

// seen is everything so far.
func (w *watched) seen() ([]appended, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.appends), w.failed
}

// forgetSeen begins anew.
func (w *watched) forgetSeen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appends = nil
}
