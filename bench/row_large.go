package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/workflows"
)

// largeSizes are the sizes of the values, the numbers of messages, and the memory that the worker may use.
var largeSizes = []struct {
	bytes, messages int
	goal            float64 // in MB
}{
	{1 << 20, 300, 256},
	{10 << 20, 40, 400},
}

const largeTopic = "media"

// measureLarge retries messages with large values in a worker. At the same time, the worker ingests the
// same number of messages with such values.
func (b *bench) measureLarge(ctx context.Context) error {
	if err := b.template(ctx, "empty"); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	for _, size := range largeSizes {
		messages := min(size.messages, b.messages/100)
		var peaks spread
		for run := range b.runs {
			b.step("memory of a worker, values of %d MB, run %d of %d", size.bytes>>20, run+1, b.runs)
			peak, err := b.largeOnce(ctx, size.bytes, messages)
			if err != nil {
				return err
			}
			peaks = append(peaks, peak/1e6)
		}
		b.add(row{number: 13, label: fmt.Sprintf("memory of the worker, values of %d MB", size.bytes>>20),
			title: fmt.Sprintf("peak memory of a worker that retries %d messages of %d MB in %d lanes and ingests as many at the same time",
				messages, size.bytes>>20, b.lanes),
			ours: "see ratio or value", judged: peaks, format: func(n float64) string { return count(n) + " MB" }, goal: goal{atMost: size.goal}})
	}
	return nil
}

func (b *bench) largeOnce(ctx context.Context, size, messages int) (peak float64, err error) {
	db, err := b.copyOf(ctx, "empty")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.drop(ctx, db)) }()
	k, err := startBroker(ctx)
	if err != nil {
		return 0, err
	}
	defer k.stop(ctx)
	limit := strconv.Itoa(2 * size)
	if _, err := k.admin.CreateTopics(ctx, partitions, 1, map[string]*string{"max.message.bytes": &limit}, largeTopic, largeTopic+".dlq"); err != nil {
		return 0, err
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(k.addresses...), kgo.ProducerBatchMaxBytes(int32(2*size)),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return 0, err
	}
	defer producer.Close()
	noise := make([]byte, size/2)
	_, _ = rand.Read(noise)
	value := []byte(`{"frame":"` + hex.EncodeToString(noise) + `"}`)
	fill := func() error {
		records := make([]*kgo.Record, messages)
		for i := range records {
			records[i] = &kgo.Record{Topic: largeTopic + ".dlq", Key: fmt.Append(nil, i), Value: value}
		}
		return producer.ProduceSync(ctx, records...).FirstErr()
	}
	stored := func(n int) error {
		for have := 0; have < n; {
			if err := db.pool.QueryRow(ctx, "SELECT count(*) FROM dlq.dlq_messages").Scan(&have); err != nil {
				return err
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}

	s := b.newSite(db, k, b.tuned)
	worker, err := b.start(ctx, s, "worker")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.kill()) }()
	if err := errors.Join(fill(), stored(messages)); err != nil {
		return 0, err
	}
	client := workflows.NewClient(s.temporal.client, s.queue, workflows.ClientOptions{})
	job, err := startBulk(ctx, s.db, client, largeTopic+".dlq", b.lanes, 0)
	if err != nil {
		return 0, err
	}
	if err := fill(); err != nil {
		return 0, err
	}
	result, err := client.AwaitJob(ctx, job)
	if err != nil {
		return 0, err
	}
	if result.Job.Counts.Retried != int64(messages) {
		return 0, fmt.Errorf("%d of %d messages were retried", result.Job.Counts.Retried, messages)
	}
	if err := stored(2 * messages); err != nil {
		return 0, err
	}
	return worker.peakMemory()
}
