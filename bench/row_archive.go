package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

const (
	archiveTopic = "ended"
	// archiveBatch is the default of archive.batch_size.
	archiveBatch = 1000
	// archiveProbes limits the timed calls of each kind.
	archiveProbes = 4000
	// archivePeriod is the length of each run of the archive, and of each rest after a run.
	archivePeriod = 2 * time.Second
)

// measureArchive archives and purges a table of DEAD messages. Single retries and the ingest are timed before the
// archive runs and while it runs. The second part compares the first batches with the last.
func (b *bench) measureArchive(ctx context.Context) (err error) {
	db, err := b.create(ctx, "archive", seedTopic{name: archiveTopic, dead: b.stored, bare: b.bare},
		seedTopic{name: singleTopic, pending: min(archiveProbes, max(1, b.stored/100))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.drop(ctx, db)) }()
	k, err := startBroker(ctx, singleTopic)
	if err != nil {
		return err
	}
	defer k.stop(ctx)
	publisher, err := k.publisher()
	if err != nil {
		return err
	}
	defer publisher.Close()
	var ids [][16]byte
	if err := db.pool.QueryRow(ctx, "SELECT array_agg(id) FROM dlq.dlq_messages WHERE status = 'PENDING'").Scan(&ids); err != nil {
		return err
	}
	if err := warmUp(ctx, db); err != nil {
		return err
	}

	b.step("ingest and single retries, by turns alone and beside the archive of %s messages", count(float64(b.stored)))
	probes := &archiveProbe{db: db, publisher: publisher, ids: ids, samples: b.samples, archiving: &b.archiving}
	ended := make(chan struct{})
	var alone, beside [2]spread
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.archiveGently(groupCtx, db, ended) })
	group.Go(func() (err error) {
		defer close(ended)
		alone, beside, err = probes.run(groupCtx)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	p99 := func(s spread) string { return fmt.Sprintf("p99 %s (%d calls)", milliseconds(s.quantile(0.99)), len(s)) }
	for i, name := range []string{"ingest of 100 messages", "single retry (the three steps)"} {
		b.add(row{number: 24, label: name + " beside the archive",
			title: fmt.Sprintf("%s while %s messages are archived; baseline: alone", name, count(float64(b.stored))),
			ours:  p99(beside[i]), base: p99(alone[i]), judged: spread{beside[i].quantile(0.99) / alone[i].quantile(0.99)}, goal: goal{atMost: 1.5}})
	}
	b.step("archiving the others without rests")
	archived, err := b.drainArchive(ctx, db.store.ArchiveBatch)
	if err != nil {
		return err
	}
	sizes, err := archiveSizes(ctx, db)
	if err != nil {
		return err
	}
	b.addDrained("archive", &archived, sizes)
	b.step("purging %s messages", count(float64(archived.messages)))
	purged, err := b.drainArchive(ctx, db.store.PurgeBatch)
	if err != nil {
		return err
	}
	if sizes, err = archiveSizes(ctx, db); err != nil {
		return err
	}
	b.addDrained("purge", &purged, sizes)
	return nil
}

// archiveProbe times ingests and single retries, which the archive must not slow down.
type archiveProbe struct {
	db        *database
	publisher activities.Publisher
	ids       [][16]byte
	samples   []dlq.Arrival
	offset    int64
	archiving *atomic.Bool
}

// run alternates ingests and single retries, and lets the archive run in every second period. It returns the times
// of the calls in milliseconds.
func (p *archiveProbe) run(ctx context.Context) (alone, beside [2]spread, err error) {
	started := time.Now()
	for {
		isBeside := time.Since(started)/archivePeriod%2 == 1
		p.archiving.Store(isBeside)
		if len(p.ids) == 0 {
			return alone, beside, nil
		}
		times := &alone
		if isBeside {
			times = &beside
		}
		arrivals := make([]dlq.Arrival, 100)
		for i := range arrivals {
			p.offset++
			arrivals[i] = p.samples[i]
			arrivals[i].ID, arrivals[i].Source = dlq.NewID(), dlq.Source{TopicID: [16]byte{24}, Offset: p.offset}
		}
		ingest, err := timed(ctx, 10*time.Millisecond, func() error { _, err := p.db.store.Ingest(ctx, arrivals, nil); return err })
		if err != nil {
			return alone, beside, err
		}
		id := dlq.ID(p.ids[0])
		p.ids = p.ids[1:]
		single, err := timed(ctx, 0, func() error { return retryDirectly(ctx, p.db, p.publisher, id) })
		if err != nil {
			return alone, beside, err
		}
		times[0], times[1] = append(times[0], ingest), append(times[1], single)
	}
}

// drained is the result of drainArchive. batches are the times of full batches in milliseconds, wal is in bytes.
type drained struct {
	messages int64
	batches  spread
	took     time.Duration
	wal      float64
}

// archiveGently archives at the pace of the archive until ended is closed. It archives about half of the messages at most.
func (b *bench) archiveGently(ctx context.Context, db *database, ended <-chan struct{}) error {
	pace := activities.NewArchivePace(archiveBatch)
	var archived int64
	for {
		select {
		case <-ended:
			return nil
		default:
		}
		rest := time.Millisecond
		if b.archiving.Load() && archived < int64(b.stored/2) {
			var moved int64
			took, err := timed(ctx, 0, func() (err error) {
				moved, err = db.store.ArchiveBatch(ctx, dlq.ArchiveRun{}, time.Hour, pace.Limit)
				return err
			})
			if err != nil {
				return err
			}
			archived += moved
			rest = pace.After(time.Duration(took * float64(time.Millisecond)))
		}
		if err := pause(ctx, rest); err != nil {
			return err
		}
	}
}

// drainArchive runs batches without rests, until no message is left that ended an hour ago or earlier.
func (b *bench) drainArchive(ctx context.Context, batch func(context.Context, dlq.ArchiveRun, time.Duration, int) (int64, error)) (d drained, err error) {
	before, err := b.walPosition(ctx)
	if err != nil {
		return d, err
	}
	started := time.Now()
	for {
		var moved int64
		took, err := timed(ctx, 0, func() (err error) { moved, err = batch(ctx, dlq.ArchiveRun{}, time.Hour, archiveBatch); return err })
		if err != nil {
			return d, err
		}
		d.messages += moved
		if moved < archiveBatch {
			break
		}
		d.batches = append(d.batches, took)
	}
	d.took = time.Since(started)
	after, err := b.walPosition(ctx)
	d.wal = after - before
	return d, err
}

func (b *bench) addDrained(name string, d *drained, sizes string) {
	if len(d.batches) == 0 {
		return
	}
	tenth := max(1, len(d.batches)/10)
	first, last := d.batches[:tenth], d.batches[len(d.batches)-tenth:]
	b.add(row{number: 24, label: name + ": the last batches vs the first",
		title: fmt.Sprintf("%s of %s messages in batches of 1,000: the last tenth of the batches; baseline: the first tenth",
			name, count(float64(d.messages))),
		ours: milliseconds(last.median()), base: milliseconds(first.median()), judged: spread{last.median() / first.median()}, goal: goal{atMost: 1.5},
		notes: []string{fmt.Sprintf("%s: %s messages/s, longest batch %s; WAL of the server meanwhile %s; sizes after it: %s",
			name, count(rate(int(d.messages), d.took)), milliseconds(d.batches.quantile(1)), megabytes(d.wal), sizes)}})
}

// archiveSizes describes both tables, each with and without its indexes.
func archiveSizes(ctx context.Context, db *database) (text string, err error) {
	err = db.pool.QueryRow(ctx, `
		SELECT string_agg(format('%s %s MB, its indexes %s MB', t, pg_table_size(('dlq.' || t)::regclass) / 1000000,
			pg_indexes_size(('dlq.' || t)::regclass) / 1000000), '; ' ORDER BY t)
		FROM unnest(ARRAY['dlq_messages', 'dlq_messages_archive', 'dlq_message_bodies']) AS t`).Scan(&text)
	return text, err
}
