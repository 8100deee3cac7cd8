package migrations_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/migrations"
)

func TestAnUpgradeEndsBulkRetriesAndReleasesTheirClaims(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"up", "down"} {
		pool := empty(t)
		apply(t, pool, "up", append(slices.Clone(documented), next)...)
		if way == "down" {
			apply(t, pool, "up", queues)
		}
		exec(t, pool, `INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, lanes, bound, frozen_at)
			VALUES ('00000000-0000-0000-0000-000000000001', 'w', 'orders', 1, 1, now())`)
		exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, retry_count, owner_token) VALUES
			('orders', 'claimed', 'RETRYING', 2, '00000000-0000-0000-0000-000000000001'),
			('orders', 'of a single retry', 'RETRYING', 2, 'run'), ('orders', 'sent', 'RESOLVED', 2, '00000000-0000-0000-0000-000000000001')`)
		apply(t, pool, way, queues)
		require.Equal(t, []string{"claimed PENDING 1", "of a single retry RETRYING 2", "sent RESOLVED 2"},
			texts(t, pool, `SELECT error_message || ' ' || status || ' ' || retry_count FROM dlq.dlq_messages ORDER BY seq`), way)
		require.Len(t, texts(t, pool, `SELECT reason FROM dlq.dlq_bulk_retries WHERE state = 'FAILED' AND ended_at IS NOT NULL`), 1, way)
	}
}

func TestABulkRetryUnderWayKeepsItsLanesWhenTopicsGetBuckets(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	apply(t, pool, "up", append(slices.Clone(documented), next, queues, between, offsets, counts, narrow)...)
	exec(t, pool, `INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, lanes, bound, frozen_at)
		VALUES ('00000000-0000-0000-0000-000000000001', 'w', 'before', 1, 1, now())`)
	exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, retry_count, owner_token)
		SELECT 'orders', 'boom', 'RETRYING', 2, '00000000-0000-0000-0000-00000000000' || n FROM generate_series(1, 2) AS n`)
	const jobs = `SELECT topic || ' ' || modulo_lanes || ' ' || state FROM dlq.dlq_bulk_retries ORDER BY id`
	for range 2 {
		apply(t, pool, "up", buckets)
		require.Equal(t, []string{"before true RUNNING"}, texts(t, pool, jobs))
	}

	exec(t, pool, `INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, lanes, upper_bound, snapshot_at)
		VALUES ('00000000-0000-0000-0000-000000000002', 'w', 'after', 1, 1, now())`)
	require.Equal(t, []string{"before true RUNNING", "after false RUNNING"}, texts(t, pool, jobs))
	apply(t, pool, "down", buckets)
	require.Equal(t, []string{"before RUNNING", "after FAILED"}, texts(t, pool, `SELECT topic || ' ' || state FROM dlq.dlq_bulk_retries ORDER BY id`))
	require.Equal(t, []string{"RETRYING", "PENDING"}, texts(t, pool, `SELECT status FROM dlq.dlq_messages ORDER BY seq`))
}

func TestADowngradeEndsBulkRetriesWithCountsThatAddUp(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	require.NoError(t, migrations.Up(t.Context(), pool))
	exec(t, pool, `INSERT INTO dlq.dlq_bulk_retries (id, workflow_id, topic, lanes, upper_bound, snapshot_at, matched, counted)
		VALUES ('00000000-0000-0000-0000-000000000001', 'w', 'orders', 2, 10, now(), 10, true)`)
	exec(t, pool, `INSERT INTO dlq.dlq_bulk_retry_lanes (bulk_id, lane, pages, retried, waiting)
		SELECT id, lane, pages, 3 * pages, 2 FROM dlq.dlq_bulk_retries, (VALUES (0, 1), (1, 0), (0, 0)) AS l (lane, pages)`) // one by hand
	apply(t, pool, "down", apart, buckets)
	require.Equal(t, []string{"FAILED 10 7"}, texts(t, pool, `SELECT state || ' ' || matched || ' ' || skipped FROM dlq.dlq_bulk_retries`))
	require.Equal(t, []string{"0 3 0", "1 0 0"}, texts(t, pool, `SELECT lane || ' ' || retried || ' ' || waiting FROM dlq.dlq_bulk_retry_lanes ORDER BY lane`))
}

