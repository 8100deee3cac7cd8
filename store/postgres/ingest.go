package postgres

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"dlqmanager/dlq"
)

// ingestTimeout is long enough for a batch of large messages over a slow network.
const ingestTimeout = time.Minute

// suspendedAfter is how long a COPY may take before its program counts as suspended. A program
// that is not suspended ends its COPY within ingestTimeout.
const suspendedAfter = 2 * ingestTimeout

// Ingest stores dead letters and moves the positions of the partitions that they were read
// from, all in one transaction. The result is the ids of the new messages. An arrival with a
// known id is skipped, also when its message has been archived. Seq follows the order of
// arrivals. Messages that came back are counted for the bulk retry that sent them. Ingest
// returns dlq.ErrPositionMoved when a position differs from Advance.From.
//
// When the server refuses the data of a row, each payload is tried alone, and the refused
// payloads are left out. The server never refuses the bytes of a record.
func (s *Store) Ingest(ctx context.Context, arrivals []dlq.Arrival, advances []dlq.Advance) (stored []dlq.ID, err error) {
	if len(arrivals) == 0 && len(advances) == 0 {
		return nil, nil
	}
	return s.storeBatch(ctx, newIngest(arrivals, advances, s.Outbox))
}

func (s *Store) storeBatch(ctx context.Context, in *ingest) (stored []dlq.ID, err error) {
	for payloadsTried := false; ; {
		stored, err = s.ingest(ctx, in)
		switch {
		case errors.Is(err, errNoGroup):
			if err := s.assignGroups(ctx, in.rows); err != nil {
				return nil, err
			}
		case isDataError(err) && !payloadsTried:
			payloadsTried = true
			if err := s.dropBadPayloads(ctx, in.rows); err != nil {
				return nil, err
			}
		default:
			return stored, err
		}
	}
}

