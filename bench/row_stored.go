package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// storedTopic holds the many messages of the large table.
	storedTopic = "warehouse"
	// largeTemplate is the large table's database.
	largeTemplate = "large"
)

// partTopic is the topic of one short job in the large table. Each run needs another
// one, since a delivered message cannot be retried again.
func partTopic(run int) string { return fmt.Sprintf("part-%d", run) }

// largeTable returns the large table, and creates it if necessary. A twentieth of it is
// DEAD, for the lists.
func (b *bench) largeTable(ctx context.Context) (*database, error) {
	if b.large != nil {
		return b.large, nil
	}
	var err error
	b.large, err = b.create(ctx, largeTemplate, b.topicsWith(b.stored)...)
	return b.large, err
}

// topicsWith are the topics of the large table, with the given number of messages in
// the largest.
func (b *bench) topicsWith(stored int) []seedTopic {
	topics := []seedTopic{{name: storedTopic, pending: stored, dead: stored / 20, bare: b.bare, groups: manyGroups}}
	for run := range b.runs + 1 {
		topics = append(topics, seedTopic{name: partTopic(run), pending: b.few})
	}
	return topics
}

// closeLargeTable makes the large table a template, which can only be copied.
func (b *bench) closeLargeTable(ctx context.Context) error {
	large, err := b.largeTable(ctx)
	if err != nil {
		return err
	}
	large.pool.Close() // a database with connections cannot be copied
	b.templates[largeTemplate] = true
	return nil
}

// smallTable is a template with the same short job and nothing else.
func (b *bench) smallTable(ctx context.Context) error {
	return b.template(ctx, "small", seedTopic{name: partTopic(0), pending: b.few})
}

// measureStored measures the same short job in a large and in a small table.
func (b *bench) measureStored(ctx context.Context) error {
	if err := b.smallTable(ctx); err != nil {
		return err
	}
	large, err := b.largeTable(ctx)
	if err != nil {
		return err
	}
	var many, few spread
	for run := -1; run < b.runs; run++ { // the first run warms up and does not count
		inMany, err := b.jobIn(ctx, large, partTopic(run+1))
		if err != nil {
			return err
		}
		small, err := b.copyOf(ctx, "small")
		if err != nil {
			return err
		}
		inFew, err := b.jobIn(ctx, small, partTopic(0))
		if err != nil {
			return err
		}
		if err := b.drop(ctx, small); err != nil {
			return err
		}
		b.step("bulk retry in a large table %s, in a small one %s", perSecond(inMany), perSecond(inFew))
		if run >= 0 {
			many, few = append(many, inMany), append(few, inFew)
		}
	}
	b.add(row{number: 5, label: "bulk retry in a large table vs a small one",
		title: fmt.Sprintf("bulk retry of %s messages with %s others in the table; baseline: with no others",
			count(float64(b.few)), count(float64(b.stored))),
		ours: many.show(perSecond), base: few.show(perSecond), judged: many.over(few), goal: goal{atLeast: 0.9},
		notes: []string{"these jobs take about a second, so their start is a larger share than in row 1"}})
	return nil
}

// jobIn retries a topic of a database and returns the messages per second.
func (b *bench) jobIn(ctx context.Context, db *database, topic string) (float64, error) {
	k, err := startBroker(ctx, topic)
	if err != nil {
		return 0, err
	}
	defer k.stop(ctx)
	publisher, err := k.publisher()
	if err != nil {
		return 0, err
	}
	defer publisher.Close()
	e, err := b.startEngine(b.tuned, db, publisher)
	if err != nil {
		return 0, err
	}
	defer e.stop()
	if err := warmUp(ctx, db); err != nil {
		return 0, err
	}
	j, err := e.retryAll(ctx, topic+".dlq", b.lanes, b.few)
	return rate(b.few, j.took), err
}

// warmUp opens the pool's connections, so that no measurement includes that.
func warmUp(ctx context.Context, db *database) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range connections {
		connection, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer connection.Release()
	}
	return nil
}
