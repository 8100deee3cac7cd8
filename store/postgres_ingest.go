package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// storeSQL stores a batch in one statement. The bodies' unique source decides
// what is new: only what gets a body gets a row. Bodies go in by source, so that
// two programs that take the same records lock them in the same order; rows go
// in by the order of the batch, which is therefore the order of seq.
const storeSQL = storeBodiesSQL + storeMessagesSQL

const storeBodiesSQL = `
WITH arrival AS (
	SELECT *
	FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::int[], $8::text[], $9::text[],
		$10::int[], $11::uuid[], $12::uuid[], $13::int[], $14::bigint[], $15::bytea[], $16::bytea[], $17::bytea[],
		$18::timestamptz[], $19::int[], $20::bigint[], $21::text[], $22::text[])
	WITH ORDINALITY AS a (id, dlq_topic, original_topic, error_message, error_class, retry_count, max_retries, payload, status,
		key_hash, previous_id, topic_id, partition, record_offset, key, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace, place)
), body AS (
	INSERT INTO dlq.dlq_message_bodies (message_id, topic_id, partition, record_offset, key, key_hash, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace)
	SELECT id, topic_id, partition, record_offset, key, CASE WHEN key IS NOT NULL THEN key_hash END, value, headers,
		record_timestamp, origin_partition, origin_offset, origin_family, stack_trace
	FROM arrival
	ORDER BY topic_id, partition, record_offset, place
	ON CONFLICT (topic_id, partition, record_offset) DO NOTHING
	RETURNING message_id
)`

const storeMessagesSQL = `
INSERT INTO dlq.dlq_messages (id, dlq_topic, original_topic, error_message, error_class, retry_count, max_retries, payload,
	status, key_hash, previous_id)
SELECT a.id, a.dlq_topic, a.original_topic, a.error_message, a.error_class, a.retry_count, a.max_retries, a.payload::jsonb,
	a.status, a.key_hash, a.previous_id
FROM arrival a
JOIN body b ON b.message_id = a.id
ORDER BY a.place`

// storeReturnsSQL also counts what came back for the bulk retry that sent it
// last: the one whose id is the owner's run id, if it is a bulk retry's at all.
// It locks the jobs once every body is in, and in one order, so that two
// programs that do so never wait for each other.
const storeReturnsSQL = storeBodiesSQL + `, came AS (
	SELECT CASE WHEN p.run_id ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN p.run_id::uuid END AS bulk_id,
		count(*) AS n
	FROM arrival a
	JOIN body b ON b.message_id = a.id
	CROSS JOIN LATERAL (
		SELECT m.run_id FROM dlq.dlq_messages m WHERE m.id = a.previous_id
		UNION ALL
		SELECT m.run_id FROM dlq.dlq_messages_archive m WHERE m.id = a.previous_id
		LIMIT 1
	) AS p
	GROUP BY 1
), job AS MATERIALIZED (
	SELECT j.id, came.n
	FROM came
	JOIN dlq.dlq_bulk_retries j ON j.id = came.bulk_id
	ORDER BY j.id
	FOR UPDATE OF j
), counted AS (
	UPDATE dlq.dlq_bulk_retries j SET came_back = j.came_back + job.n FROM job WHERE j.id = job.id
)` + storeMessagesSQL

// maxStatement bounds the bytes of records in one statement. PostgreSQL takes at
// most 1 GiB in one parameter, and both sides hold it several times over.
const maxStatement = 32 << 20

// StoreArrivals stores dead letters and returns how many were new. One whose
// Source is known is skipped, also when its message has been archived. The order
// of the slice becomes the order of Seq. It is one round trip, or one for each
// 32 MiB of records. What comes back is counted for the bulk retry that sent it, in
// the same transaction. After an error a part may be stored; giving the same slice
// again stores the rest.
func (p *Postgres) StoreArrivals(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	for len(arrivals) > 0 {
		n, size := 0, 0
		for n < len(arrivals) && (n == 0 || size < maxStatement) {
			size += sizeOf(&arrivals[n])
			n++
		}
		if n > 1 && size >= maxStatement {
			n-- // the last one was too much
		}
		count, err := p.storeBatch(ctx, arrivals[:n])
		stored += count
		if err != nil {
			return stored, failed("store arrivals", err)
		}
		arrivals = arrivals[n:]
	}
	return stored, nil
}