// dropBadPayloads removes the payloads that the database refuses. The values of their records stay.
func (s *Store) dropBadPayloads(ctx context.Context, rows []*arrivalRow) error {
	for _, row := range rows {
		_, _, err := queryOne(ctx, s, "try payload", pgx.RowTo[bool], payloadSQL, pgx.NamedArgs{"payload": string(row.Payload)})
		if isDataError(err) {
			row.Payload = nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// payloadSQL fails for a payload that JSONB refuses.
const payloadSQL = `SELECT NULLIF(@payload::text, '')::jsonb IS NULL`

func (s *Store) ingest(ctx context.Context, in *ingest) (stored []dlq.ID, err error) {
	ctx, cancel := context.WithTimeout(ctx, ingestTimeout)
	defer cancel()
	in.targets = s.Targets
	err = s.inTransaction(ctx, func(tx pgx.Tx) (err error) {
		stored, err = in.store(ctx, tx)
		return err
	})
	s.endSuspended(ctx, err)
	return stored, wrap("store arrivals", err)
}

// endSuspendedSQL ends the sessions of programs that were suspended while they copied rows.
// The server waits for more rows from such a program, in a transaction that holds locks, and
// none of the server's timeouts ends this wait.
const endSuspendedSQL = `
SELECT count(pg_terminate_backend(pid))
FROM pg_stat_activity
WHERE datname = current_database() AND pg_has_role(usesysid, 'USAGE') AND state = 'active' AND wait_event = 'ClientRead'
	AND query LIKE 'copy "dlq".%' AND query_start < clock_timestamp() - make_interval(secs => @seconds)`

// endSuspended runs endSuspendedSQL if err says that another transaction blocked the call. The caller reports err and
// tries again, so an error of endSuspendedSQL is not reported.
func (s *Store) endSuspended(ctx context.Context, err error) {
	if !isBlocked(err) {
		return
	}
	_, _, _ = queryOne(ctx, s, "end suspended ingest", pgx.RowTo[int], endSuspendedSQL,
		pgx.NamedArgs{"seconds": s.suspendedAfter.Seconds()})
}

// ingest is a batch that is being stored.
//
// Its rows are copied into the tables, which takes half as long as an INSERT of the same
// rows. COPY cannot skip a row, so ids that are stored already are looked up first. When
// another transaction stores the same message meanwhile, the primary key refuses the batch,
// and the transaction runs again. Such conflicts are rare, since the positions are locked.
type ingest struct {
	rows     []*arrivalRow
	advances []dlq.Advance
	outbox   bool
	// fixes maps the id of a group to its fix. It has each group that has a row in the batch and is marked as fixed.
	fixes map[dlq.ID]dlq.GroupFix
	// targets tells where a message without a recorded target was sent.
	targets *dlq.Targets
	// begin, if not nil, is called first in the transaction.
	begin func(ctx context.Context, tx pgx.Tx) error
}

// arrivalRow is an arrival, with further values that storing it needs.
type arrivalRow struct {
	dlq.Arrival
	headers []byte
	keyHash int32
	group   dlq.ID
	// cameBack is true when the message PreviousID was sent back, failed again, and returned as
	// this arrival. Each try of the transaction sets cameBack anew.
	cameBack bool
	// sentBy is the job that sent the message PreviousID last; zero for none.
	sentBy dlq.ID
	// headerRetryCount is the retry count in the headers of the record. It is used only for a
	// message that came back.
	headerRetryCount int
}

// newIngest keeps the first arrival with each id.
func newIngest(arrivals []dlq.Arrival, advances []dlq.Advance, outbox bool) *ingest {
	in := &ingest{rows: make([]*arrivalRow, 0, len(arrivals)), advances: advances, outbox: outbox}
	seen := make(map[dlq.ID]bool, len(arrivals))
	for i := range arrivals {
		a := arrivals[i].Storable()
		if seen[a.ID] {
			continue
		}
		seen[a.ID] = true
		in.rows = append(in.rows, &arrivalRow{Arrival: a, headers: encodeHeaders(a.Record.Headers), keyHash: dlq.KeyHash(a.Record.Key, a.ID),
			group: dlq.GroupID(&a.Fingerprint), headerRetryCount: a.RetryCount})
	}
	return in
}

// store locks the positions first. So of two programs with the same records, the second program
// waits. Bodies are inserted in the order of their ids, so two batches without positions do not
// deadlock. Messages are inserted in the order of the batch, which becomes the order of seq. The jobs
// of messages that came back are locked last, in the order of the jobs' ids.
func (in *ingest) store(ctx context.Context, tx pgx.Tx) ([]dlq.ID, error) {
	if in.begin != nil {
		if err := in.begin(ctx, tx); err != nil {
			return nil, err
		}
	}
	bodies, messages, err := in.findUnknown(ctx, tx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(bodies, func(a, b *arrivalRow) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	if err := copyMessages(ctx, tx, bodies, messages); err != nil {
		return nil, err
	}
	return idsOf(messages), in.finish(ctx, tx, messages)
}

// lockPositionsSQL locks and counts the positions that have not moved: next_offset is still the offset in Advance.From.
const lockPositionsSQL = `
WITH advance AS (
	SELECT * FROM unnest(@topic_ids::uuid[], @partitions::int[], @froms::bigint[]) AS a (topic_id, partition, from_offset)
), position AS (
	SELECT o.topic_id
	FROM dlq.dlq_ingest_offsets o
	JOIN advance a ON o.topic_id = a.topic_id AND o.partition = a.partition
	WHERE o.next_offset = a.from_offset
	ORDER BY o.topic_id, o.partition
	FOR UPDATE OF o
)
SELECT count(*) FROM position`

// knownSQL finds the ids that have a body, a message, or both. The body of an archived message
// stays where it is. A message that another program inserted has no body.
const knownSQL = `
SELECT known.*
FROM (
	SELECT a.id,
		EXISTS (SELECT FROM dlq.dlq_message_bodies b WHERE b.message_id = a.id OFFSET 0) AS has_body,
		EXISTS (SELECT FROM dlq.dlq_messages m WHERE m.id = a.id OFFSET 0) AS has_message
	FROM unnest(@ids::uuid[]) AS a (id)
) AS known
WHERE has_body OR has_message`

// previousSQL reads facts about each earlier message: its dead-letter topic, its original topic, its target topic, and
// the job that sent it last. The id of this job is the owner token of the message. The target topic is recorded with the
// delivery, or in the job, or not at all.
const previousSQL = `
SELECT p.id, p.dlq_topic, p.original_topic, COALESCE(t.topic, j.spec->>'target_topic', ''), j.id
FROM unnest(@previous_ids::uuid[]) AS a (id)
CROSS JOIN LATERAL (SELECT * FROM ` + everyMessage + ` AS m WHERE m.id = a.id LIMIT 1) AS p
LEFT JOIN dlq.dlq_targets t ON t.id = p.target_id
LEFT JOIN dlq.dlq_jobs j ON j.id =
	CASE WHEN p.owner_token ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN p.owner_token::uuid END`

// markCameBack reads the rows of previousSQL, and marks the messages that came back.
func (in *ingest) markCameBack(rows pgx.Rows, byPrevious map[dlq.ID][]*arrivalRow) error {
	var id, job dlq.ID
	var dlqTopic, originalTopic, target string
	_, err := pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &dlqTopic, &originalTopic, &target, (*zeronull.UUID)(&job)}, func() error {
		if target == "" {
			target, _ = in.targets.Of(originalTopic, "") // stays empty if the target is not allowed
		}
		for _, row := range byPrevious[id] {
			row.cameBack, row.sentBy = row.CameBack(dlqTopic, target), job
		}
		return nil
	})
	return err
}

// errNoGroup means that a group of the rows does not exist yet, or has been removed.
var errNoGroup = errors.New("a group does not exist")

// findUnknown locks the positions. It returns the rows whose bodies must be inserted, and those of
// them whose messages must be inserted too.
func (in *ingest) findUnknown(ctx context.Context, tx pgx.Tx) (bodies, messages []*arrivalRow, err error) {
	var unchanged int
	hasBody, hasMessage := map[dlq.ID]bool{}, map[dlq.ID]bool{}
	batch := &pgx.Batch{}
	batch.Queue(shareIngestLockSQL, pgx.NamedArgs{"lock": ingestLock})
	batch.Queue(byIndexSQL)
	batch.Queue(lockPositionsSQL, in.positionArgs()).QueryRow(func(row pgx.Row) error { return row.Scan(&unchanged) })
	batch.Queue(knownSQL, pgx.NamedArgs{"ids": uuids(idsOf(in.rows))}).Query(func(rows pgx.Rows) error {
		var id [16]byte
		var body, message bool
		_, err := pgx.ForEachRow(rows, []any{&id, &body, &message}, func() error {
			hasBody[id], hasMessage[id] = body, message
			return nil
		})
		return err
	})
	byPrevious := map[dlq.ID][]*arrivalRow{}
	for _, row := range in.rows {
		row.cameBack = false
		if !row.PreviousID.IsZero() {
			byPrevious[row.PreviousID] = append(byPrevious[row.PreviousID], row)
		}
	}
	if len(byPrevious) > 0 {
		batch.Queue(previousSQL, pgx.NamedArgs{"previous_ids": uuids(slices.Collect(maps.Keys(byPrevious)))}).
			Query(func(rows pgx.Rows) error { return in.markCameBack(rows, byPrevious) })
	}
	groups, found := groupsOf(in.rows), [][16]byte(nil)
	if len(groups) > 0 {
		queueQuery(batch, &found, pgx.RowTo[[16]byte], knownGroupsSQL, pgx.NamedArgs{"ids": groups})
		batch.Queue(fixesSQL, pgx.NamedArgs{"groups": groups}).Query(in.collectFixes)
		batch.Queue(signSQL, signatureArgs(in.rows))
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, err
	}
	if unchanged != len(in.advances) {
		return nil, nil, dlq.ErrPositionMoved
	}
	if len(found) != len(groups) {
		return nil, nil, errNoGroup
	}
	for _, row := range in.rows {
		row.RetryCount = row.headerRetryCount
		if !row.PreviousID.IsZero() && !row.cameBack {
			row.RetryCount = 0
		}
		if !hasBody[row.ID] {
			bodies = append(bodies, row)
			if !hasMessage[row.ID] {
				messages = append(messages, row)
			}
		}
	}
	return bodies, messages, nil
}

func (in *ingest) collectFixes(rows pgx.Rows) error {
	in.fixes = map[dlq.ID]dlq.GroupFix{}
	var id [16]byte
	var at time.Time
	var topic *string // nil if the original topics had no partitions
	var end dlq.EndOffset
	_, err := pgx.ForEachRow(rows, []any{&id, instant{&at}, &topic, (*zeronull.Int4)(&end.Partition), (*zeronull.Int8)(&end.Offset)}, func() error {
		fix := dlq.GroupFix{At: at, Ends: in.fixes[id].Ends}
		if topic != nil {
			end.Topic = *topic
			fix.Ends = append(fix.Ends, end)
		}
		in.fixes[id] = fix
		return nil
	})
	return err
}

// The columns that ingest fills. The other columns of dlq_messages have defaults.
var (
	bodyColumns = []string{
		"message_id", "topic_id", "partition", "record_offset", "key", "key_hash", "value", "headers", "record_timestamp",
		"origin_partition", "origin_offset", "origin_family", "stack_trace", "origin_timestamp", "consumer_group",
		"cause_class", "origin_attempts", "trace_id", "correlation_id", "suspicion",
		"schema_id", "schema_format", "schema_subject", "schema_version", "schema_message_type", "decode_error",
	}
	messageColumns = []string{
		"id", "dlq_topic", "original_topic", "error_message", "error_class", "retry_count", "max_retries", "payload",
		"status", "key_hash", "previous_id", "size", "resolution", "suspicious", "group_id",
	}
)

func (r *arrivalRow) body() []any {
	fromKafka := !r.Source.IsZero()
	return []any{
		uuid(r.ID), nilIf(r.Source.TopicID, !fromKafka), nilIf(r.Source.Partition, !fromKafka), nilIf(r.Source.Offset, !fromKafka),
		r.Record.Key, nilIf(r.keyHash, r.Record.Key == nil),
		r.Record.Value, r.headers, nilIf(r.Record.Timestamp, r.Record.Timestamp.IsZero()),
		r.Origin.Partition, r.Origin.Offset, r.Origin.Family, r.StackTrace,
		nilIf(r.Origin.Timestamp, r.Origin.Timestamp.IsZero()), r.Origin.ConsumerGroup,
		r.CauseClass, nilIf(r.Attempts, r.Attempts == 0), r.TraceID, r.CorrelationID, r.Suspicion,
		nilIf(int64(r.Schema.ID), r.Schema.ID == 0), nilIf(r.Schema.Format, r.Schema.Format == ""),
		nilIf(r.Schema.Subject, r.Schema.Subject == ""), nilIf(r.Schema.Version, r.Schema.Version == 0),
		nilIf(r.Schema.MessageType, r.Schema.MessageType == ""), nilIf(r.DecodeError, r.DecodeError == ""),
	}
}

func (r *arrivalRow) message() []any {
	return []any{
		uuid(r.ID), r.DLQTopic, r.Origin.Topic, r.ErrorMessage, r.ErrorClass, r.RetryCount, r.MaxRetries, []byte(r.Payload),
		string(r.Status()), r.keyHash, nilIf(uuid(r.PreviousID), r.PreviousID.IsZero()),
		len(r.Record.Key) + len(r.Record.Value) + len(r.headers),
		nilIf(string(r.Resolution()), r.Resolution() == ""), r.Suspicion != "",
		nilIf(uuid(r.group), r.group.IsZero()),
	}
}

func copyMessages(ctx context.Context, tx pgx.Tx, bodies, messages []*arrivalRow) error {
	if err := copyRows(ctx, tx, "dlq_message_bodies", bodyColumns, bodies, (*arrivalRow).body); err != nil {
		return err
	}
	return copyRows(ctx, tx, "dlq_messages", messageColumns, messages, (*arrivalRow).message)
}

func copyRows(ctx context.Context, tx pgx.Tx, table string, columns []string, rows []*arrivalRow, values func(*arrivalRow) []any) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"dlq", table}, columns,
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return values(rows[i]), nil }))
	return err
}

