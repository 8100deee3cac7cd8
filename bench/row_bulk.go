package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// bulkTopic is for bulk retries, singleTopic for a workflow per message. One template
// has both.
const (
	bulkTopic   = "orders"
	singleTopic = "payments"
)

// bulkRun has the results of rows 1, 3, 4 and 15.
type bulkRun struct {
	ours, loop, single, events, wal, cpu spread
	shares, loopShares                   string
	plainTable                           plainTableRun
}

// measureBulk compares a bulk retry with simpler programs.
func (b *bench) measureBulk(ctx context.Context) error {
	bulk, single := seedTopic{name: bulkTopic, pending: b.messages}, seedTopic{name: singleTopic, pending: b.single}
	if err := b.template(ctx, "bulk", b.withOthers(bulk, single)...); err != nil {
		return err
	}
	if b.wants(15) {
		if err := b.plainTable(ctx); err != nil {
			return err
		}
	}
	sides := []bulkSide{
		{[]int{1, 3, 4, 15}, "bulk", b.bulkOurs},
		{[]int{1}, "bulk", b.bulkLoop},
		{[]int{15}, "plain", b.bulkPlainTable},
		{[]int{3}, "bulk", b.bulkSingle},
	}
	if b.runs > 1 { // the first measurement of all would pay for cold caches alone
		b.step("bulk retry, a run that does not count")
		if err := b.bulkRuns(ctx, sides[:3], &bulkRun{}); err != nil {
			return err
		}
	}
	var r bulkRun
	for run := range b.runs {
		b.step("bulk retry, run %d of %d", run+1, b.runs)
		if err := b.bulkRuns(ctx, sides, &r); err != nil {
			return err
		}
		slices.Reverse(sides) // no side always comes first
	}
	b.reportBulk(&r)
	return nil
}

// bulkSide is one side of a comparison, which works on a copy of a template.
type bulkSide struct {
	rows     []int
	template string
	measure  func(context.Context, *bulkRun, *database, *broker) error
}

func (b *bench) bulkRuns(ctx context.Context, sides []bulkSide, r *bulkRun) error {
	for _, side := range sides {
		if !b.wants(side.rows...) {
			continue
		}
		if err := b.onCopy(ctx, side.template, func(db *database, k *broker) error { return side.measure(ctx, r, db, k) }); err != nil {
			return err
		}
	}
	return nil
}

// onCopy runs a measurement with a new copy of a database and a new broker.
func (b *bench) onCopy(ctx context.Context, template string, measure func(*database, *broker) error) error {
	db, err := b.copyOf(ctx, template)
	if err != nil {
		return err
	}
	k, err := startBroker(ctx, bulkTopic, bulkTopic+".dlq", singleTopic)
	if err != nil {
		db.pool.Close()
		return err
	}
	runtime.GC() // so that this measurement does not collect the garbage of the previous one
	err = measure(db, k)
	k.stop(ctx)
	if dropErr := b.drop(ctx, db); err == nil {
		err = dropErr
	}
	return err
}

func (b *bench) bulkOurs(ctx context.Context, r *bulkRun, db *database, k *broker) error {
	publisher, err := k.publisher()
	if err != nil {
		return err
	}
	defer publisher.Close()
	e, err := b.startEngine(b.tuned, db, publisher)
	if err != nil {
		return err
	}
	defer e.stop()
	before, err := b.walPosition(ctx)
	if err != nil {
		return err
	}
	endProfile, err := b.profiled(ctx, "bulk")
	if err != nil {
		return err
	}
	cpu := b.postgresCPU()
	j, err := e.retryAll(ctx, bulkTopic+".dlq", b.lanes, b.messages)
	if err != nil {
		return err
	}
	r.cpu = append(r.cpu, float64((b.postgresCPU()-cpu).Microseconds())/float64(b.messages))
	if err := endProfile(); err != nil {
		return err
	}
	after, err := b.walPosition(ctx)
	if err != nil {
		return err
	}
	r.ours = append(r.ours, rate(b.messages, j.took))
	r.events = append(r.events, float64(j.events)*1000/float64(b.messages))
	r.wal = append(r.wal, (after-before)/float64(b.messages))
	r.shares = e.timings.shares(b.lanes, j.took)
	b.step("       ours %s, %s", perSecond(r.ours[len(r.ours)-1]), r.shares)
	return nil
}

func (b *bench) bulkLoop(ctx context.Context, r *bulkRun, db *database, k *broker) error {
	publisher, err := k.publisher()
	if err != nil {
		return err
	}
	defer publisher.Close()
	var t timings
	took, err := plainLoop(ctx, timedStore{db.store, &t}, timedPublisher{publisher, &t}, bulkTopic+".dlq", b.lanes, b.messages)
	if err != nil {
		return err
	}
	r.loop = append(r.loop, rate(b.messages, took))
	r.loopShares = t.shares(b.lanes, took)
	b.step("       loop %s, %s", perSecond(r.loop[len(r.loop)-1]), r.loopShares)
	return nil
}

func (b *bench) bulkSingle(ctx context.Context, r *bulkRun, db *database, k *broker) error {
	publisher, err := k.publisher()
	if err != nil {
		return err
	}
	defer publisher.Close()
	e, err := b.startEngine(b.tuned, db, publisher)
	if err != nil {
		return err
	}
	defer e.stop()
	messages, took, err := e.oneByOne(ctx, db, singleTopic+".dlq")
	if err != nil {
		return err
	}
	r.single = append(r.single, rate(messages, took))
	b.step("       one workflow each %s", perSecond(r.single[len(r.single)-1]))
	return nil
}

// sizeOfBulk names the size of the bulk retry, and how many others the table has.
func (b *bench) sizeOfBulk() string {
	if b.beside > 0 {
		return fmt.Sprintf("%s (beside %s others)", count(float64(b.messages)), count(float64(b.beside)))
	}
	return count(float64(b.messages))
}

func (b *bench) reportBulk(r *bulkRun) {
	size := b.sizeOfBulk()
	ours := r.ours.show(perSecond)
	if b.wants(1) {
		b.add(row{number: 1, label: "bulk retry vs a plain loop",
			title: "bulk retry of " + size + " messages; baseline: a plain loop without Temporal over the same store",
			ours:  ours, base: r.loop.show(perSecond), judged: r.ours.over(r.loop), goal: goal{atLeast: 0.95},
			notes: []string{fmt.Sprintf("time of the lanes: %s; of the plain loop: %s", r.shares, r.loopShares)}})
	}
	if b.wants(3) {
		b.add(row{number: 3, label: "bulk retry vs a workflow for each message",
			title: "bulk retry of " + size + " messages; baseline: a workflow for each message, " + count(float64(b.single)) + " at once",
			ours:  ours, base: r.single.show(perSecond), judged: r.ours.over(r.single), goal: goal{atLeast: 50}})
	}
	if b.wants(4) {
		b.add(row{number: 4, label: "history events for 1,000 messages",
			title: "history events for 1,000 messages of the bulk retry", ours: r.events.show(count),
			judged: r.events, goal: goal{atMost: 1}})
	}
	if b.wants(15) {
		b.reportPlainTable(r)
	}
}