func sizeOf(a *dlq.Arrival) int {
	size := len(a.Record.Key) + len(a.Record.Value) + len(a.Payload) + len(a.StackTrace)
	for _, h := range a.Record.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

// storeBatch stores the batch at once. When the server refuses the data of some
// row, which it does not name, it stores them one by one, and the refused ones
// without their searchable view. Their bytes cannot be refused.
func (p *Postgres) storeBatch(ctx context.Context, arrivals []dlq.Arrival) (stored int, err error) {
	count, err := p.storeOnce(ctx, arrivals)
	if !isRowsOwnFault(err) {
		return count, err
	}
	for _, a := range arrivals {
		count, err := p.storeOnce(ctx, []dlq.Arrival{a})
		if isRowsOwnFault(err) && a.Payload != nil {
			a.Payload = nil
			count, err = p.storeOnce(ctx, []dlq.Arrival{a})
		}
		stored += count
		if err != nil {
			return stored, fmt.Errorf("record at partition %d, offset %d of %s: %w", a.Source.Partition, a.Source.Offset, a.DLQTopic, err)
		}
	}
	return stored, nil
}

func (p *Postgres) storeOnce(ctx context.Context, arrivals []dlq.Arrival) (int, error) {
	c := newColumns(len(arrivals))
	for _, a := range arrivals {
		c.add(normalized(a))
	}
	sql := storeSQL
	if slices.ContainsFunc(arrivals, func(a dlq.Arrival) bool { return !a.PreviousID.IsZero() }) {
		sql = storeReturnsSQL
	}
	var stored int
	err := again(func() error {
		batch := &pgx.Batch{} // which is one transaction
		batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, int64(ingestLock))
		batch.Queue(sql, c.ids, c.dlqTopics, c.originalTopics, c.errorMessages, c.errorClasses,
			c.retryCounts, c.maxRetries, c.payloads, c.statuses, c.keyHashes, c.previousIDs, c.topicIDs, c.partitions, c.offsets,
			c.keys, c.values, c.headers, c.timestamps, c.originPartitions, c.originOffsets, c.families, c.stackTraces).
			Exec(func(tag pgconn.CommandTag) error {
				stored = int(tag.RowsAffected())
				return nil
			})
		return p.pool.SendBatch(ctx, batch).Close()
	})
	return stored, err
}

// columns is a batch the way unnest takes it.
type columns struct {
	ids, topicIDs                                  [][16]byte
	previousIDs                                    []*[16]byte
	dlqTopics, originalTopics, errorMessages       []string
	errorClasses, statuses, families, stackTraces  []string
	payloads                                       []*string
	retryCounts, maxRetries, keyHashes, partitions []int32
	offsets                                        []int64
	keys, values, headers                          [][]byte
	timestamps                                     []*time.Time
	originPartitions                               []*int32
	originOffsets                                  []*int64
}

func newColumns(n int) *columns {
	return &columns{
		ids: make([][16]byte, 0, n), topicIDs: make([][16]byte, 0, n), previousIDs: make([]*[16]byte, 0, n),
		dlqTopics: make([]string, 0, n), originalTopics: make([]string, 0, n), errorMessages: make([]string, 0, n),
		errorClasses: make([]string, 0, n), statuses: make([]string, 0, n), families: make([]string, 0, n),
		stackTraces: make([]string, 0, n), payloads: make([]*string, 0, n), retryCounts: make([]int32, 0, n),
		maxRetries: make([]int32, 0, n), keyHashes: make([]int32, 0, n), partitions: make([]int32, 0, n),
		offsets: make([]int64, 0, n), keys: make([][]byte, 0, n), values: make([][]byte, 0, n), headers: make([][]byte, 0, n),
		timestamps: make([]*time.Time, 0, n), originPartitions: make([]*int32, 0, n), originOffsets: make([]*int64, 0, n),
	}
}

func (c *columns) add(a dlq.Arrival) {
	c.ids = append(c.ids, a.ID)
	c.dlqTopics = append(c.dlqTopics, a.DLQTopic)
	c.originalTopics = append(c.originalTopics, a.Origin.Topic)
	c.errorMessages = append(c.errorMessages, a.ErrorMessage)
	c.errorClasses = append(c.errorClasses, a.ErrorClass)
	c.retryCounts = append(c.retryCounts, int32(a.RetryCount))
	c.maxRetries = append(c.maxRetries, int32(a.MaxRetries))
	c.payloads = append(c.payloads, optional(string(a.Payload), a.Payload == nil))
	c.statuses = append(c.statuses, string(a.Status()))
	c.keyHashes = append(c.keyHashes, dlq.KeyHash(a.Record.Key, a.ID))
	c.previousIDs = append(c.previousIDs, optional(uuid(a.PreviousID), a.PreviousID.IsZero()))
	c.topicIDs = append(c.topicIDs, a.Source.TopicID)
	c.partitions = append(c.partitions, a.Source.Partition)
	c.offsets = append(c.offsets, a.Source.Offset)
	c.keys = append(c.keys, a.Record.Key)
	c.values = append(c.values, a.Record.Value)
	c.headers = append(c.headers, encodeHeaders(a.Record.Headers))
	c.timestamps = append(c.timestamps, optional(a.Record.Timestamp, a.Record.Timestamp.IsZero()))
	c.originPartitions = append(c.originPartitions, a.Origin.Partition)
	c.originOffsets = append(c.originOffsets, a.Origin.Offset)
	c.families = append(c.families, a.Origin.Family)
	c.stackTraces = append(c.stackTraces, a.StackTrace)
}

// optional is nil when there is no value, which is NULL.
func optional[T any](value T, none bool) *T {
	if none {
		return nil
	}
	return &value
}
