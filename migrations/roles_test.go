package migrations_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/migrations"
)

// administrator sets up an installation as its superuser.
type administrator struct {
	*pgxpool.Pool
	migrations.Roles
	created []string // users and roles
}

// setUp runs the statements that the documentation gives to an administrator. It uses other names
// for the database and the roles.
func setUp(t *testing.T) *administrator {
	t.Helper()
	a, other := &administrator{}, empty(t)
	t.Cleanup(func() { // after the test's database is gone
		for _, name := range a.created {
			_, err := other.Exec(context.Background(), "DROP ROLE IF EXISTS "+name)
			require.NoError(t, err)
		}
	})
	document, err := os.ReadFile("../docs/audit.md")
	require.NoError(t, err)
	_, block, found := strings.Cut(string(document), "```sql\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	a.Pool = empty(t)
	id := dlq.NewID()
	a.Owner, a.Application = fmt.Sprintf("dlq_test_o_%x", id[:]), fmt.Sprintf("dlq_test_a_%x", id[:])
	a.created = []string{a.Owner, a.Application}
	exec(t, a.Pool, strings.NewReplacer("dlq_owner", a.Owner, "dlq_app", a.Application,
		"dlq_db", `"`+a.Config().ConnConfig.Database+`"`).Replace(block))
	return a
}

// login creates a user and connects as that user.
func (a *administrator) login(t *testing.T, name, options string) *pgxpool.Pool {
	t.Helper()
	exec(t, a.Pool, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'secret' %s", name, options))
	a.created = append(a.created, name)
	config := a.Config()
	config.ConnConfig.User, config.ConnConfig.Password = name, "secret"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func TestTheDocumentedRolesAreEnough(t *testing.T) {
	t.Parallel()
	a := setUp(t)
	require.NoError(t, migrations.UpAs(t.Context(), a.login(t, a.Owner+"_user", "IN ROLE "+a.Owner), migrations.Options{Roles: a.Roles}))
	require.Equal(t, []string{a.Owner}, texts(t, a.Pool, `SELECT DISTINCT relowner::regrole::text FROM pg_class
		WHERE relnamespace = 'dlq'::regnamespace OR oid = 'public.schema_migrations'::regclass`))
	application := a.login(t, a.Application+"_user", "IN ROLE "+a.Application)
	require.NoError(t, migrations.Check(t.Context(), application))
	exec(t, application, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at) VALUES ('orders', 'boom', 'DEAD', '2026-01-01')`)
	exec(t, application, `CALL dlq.archive_old_dlq_messages()`)
	exec(t, application, `SELECT dlq.recount_messages()`)
	require.Len(t, texts(t, application, `SELECT id::text FROM dlq.dlq_messages_archive`), 1)
}

func TestAnInstallationWithOneUserGetsAnOwner(t *testing.T) {
	t.Parallel()
	a := setUp(t)
	name := a.Application + "_user"
	one := a.login(t, name, "")
	exec(t, a.Pool, fmt.Sprintf(`GRANT CREATE ON DATABASE "%s" TO %s`, a.Config().ConnConfig.Database, name))
	exec(t, a.Pool, "GRANT CREATE ON SCHEMA public TO "+name)
	require.NoError(t, migrations.Up(t.Context(), one))
	fill(t, one)

	exec(t, a.Pool, fmt.Sprintf("REASSIGN OWNED BY %s TO %s", name, a.Owner))
	exec(t, a.Pool, fmt.Sprintf("GRANT %s TO %s", a.Application, name))
	require.NoError(t, migrations.UpAs(t.Context(), a.login(t, a.Owner+"_user", "IN ROLE "+a.Owner), migrations.Options{Roles: a.Roles}))
	require.Len(t, texts(t, one, `SELECT id::text FROM dlq.dlq_audit`), 1)
	_, err := one.Exec(t.Context(), `ALTER TABLE dlq.dlq_audit DISABLE TRIGGER ALL`)
	require.ErrorContains(t, err, "must be owner of table dlq_audit")
}