// The changelog names them, so that the upgrade locks the table for a shorter time.
func TestIndexesThatWereBuiltBeforeTheUpgradeAreThoseOfTheMigration(t *testing.T) {
	t.Parallel()
	var upgraded [][]string
	for _, before := range []string{``, `
		CREATE INDEX CONCURRENTLY idx_dlq_messages_original_topic_listed
			ON dlq.dlq_messages (original_topic, status, created_at, seq) WHERE status <> 'RETRYING'`, `
		CREATE INDEX CONCURRENTLY idx_dlq_messages_dlq_topic_listed
			ON dlq.dlq_messages (dlq_topic, status, created_at, seq) WHERE status <> 'RETRYING'`,
	} {
		pool := empty(t)
		apply(t, pool, "up", append(slices.Clone(documented), next, queues, between, offsets, counts, narrow, buckets, origins, exhausted, actions, audit, runs)...)
		exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
		exec(t, pool, before)
		apply(t, pool, "up", apart)
		upgraded = append(upgraded, schema(t, pool))
	}
	require.Equal(t, upgraded[0], upgraded[1])
	require.Equal(t, upgraded[0], upgraded[2])
}

// pg_dump locks its tables one after the other, and so do the statements of workers.
func TestAnUpgradeDoesNotDeadlockWithATransactionThatLocksTables(t *testing.T) {
	t.Parallel()
	for name, tables := range map[string][2]string{
		"messages first": {"dlq.dlq_messages", "dlq.dlq_bulk_retries"},
		"lanes first":    {"dlq.dlq_bulk_retry_lanes", "dlq.dlq_bulk_retries"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := empty(t)
			require.NoError(t, migrations.Up(t.Context(), pool))
			apply(t, pool, "down", search, apart, actions, origins, buckets)
			exec(t, pool, `UPDATE public.schema_migrations SET version = 15`)
			dump, err := pool.Begin(t.Context())
			require.NoError(t, err)
			_, err = dump.Exec(t.Context(), `LOCK TABLE `+tables[0]+` IN ACCESS SHARE MODE`)
			require.NoError(t, err)
			migrated := make(chan error, 1)
			go func() { migrated <- migrations.Up(context.WithoutCancel(t.Context()), pool) }()
			require.Eventually(t, func() bool {
				return len(texts(t, pool, `SELECT pid::text FROM pg_locks WHERE NOT granted AND relation = '`+tables[0]+`'::regclass`)) > 0
			}, 10*time.Second, 10*time.Millisecond)

			_, err = dump.Exec(t.Context(), `LOCK TABLE `+tables[1]+` IN ACCESS SHARE MODE`)
			require.NoError(t, err)
			require.NoError(t, dump.Rollback(t.Context()))
			require.NoError(t, <-migrated)
		})
	}
}

func TestAnUpgradeGivesHandWrittenRowsDifferentKeyHashes(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	apply(t, pool, "up", append(slices.Clone(documented), next, queues)...)
	for range 2 {
		exec(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'orders', 'by hand' FROM generate_series(1, 20)`)
		if version := texts(t, pool, `SELECT count(DISTINCT key_hash)::text FROM dlq.dlq_messages`); version[0] == "1" {
			apply(t, pool, "up", between)
		}
	}
	require.NotEqual(t, []string{"1"}, texts(t, pool, `SELECT count(DISTINCT key_hash)::text FROM dlq.dlq_messages WHERE seq <= 20`))
	require.NotEqual(t, []string{"1"}, texts(t, pool, `SELECT count(DISTINCT key_hash)::text FROM dlq.dlq_messages WHERE seq > 20`))
}

func TestAnUpgradeReadsOnFromWhatIsStored(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	apply(t, pool, "up", append(slices.Clone(documented), next, queues, between)...)
	exec(t, pool, `INSERT INTO dlq.dlq_message_bodies (message_id, topic_id, partition, record_offset, headers)
		SELECT gen_random_uuid(), '00000000-0000-0000-0000-000000000001', n % 2, n, '' FROM generate_series(0, 9) AS n`)
	exec(t, pool, `INSERT INTO dlq.dlq_message_bodies (message_id, headers) VALUES (gen_random_uuid(), '')`)
	apply(t, pool, "up", offsets)
	require.Equal(t, []string{"0 9", "1 10"}, texts(t, pool, `SELECT partition || ' ' || next_offset FROM dlq.dlq_ingest_offsets ORDER BY partition`))
}
