package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// ServerInfo is the state of the database server.
type ServerInfo struct {
	Major   int
	Version string
	Standby bool
	// Durable is false if a crash of the server may lose acknowledged changes.
	Durable        bool
	MaxConnections int
	// Size is the size of the database, such as "12 GB".
	Size string
	Now  time.Time
}

const serverInfoSQL = `
SELECT current_setting('server_version_num')::int / 10000, current_setting('server_version'), pg_is_in_recovery(),
	current_setting('fsync')::bool AND current_setting('full_page_writes')::bool AND current_setting('synchronous_commit') <> 'off',
	current_setting('max_connections')::int, pg_size_pretty(pg_database_size(current_database())), clock_timestamp()`

// ServerInfo asks the server for its state, also without the schema.
func (s *Store) ServerInfo(ctx context.Context) (ServerInfo, error) {
	info, _, err := queryOne(ctx, s, "read the state of the server", pgx.RowToStructByPos[ServerInfo], serverInfoSQL, nil)
	return info, err
}

// missingRightsSQL returns the tables that the user may not use. Tables that only grow or are only read need fewer rights.
const missingRightsSQL = `
SELECT relname
FROM pg_class
WHERE relnamespace = 'dlq'::regnamespace AND relkind = 'r' AND NOT (
	has_schema_privilege('dlq', 'USAGE') AND has_table_privilege(oid, 'SELECT')
	AND (relname IN ('dlq_schema', 'dlq_schema_files') OR has_table_privilege(oid, 'INSERT'))
	AND (relname IN ('dlq_audit', 'dlq_audit_runs', 'dlq_schema', 'dlq_schema_files')
		OR has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')))
ORDER BY relname`

// MissingRights returns the tables that the user may not read or change.
func (s *Store) MissingRights(ctx context.Context) ([]string, error) {
	return queryAll(ctx, s, "read the rights", pgx.RowTo[string], missingRightsSQL, nil)
}

const waitingTopicsSQL = `
SELECT DISTINCT original_topic
FROM dlq.dlq_topic_counts
WHERE status IN ('PENDING', 'RETRYING')
ORDER BY original_topic`

// WaitingTopics returns the original topics of the messages that can still be sent.
func (s *Store) WaitingTopics(ctx context.Context) ([]string, error) {
	return queryAll(ctx, s, "read the topics that messages wait for", pgx.RowTo[string], waitingTopicsSQL, nil)
}
