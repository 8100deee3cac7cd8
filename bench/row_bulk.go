package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"dlqmanager/activities"
)

// bulkTopic is for bulk retries. singleTopic is for retries with a workflow for each message. The template
// "bulk" has messages of both topics.
const (
	bulkTopic   = "orders"
	singleTopic = "payments"
)

// bulkRun has the results of rows 1, 3, 4 and 15.
type bulkRun struct {
	ours, loop, plainTable bulkResult
	single, events         spread
}

// bulkResult has the results of a side in each run. wal and cpu are per message.
type bulkResult struct {
	rate, wal, cpu spread
	shares         string
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
	if b.runs > 1 { // the very first run has cold caches
		b.step("bulk retry, a run that does not count")
		if err := b.sendInTurns(ctx, b.bulkSides(&bulkRun{})); err != nil {
			return err
		}
	}
	var r bulkRun
	sides := b.bulkSides(&r)
	for run := range b.runs {
		b.step("bulk retry, run %d of %d", run+1, b.runs)
		if err := b.sendInTurns(ctx, sides); err != nil {
			return err
		}
		slices.Reverse(sides) // so that no side comes first in every run
		if !b.wants(3) {
			continue
		}
		if err := b.onCopy(ctx, "bulk", func(db *database, k *broker) error { return b.bulkSingle(ctx, &r, db, k) }); err != nil {
			return err
		}
	}
	b.reportBulk(&r)
	return nil
}

// bulkSide is a side of the comparison. It sends all messages of a copy of its template.
type bulkSide struct {
	name, template string
	open           func(*database, activities.Publisher, *timings) (sender, error)
	result         *bulkResult
}

// sender sends all messages of a database.
type sender struct {
	send, check func(context.Context) error // the time of check is not measured
	close       func()
}

// bulkSides are the sides of the wanted rows.
func (b *bench) bulkSides(r *bulkRun) []bulkSide {
	ours := func(db *database, publisher activities.Publisher, t *timings) (sender, error) {
		return b.openOurs(&r.events, db, publisher, t)
	}
	sides := []bulkSide{{"ours", "bulk", ours, &r.ours}}
	if b.wants(1) {
		sides = append(sides, bulkSide{"loop", "bulk", b.openLoop, &r.loop})
	}
	if b.wants(15) {
		sides = append(sides, bulkSide{"loop over the plain table", "plain", b.openPlainTable, &r.plainTable})
	}
	return sides
}

func (b *bench) areInTurns() bool { return b.profile == "" && b.beside == 0 }

func (b *bench) howSidesSend() string {
	if !b.areInTurns() {
		return "the sides send one after another"
	}
	return fmt.Sprintf("the sides send in turns of %s, since the machine's speed changes from second to second; "+
		"the server's background work, such as autovacuum, counts for the side that has the turn", turnLength)
}

// sendInTurns lets the sides send their messages in turns. With -profile or -beside they send one after another: a
// profile must show one side only, and several copies of a very large table do not fit on the disk.
func (b *bench) sendInTurns(ctx context.Context, sides []bulkSide) error {
	if b.areInTurns() {
		return b.sendWith(ctx, nil, sides)
	}
	for i := range sides {
		if err := b.sendWith(ctx, nil, sides[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// sendWith opens the sides of rest, each with a copy of its template. Then these sides and the open sides send their
// messages in turns.
func (b *bench) sendWith(ctx context.Context, open []*side, rest []bulkSide) error {
	if len(rest) == 0 {
		return b.takeTurns(ctx, open)
	}
	return b.onCopy(ctx, rest[0].template, func(db *database, k *broker) error {
		publisher, err := k.publisher()
		if err != nil {
			return err
		}
		defer publisher.Close()
		t := &timings{}
		sender, err := rest[0].open(db, publisher, t)
		if err != nil {
			return err
		}
		defer sender.close()
		s := &side{send: sender.send, timings: t, lanes: b.lanes}
		if err := b.sendWith(ctx, append(open, s), rest[1:]); err != nil {
			return err
		}
		result := rest[0].result
		result.rate = append(result.rate, rate(b.messages, s.took))
		result.wal = append(result.wal, s.wal/float64(b.messages))
		result.cpu = append(result.cpu, float64(s.cpu.Microseconds())/float64(b.messages))
		result.shares = t.shares(b.lanes, s.took)
		b.step("       %s %s, %s", rest[0].name, perSecond(rate(b.messages, s.took)), result.shares)
		return sender.check(ctx)
	})
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

func (b *bench) openOurs(events *spread, db *database, publisher activities.Publisher, t *timings) (sender, error) {
	e, err := b.startTimedEngine(b.tuned, db, publisher, t)
	if err != nil {
		return sender{}, err
	}
	var j job
	return sender{
		send: func(ctx context.Context) error {
			endProfile, err := b.profiled(ctx, "bulk")
			if err != nil {
				return err
			}
			if j, err = e.sendAll(ctx, bulkTopic+".dlq", b.lanes); err != nil {
				return err
			}
			return endProfile()
		},
		check: func(ctx context.Context) error {
			err := e.complete(ctx, &j, b.messages)
			*events = append(*events, float64(j.events)*1000/float64(b.messages))
			return err
		},
		close: e.stop,
	}, nil
}

func (b *bench) openLoop(db *database, publisher activities.Publisher, t *timings) (sender, error) {
	return sender{
		send: func(ctx context.Context) error {
			return plainLoop(ctx, timedStore{db.store, t}, timedPublisher{publisher, t}, bulkTopic+".dlq", b.lanes, b.messages)
		},
		check: func(context.Context) error { return nil }, // plainLoop has checked the count
		close: func() {},
	}, nil
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

// sizeOfBulk names the size of the bulk retry, and the number of other messages in the table.
func (b *bench) sizeOfBulk() string {
	if b.beside > 0 {
		return fmt.Sprintf("%s (beside %s others)", count(float64(b.messages)), count(float64(b.beside)))
	}
	return count(float64(b.messages))
}

func (b *bench) reportBulk(r *bulkRun) {
	size := b.sizeOfBulk()
	ours := r.ours.rate.show(perSecond)
	if b.wants(1) {
		b.add(row{number: 1, label: "bulk retry vs a plain loop",
			title: "bulk retry of " + size + " messages; baseline: a plain loop without Temporal over the same store",
			ours:  ours, base: r.loop.rate.show(perSecond), judged: r.ours.rate.over(r.loop.rate), goal: goal{atLeast: 0.97},
			notes: []string{fmt.Sprintf("time of the lanes: %s; of the plain loop: %s", r.ours.shares, r.loop.shares), b.howSidesSend()}})
	}
	if b.wants(3) {
		b.add(row{number: 3, label: "bulk retry vs a workflow for each message",
			title: "bulk retry of " + size + " messages; baseline: a workflow for each message, " + count(float64(b.single)) + " at once",
			ours:  ours, base: r.single.show(perSecond), judged: r.ours.rate.over(r.single), goal: goal{atLeast: 50}})
	}
	if b.wants(4) {
		b.add(row{number: 4, label: "history events for 1,000 messages",
			title: "history events for 1,000 messages of the bulk retry", ours: r.events.show(count),
			judged: r.events, goal: goal{atMost: 1}})
	}
	if b.wants(15) {
		b.reportPlainTable(&r.ours, &r.plainTable)
	}
}
