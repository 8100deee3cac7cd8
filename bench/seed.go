package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/dlq/fingerprint"
)

// seedTopic is a topic and its number of messages. Its dead-letter topic has the suffix
// .dlq.
type seedTopic struct {
	name    string
	pending int
	// dead is the number of DEAD messages, which are spread evenly.
	dead int
	bare bool // without payloads and bodies
	// groups is how many groups the messages form; 0 stands for someGroups.
	groups int
}

// someGroups is how many groups a topic has, unless a row measures groups.
const someGroups = 20

func (t seedTopic) dlqTopic() string { return t.name + ".dlq" }

// seedChunk is how many rows one INSERT writes. The server can sort so few rows in memory, so they are
// stored in the order of arrival.
const seedChunk = 50_000

// seed stores the samples like the ingest, and multiplies them inside the server, with
// growing ids like those of UUID version 7.
func (b *bench) seed(ctx context.Context, db *database, topics []seedTopic) error {
	samples := slices.Clone(b.samples)
	for i := range samples { // each sample gets a group of its own, which has its signature
		samples[i].Fingerprint = fingerprint.Fingerprint{Key: [16]byte{byte(i >> 8), byte(i)}, Version: 1}
	}
	samples[rareSample].ErrorClass, samples[rareSample+1].Origin.ConsumerGroup = rareClass, rareConsumer
	if _, err := db.store.Ingest(ctx, samples, nil); err != nil {
		return err
	}
	if err := db.exec(ctx, `
		CREATE UNLOGGED TABLE public.sample AS
		SELECT row_number() OVER (ORDER BY m.seq) - 1 AS n, m.error_message, m.error_class, m.max_retries, m.payload, m.key_hash, m.size,
			b.key, b.key_hash AS key_hash_of_key, b.value, b.headers, b.origin_family, b.stack_trace, b.consumer_group, s.bits
		FROM dlq.dlq_messages m
		JOIN dlq.dlq_message_bodies b ON b.message_id = m.id
		JOIN dlq.dlq_group_signatures s ON s.group_id = m.group_id`,
		"TRUNCATE dlq.dlq_messages, dlq.dlq_message_bodies", "DELETE FROM dlq.dlq_groups",
		`CREATE FUNCTION public.id_of(n BIGINT, first_ms BIGINT) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
			SELECT (lpad(to_hex(first_ms + n / 1000), 12, '0') || '7' || lpad(to_hex(n % 1000), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid
		$$`,
		`CREATE FUNCTION public.group_of(topic TEXT, n BIGINT) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$ SELECT md5(topic || n)::uuid $$`,
	); err != nil {
		return err
	}
	first := time.Now().Add(-24 * time.Hour).UnixMilli()
	var done int64
	for _, topic := range topics {
		b.step("storing %s messages in %s", count(float64(topic.pending+topic.dead)), topic.dlqTopic())
		topic.groups = cmp.Or(topic.groups, someGroups)
		if err := db.exec(ctx, fmt.Sprintf(`
			INSERT INTO dlq.dlq_groups (id, version, scope, rule, class, frame, message, dlq_topic, first_seen)
			SELECT public.group_of('%[1]s', n), 1, '%[1]s', 'frame', 'shop.Failure' || n, 'shop.Orders.step' || n, '', '%[1]s', now() - n * interval '1 s'
			FROM generate_series(0, %[2]d - 1) AS n`, topic.dlqTopic(), topic.groups)); err != nil {
			return err
		}
		for from := 0; from < topic.pending+topic.dead; from += seedChunk {
			to := min(from+seedChunk, topic.pending+topic.dead)
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return db.seedMessages(ctx, topic, done, from, to, first) })
			if !topic.bare {
				group.Go(func() error { return db.seedBodies(ctx, done, from, to, first) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
		}
		// Triggers have deleted the signatures of the groups, because these INSERTs are not the ingest's.
		if err := db.exec(ctx, fmt.Sprintf(`
			INSERT INTO dlq.dlq_group_signatures (group_id, bits)
			SELECT public.group_of('%s', g.n), bit_or(s.bits)
			FROM generate_series(0, %[2]d - 1) AS g (n)
			JOIN public.sample s ON s.n %% %[2]d = g.n %% %d
			GROUP BY g.n`, topic.dlqTopic(), topic.groups, sampleCount)); err != nil {
			return err
		}
		done += int64(topic.pending + topic.dead)
	}
	if err := db.exec(ctx, "DROP FUNCTION public.id_of", "DROP FUNCTION public.group_of", "DROP TABLE public.sample"); err != nil {
		return err
	}
	if err := db.store.FoldCounts(ctx); err != nil { // as the sweeper does
		return err
	}
	return db.exec(ctx, "VACUUM (FREEZE, ANALYZE)", "CHECKPOINT")
}

func (db *database) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := db.pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%w in %s", err, sql)
		}
	}
	return nil
}

