package app

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestMigrateNeedsADatabase(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Migrate(t.Context(), config.Default(), io.Discard), "DLQ_DATABASE_HOST")
}

// After Migrate, a worker can start with a user who may not change the schema.
func TestMigrateLeavesNothingToDoForTheWorkers(t *testing.T) {
	t.Parallel()
	s := startSecurePostgres(t)
	for _, sql := range []string{
		`DROP OWNED BY dlq_app`, `DROP ROLE dlq_app`, `CREATE ROLE dlq_owner`, `CREATE ROLE dlq_app`,
		`CREATE ROLE migrator LOGIN PASSWORD 'm' IN ROLE dlq_owner`, `CREATE ROLE worker LOGIN PASSWORD 'w' IN ROLE dlq_app`,
		`CREATE DATABASE nowhere OWNER dlq_owner`,
	} {
		s.exec(t, sql)
	}
	job := config.Default()
	job.Database = s.section(t, "migrator", "m")
	job.Database.Name, job.Database.Migrations.Role, job.Database.ApplicationRole = "nowhere", "dlq_owner", "dlq_app"
	grants := `GRANT USAGE, CREATE ON SCHEMA public TO dlq_owner`
	worker := s.section(t, "worker", "w")
	worker.Name = "nowhere"
	parts := open(t, worker)
	require.ErrorContains(t, parts.migrate(true)(t.Context()), "permission denied for schema public", "the worker may not")

	owner := s.section(t, "migrator", "m")
	owner.Name = "nowhere"
	_, err := open(t, owner).pool.Exec(t.Context(), `SET ROLE dlq_owner; `+grants)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, Migrate(t.Context(), job, io.Discard))
		require.NoError(t, parts.migrate(true)(t.Context()))
		require.NoError(t, parts.checkDatabase(t.Context()))
	}
}
