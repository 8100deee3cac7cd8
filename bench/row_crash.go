package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// crashPoll is how often the target topic is polled.
const crashPoll = 5 * time.Millisecond

// measureCrash kills a worker process in the middle of a bulk retry and restarts it
// immediately.
func (b *bench) measureCrash(ctx context.Context) error {
	messages := max(b.messages*3/10, 50*dlq.PageSize)
	if err := b.template(ctx, "crash", seedTopic{name: bulkTopic, pending: messages}); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	var waited, twice spread
	for run := range b.runs {
		b.step("SIGKILL of a worker, run %d of %d", run+1, b.runs)
		err := b.onCopy(ctx, "crash", func(db *database, k *broker) error {
			gap, copies, err := b.crashOnce(ctx, b.newSite(db, k, b.tuned), messages)
			waited, twice = append(waited, gap.Seconds()), append(twice, float64(copies))
			return err
		})
		if err != nil {
			return err
		}
	}
	b.add(row{number: 8, label: "to the next message after SIGKILL",
		title: "from the SIGKILL of the only worker, which is restarted immediately, to the next message in the target topic",
		ours:  waited.show(seconds), judged: waited, format: seconds, goal: goal{atMost: 5},
		notes: []string{fmt.Sprintf("the kill comes in the middle of a bulk retry of %s messages; all of them are delivered in every run",
			count(float64(messages)))}})
	b.add(row{number: 8, label: "sent twice because of it", title: "messages sent twice because of that kill", ours: twice.show(count), judged: twice,
		goal: goal{atMost: float64(b.lanes * dlq.PageSize)}})
	return nil
}

// crashOnce returns the time from the kill to the next message in the target topic, and
// the number of duplicates there. It fails if a message is missing.
func (b *bench) crashOnce(ctx context.Context, s *site, messages int) (gap time.Duration, twice int, err error) {
	worker, err := b.start(ctx, s, "worker")
	if err != nil {
		return 0, 0, err
	}
	client := workflows.NewClient(s.temporal.client, s.queue, workflows.ClientOptions{})
	job, err := startBulk(ctx, s.db, client, bulkTopic+".dlq", b.lanes, 0)
	if err == nil {
		err = s.awaitWritten(ctx, bulkTopic, int64(messages/3))
	}
	if err != nil {
		return 0, 0, errors.Join(err, worker.kill())
	}
	killed := time.Now()
	if err := worker.kill(); err != nil {
		return 0, 0, err
	}
	restarted := make(chan error, 1)
	go func() {
		var err error
		worker, err = b.start(ctx, s, "worker")
		restarted <- err
	}()
	gap, err = s.silence(ctx, bulkTopic, killed)
	if restartErr := <-restarted; restartErr != nil {
		return 0, 0, errors.Join(err, restartErr)
	}
	defer func() { err = errors.Join(err, worker.kill()) }()
	if err != nil {
		return 0, 0, err
	}
	result, err := client.AwaitJob(ctx, job)
	if err != nil {
		return 0, 0, err
	}
	if result.Job.Counts.Retried != int64(messages) {
		return 0, 0, fmt.Errorf("after the kill %d of %d messages were retried", result.Job.Counts.Retried, messages)
	}
	twice, err = s.broker.copies(ctx, bulkTopic, messages)
	return gap, twice, err
}

// awaitWritten waits until a topic has received this number of records.
func (s *site) awaitWritten(ctx context.Context, topic string, records int64) error {
	for {
		written, err := s.broker.written(ctx, topic)
		if err != nil || written >= records {
			return err
		}
		if err := pause(ctx, crashPoll); err != nil {
			return err
		}
	}
}

// settle is how long the broker may still process requests of the killed process after
// the kill.
const settle = 100 * time.Millisecond

// silence is the time from the kill to the first record of the new process.
func (s *site) silence(ctx context.Context, topic string, killed time.Time) (time.Duration, error) {
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	left, err := s.broker.written(ctx, topic)
	if err != nil {
		return 0, err
	}
	err = s.awaitWritten(ctx, topic, left+1)
	return time.Since(killed), err
}

// copies reads a topic to its end and returns the number of duplicates. It fails if a
// message is missing.
func (k *broker) copies(ctx context.Context, topic string, messages int) (int, error) {
	written, err := k.written(ctx, topic)
	if err != nil {
		return 0, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(k.addresses...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	seen := make(map[string]struct{}, messages)
	for read := int64(0); read < written; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			read++
			for _, header := range r.Headers {
				if header.Key == "dlq-message-id" {
					seen[string(header.Value)] = struct{}{}
				}
			}
		})
	}
	if len(seen) != messages {
		return 0, fmt.Errorf("%d of %d messages arrived", len(seen), messages)
	}
	return int(written) - messages, nil
}