// seedMessages inserts a range of a topic's rows. done is the number of rows of earlier
// topics. Each row is a millisecond newer than the previous row.
func (db *database) seedMessages(ctx context.Context, t seedTopic, done int64, from, to int, firstMS int64) error {
	deadEvery := 0
	if t.dead > 0 {
		deadEvery = (t.pending + t.dead) / t.dead
	}
	_, err := db.pool.Exec(ctx, `
		INSERT INTO dlq.dlq_messages (id, original_topic, dlq_topic, error_message, error_class, retry_count, max_retries, payload,
			status, key_hash, size, group_id, created_at, updated_at)
		SELECT public.id_of($1::bigint + i, $4::bigint), $5, $6::text, s.error_message, s.error_class, 0, s.max_retries,
			CASE WHEN NOT $10::bool THEN s.payload END,
			CASE WHEN $7::bigint > 0 AND i % greatest($7::bigint, 1) = 0 AND i / greatest($7::bigint, 1) < $8::bigint
				THEN 'DEAD' ELSE 'PENDING' END, s.key_hash, CASE WHEN NOT $10::bool THEN s.size ELSE 0 END, public.group_of($6::text, i % $11::bigint), at, at
		FROM generate_series($2::bigint, $3::bigint - 1) AS i
		JOIN public.sample s ON s.n = i % $9::bigint
		CROSS JOIN LATERAL (SELECT to_timestamp($4::bigint / 1000.0) + ($1::bigint + i) * interval '1 ms' AS at) AS t
		ORDER BY i`,
		done, from, to, firstMS, t.name, t.dlqTopic(), deadEvery, t.dead, sampleCount, t.bare, t.groups)
	return err
}

// seedBodies inserts the bodies of the same messages. Most copies of the rare sample have
// no key.
func (db *database) seedBodies(ctx context.Context, done int64, from, to int, firstMS int64) error {
	_, err := db.pool.Exec(ctx, `
		INSERT INTO dlq.dlq_message_bodies (message_id, topic_id, partition, record_offset, key, key_hash, value, headers,
			record_timestamp, origin_family, stack_trace, origin_partition, origin_offset, consumer_group, trace_id, correlation_id)
		SELECT public.id_of($1::bigint + i, $4::bigint), '00000000-0000-4000-8000-000000000001',
			($1::bigint + i) % $6::bigint, ($1::bigint + i) / $6::bigint,
			CASE WHEN kept THEN s.key END, CASE WHEN kept THEN s.key_hash_of_key END, s.value, s.headers,
			to_timestamp($4::bigint / 1000.0) + ($1::bigint + i) * interval '1 ms', s.origin_family, s.stack_trace,
			($1::bigint + i) % $6::bigint, ($1::bigint + i) / $6::bigint, s.consumer_group,
			lpad(to_hex($1::bigint + i), 32, '0'), 'order-' || ($1::bigint + i) / 3
		FROM generate_series($2::bigint, $3::bigint - 1) AS i
		JOIN public.sample s ON s.n = i % $5::bigint
		CROSS JOIN LATERAL (SELECT s.n <> $7::bigint OR i / $5::bigint % $8::bigint = 0 AS kept) AS k
		ORDER BY i`,
		done, from, to, firstMS, sampleCount, partitions, rareSample, rareEvery)
	return err
}