// advanceSQL moves positions that lockPositionsSQL has locked.
const advanceSQL = `
UPDATE dlq.dlq_ingest_offsets o
SET topic = a.topic, next_offset = a.next_offset, leader_epoch = a.leader_epoch, lost = o.lost + a.lost,
	lost_at = CASE WHEN a.lost > 0 THEN now() ELSE o.lost_at END, updated_at = now()
FROM unnest(@topic_ids::uuid[], @partitions::int[], @topics::text[], @nexts::bigint[], @epochs::int[], @losts::bigint[])
	AS a (topic_id, partition, topic, next_offset, leader_epoch, lost)
WHERE o.topic_id = a.topic_id AND o.partition = a.partition`

// cameBackSQL increases the counts of jobs whose messages came back. A message counts for the job that sent it last.
const cameBackSQL = `
WITH job AS MATERIALIZED (
	SELECT j.id, came_back.n
	FROM (SELECT a.job_id, count(*) AS n FROM unnest(@jobs::uuid[]) AS a (job_id) GROUP BY a.job_id) AS came_back
	JOIN dlq.dlq_jobs j ON j.id = came_back.job_id
	ORDER BY j.id
	FOR UPDATE OF j
)
UPDATE dlq.dlq_jobs j SET came_back = j.came_back + job.n FROM job WHERE j.id = job.id`

