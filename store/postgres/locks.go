package postgres

import "github.com/jackc/pgx/v5"

// Advisory locks. The numbers are arbitrary and must never change.
const (
	// createLock allows a single creation of a job at a time. Two concurrent creations would not see each
	// other's rows.
	createLock int64 = 7_305_011_990_414

	// ingestLock is shared by transactions that store messages. The snapshot of a job holds it exclusively:
	// PostgreSQL assigns the order of arrival before the commit, so without the lock a message below the upper
	// bound could become visible after the count. The removal of groups and a fix hold it exclusively too.
	// Messages that another program inserts without this lock may be missed.
	ingestLock int64 = 7_305_011_990_415

	// publishLock keeps two workers from publishing the same exhausted messages.
	publishLock int64 = 7_305_011_990_416

	// groupsLock keeps transactions that create groups from exceeding the limit together.
	groupsLock int64 = 7_305_011_990_417
)

// lockSQL takes an advisory lock for the transaction. If the program is suspended or loses
// its network while holding the lock, the server ends its session after two seconds.
const lockSQL = `SELECT set_config('idle_in_transaction_session_timeout', '2s', true), pg_advisory_xact_lock(@lock)`

// ingestTimeoutSQL limits the wait for the ingest lock. Transactions of the ingest that start during this wait also wait.
const ingestTimeoutSQL = `SELECT set_config('lock_timeout', '2s', true)`

// queueIngestLock keeps the ingest from storing until the end of the transaction.
func queueIngestLock(batch *pgx.Batch) {
	batch.Queue(ingestTimeoutSQL)
	batch.Queue(lockSQL, pgx.NamedArgs{"lock": ingestLock})
}

// shareIngestLockSQL takes the ingest lock. It tells the triggers that the signatures have the texts of the new messages.
const shareIngestLockSQL = `SELECT pg_advisory_xact_lock_shared(@lock), set_config('dlq.signed', 'on', true)`

// beforeCopySQL takes the ingest lock. It also tells the triggers that the new messages are copies. Copies are no new
// failures, and must not open a held group.
const beforeCopySQL = `SELECT pg_advisory_xact_lock_shared(@lock), set_config('dlq.signed', 'on', true), set_config('dlq.copies', 'on', true)`
