package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dlqmanager/workflows"
)

// measureMemory runs jobs in separate worker processes: alternately a short job, and a job
// over a copy of the large table.
func (b *bench) measureMemory(ctx context.Context) error {
	if err := b.template(ctx, "small", seedTopic{name: fewTopic, pending: b.few}); err != nil {
		return err
	}
	if err := b.closeLargeTable(ctx); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	var many, few struct{ peaks, rates spread }
	for run := range b.runs {
		b.step("memory of a worker, jobs of %s and %s messages, run %d of %d", count(float64(b.few)), count(float64(b.stored)), run+1, b.runs)
		peak, speed, err := b.memoryOf(ctx, "small", fewTopic, b.few)
		if err != nil {
			return err
		}
		few.peaks, few.rates = append(few.peaks, peak), append(few.rates, speed)
		peak, speed, err = b.memoryOf(ctx, largeTemplate, storedTopic, b.stored)
		if err != nil {
			return err
		}
		many.peaks, many.rates = append(many.peaks, peak), append(many.rates, speed)
	}
	if b.wants(5) {
		b.add(row{number: 5, label: "bulk retry of the large table vs a small one",
			title: fmt.Sprintf("bulk retry of %s messages; baseline: of %s", count(float64(b.stored)), count(float64(b.few))),
			ours:  many.rates.show(perSecond), base: few.rates.show(perSecond), judged: many.rates.over(few.rates), goal: goal{atLeast: 0.9},
			notes: []string{"the whole job, in a separate worker process"}})
	}
	if b.wants(10) {
		b.add(row{number: 10, label: "memory of the worker, large job vs small",
			title: fmt.Sprintf("peak memory of the worker in a job of %s messages; baseline: of %s",
				count(float64(b.stored)), count(float64(b.few))),
			ours: many.peaks.show(megabytes), base: few.peaks.show(megabytes), judged: many.peaks.over(few.peaks), goal: goal{atMost: 1.2},
			notes: []string{"the peak resident memory of the process, as the system reports it"}})
	}
	return nil
}

// memoryOf retries a topic of a copy of the template in a new worker process. It
// returns the peak memory in bytes, and the messages per second. env are further variables
// of the worker's environment.
func (b *bench) memoryOf(ctx context.Context, template, topic string, messages int, env ...string) (peak, speed float64, err error) {
	db, err := b.copyOf(ctx, template)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.drop(ctx, db)) }()
	k, err := startBroker(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	defer k.stop(ctx)
	s := b.newSite(db, k, b.tuned)
	worker, err := b.start(ctx, s, "worker", env...)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, worker.kill()) }()

	deleting, stop := context.WithCancel(ctx)
	defer stop()
	go k.keepEmpty(deleting, topic)
	started := time.Now()
	client := workflows.NewClient(s.temporal.client, s.queue, workflows.ClientOptions{})
	job, err := startBulk(ctx, s.db, client, topic+".dlq", b.lanes, 0)
	if err != nil {
		return 0, 0, err
	}
	result, err := client.AwaitJob(ctx, job)
	if err != nil {
		return 0, 0, err
	}
	speed = rate(messages, time.Since(started))
	if result.Job.Counts.Retried != int64(messages) {
		return 0, 0, fmt.Errorf("%d of %d messages were retried", result.Job.Counts.Retried, messages)
	}
	peak, err = worker.peakMemory()
	return peak, speed, err
}

// keepEmpty deletes a topic's records regularly until ctx ends, since the broker is in this
// process, and millions of messages would fill its memory.
func (k *broker) keepEmpty(ctx context.Context, topic string) {
	for pause(ctx, 2*time.Second) == nil {
		_ = k.deleteRecords(ctx, topic) // the next call deletes the rest
	}
}