// storeExhaustedSQL puts messages that were exhausted on arrival into the outbox.
const storeExhaustedSQL = `
INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
SELECT dlq_topic, seq, id, retry_count, max_retries, error_message
FROM dlq.dlq_messages
WHERE id = ANY(@ids::uuid[]) AND dlq_topic <> ''`

// finish moves the positions. It also puts exhausted messages into the outbox, reopens fixed groups after a
// regression, and counts the messages that came back. Most messages need none of these.
func (in *ingest) finish(ctx context.Context, tx pgx.Tx, stored []*arrivalRow) error {
	var sentBy [][16]byte // of the messages that came back
	var exhausted []*arrivalRow
	for _, row := range stored {
		if row.cameBack && !row.sentBy.IsZero() {
			sentBy = append(sentBy, row.sentBy)
		}
		if in.outbox && row.Resolution() == dlq.ResolutionExhausted {
			exhausted = append(exhausted, row)
		}
	}
	batch := &pgx.Batch{}
	if len(in.advances) > 0 {
		batch.Queue(advanceSQL, in.positionArgs())
	}
	if len(exhausted) > 0 {
		batch.Queue(storeExhaustedSQL, pgx.NamedArgs{"ids": uuids(idsOf(exhausted))})
	}
	if groups, messages := regressions(stored, in.fixes); len(groups) > 0 {
		batch.Queue(reopenSQL, pgx.NamedArgs{"groups": groups, "messages": messages, "reason": dlq.RegressionReason})
	}
	if len(sentBy) > 0 {
		batch.Queue(cameBackSQL, pgx.NamedArgs{"jobs": sentBy})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// positionArgs are the parameters of lockPositionsSQL and advanceSQL.
func (in *ingest) positionArgs() pgx.NamedArgs {
	return pgx.NamedArgs{
		"topic_ids":  column(in.advances, func(a *dlq.Advance) [16]byte { return a.TopicID }),
		"partitions": column(in.advances, func(a *dlq.Advance) int32 { return a.Number }),
		"topics":     column(in.advances, func(a *dlq.Advance) string { return dlq.StorableText(a.Topic) }),
		"froms":      column(in.advances, func(a *dlq.Advance) int64 { return a.From.Next }),
		"nexts":      column(in.advances, func(a *dlq.Advance) int64 { return a.To.Next }),
		"epochs":     column(in.advances, func(a *dlq.Advance) int32 { return a.To.Epoch }),
		"losts":      column(in.advances, func(a *dlq.Advance) int64 { return a.Lost }),
	}
}

func idsOf(rows []*arrivalRow) []dlq.ID {
	return column(rows, func(r **arrivalRow) dlq.ID { return (*r).ID })
}
