package main

import (
	"context"
	"time"
)

const (
	// storedTopic holds the many messages of the large table.
	storedTopic = "warehouse"
	// fewTopic is a small topic in the same table.
	fewTopic = "part"
	// largeTemplate is the database of the large table.
	largeTemplate = "large"
)

// largeTable returns the large table, and creates it if necessary. For the lists, it also
// has a twentieth as many DEAD messages.
func (b *bench) largeTable(ctx context.Context) (*database, error) {
	if b.large != nil {
		return b.large, nil
	}
	var err error
	b.large, err = b.create(ctx, largeTemplate, b.withOthers(b.topicsWith(b.stored)...)...)
	return b.large, err
}

// topicsWith are the topics of the large table, with the given number of PENDING messages
// in the largest topic.
func (b *bench) topicsWith(stored int) []seedTopic {
	return []seedTopic{
		{name: storedTopic, pending: stored, dead: stored / 20, bare: b.bare, groups: manyGroups},
		{name: fewTopic, pending: b.few},
	}
}

// withOthers adds the messages that the flag -beside asks for.
func (b *bench) withOthers(topics ...seedTopic) []seedTopic {
	if b.beside == 0 {
		return topics
	}
	return append(topics, seedTopic{name: "others", pending: b.beside, bare: true, groups: manyGroups})
}

// closeLargeTable makes the large table a template. From then on it can only be copied.
func (b *bench) closeLargeTable(ctx context.Context) error {
	large, err := b.largeTable(ctx)
	if err != nil {
		return err
	}
	large.pool.Close() // a database with connections cannot be copied
	b.templates[largeTemplate] = true
	return nil
}

// warmUp opens the pool's connections, so that no measurement includes the time for it.
func warmUp(ctx context.Context, db *database) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range maxConnections {
		connection, err := db.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer connection.Release()
	}
	return nil
}
