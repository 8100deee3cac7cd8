package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// scaleAck is how long the broker takes for each produce request, as if it replicated over a long distance.
// So the connection of each worker limits the speed, and the processors are idle.
const scaleAck = 100 * time.Millisecond

// measureScale adds a worker process to a running bulk retry.
func (b *bench) measureScale(ctx context.Context) error {
	if b.quick && len(b.options.rows) == 0 {
		b.step("row 11 is skipped: lanes change workers only every 15 s, so it cannot be made shorter")
		return nil
	}
	messages := max(b.messages/5, 400*dlq.PageSize)
	if err := b.template(ctx, "scale", seedTopic{name: bulkTopic, pending: messages}); err != nil {
		return err
	}
	if err := b.build(ctx); err != nil {
		return err
	}
	var two, one, shares spread
	for run := range b.runs {
		for _, joins := range []bool{true, false} {
			b.step("adding a worker, run %d of %d, joins: %t", run+1, b.runs, joins)
			speed, share, err := b.scaleOnce(ctx, messages, joins)
			if err != nil {
				return err
			}
			b.step("       %s, %.0f %% by the second", perSecond(speed), 100*share)
			if joins {
				two, shares = append(two, speed), append(shares, 100*share)
			} else {
				one = append(one, speed)
			}
		}
	}
	b.add(row{number: 11, label: "adding a worker to a running job",
		title: fmt.Sprintf("bulk retry of %s messages once a second worker has joined it; baseline: the same job with one worker",
			count(float64(messages))),
		ours: two.show(perSecond), base: one.show(perSecond), judged: two.over(one), goal: goal{atLeast: 1.2},
		notes: []string{
			fmt.Sprintf("the broker takes %d ms for a produce request and, like Kafka, handles one request of a connection at a time: "+
				"that limits each worker here, since a worker may run any number of lanes. Workers share these cores, "+
				"so a speed-up of computation cannot be shown", scaleAck.Milliseconds()),
			fmt.Sprintf("from the moment when the second worker is ready, after a quarter of the messages, to the end; "+
				"it gets lanes when their time slices of 15 s end, and sends %s %% of the remaining messages", shares.show(count)),
		}})
	return nil
}

// scaleOnce returns the rate of a job after its first quarter. If joins is set, a second worker joins after
// the first quarter, and share is the part of the remaining messages that this worker has sent.
func (b *bench) scaleOnce(ctx context.Context, messages int, joins bool) (speed, share float64, err error) {
	db, err := b.copyOf(ctx, "scale")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.drop(ctx, db)) }()
	k, err := startWatched(ctx, scaleAck, bulkTopic, bulkTopic+".dlq")
	if err != nil {
		return 0, 0, err
	}
	defer k.stop(ctx)
	s := b.newSite(db, k.broker, b.tuned)
	workers := []*program{}
	defer func() {
		for _, worker := range workers {
			err = errors.Join(err, worker.kill())
		}
	}()
	join := func() error {
		worker, err := b.start(ctx, s, "worker")
		if err == nil {
			workers = append(workers, worker)
		}
		return err
	}
	if err := join(); err != nil {
		return 0, 0, err
	}
	client := workflows.NewClient(s.temporal.client, s.queue, workflows.ClientOptions{})
	job, err := startBulk(ctx, s.db, client, bulkTopic+".dlq", b.lanes, 0)
	if err != nil {
		return 0, 0, err
	}
	if err := s.awaitWritten(ctx, bulkTopic, int64(messages/4)); err != nil {
		return 0, 0, err
	}
	if joins {
		if err := join(); err != nil {
			return 0, 0, err
		}
	}
	before, err := k.written(ctx, bulkTopic)
	if err != nil {
		return 0, 0, err
	}
	started := time.Now()
	result, err := client.AwaitJob(ctx, job)
	if err != nil {
		return 0, 0, err
	}
	left := messages - int(before)
	speed = rate(left, time.Since(started))
	if result.Job.Counts.Retried != int64(messages) {
		return 0, 0, fmt.Errorf("%d of %d messages were retried", result.Job.Counts.Retried, messages)
	}
	appends, err := k.seen()
	return speed, float64(othersThanFirst(appends)) / float64(left), err
}

// othersThanFirst is the number of records from other producers than the first.
func othersThanFirst(appends []appended) int {
	sum := 0
	for _, a := range appends {
		if a.producer != appends[0].producer {
			sum += a.records
		}
	}
	return sum
}
