package dbtest

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/migrations"
)

// Protected is an installation whose programs do not own its tables. One role owns the tables, and
// another role has the rights that the programs need. Each user is a member of one of these roles.
type Protected struct {
	// URL is the superuser's connection string. The database is the template of Copy: while Copy
	// runs, no connection to the database may be open.
	URL                string
	Owner, Application string
}

// NewProtected returns an installation that a member of the owner has migrated. The database
// and the roles are removed at the end of the test.
func NewProtected(t testing.TB) *Protected {
	t.Helper()
	p := &Protected{Owner: name("owner"), Application: name("application")}
	admin, err := serverURL()
	require.NoError(t, err)
	p.role(t, admin, p.Owner, "NOLOGIN")
	p.role(t, admin, p.Application, "NOLOGIN")
	p.URL = Empty(t)
	u, err := url.Parse(p.URL)
	require.NoError(t, err)
	for _, sql := range []string{
		fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", pgx.Identifier{u.Path[1:]}.Sanitize(), p.Owner),
		"GRANT CREATE ON SCHEMA public TO " + p.Owner,
	} {
		require.NoError(t, execute(t.Context(), p.URL, sql))
	}
	require.NoError(t, p.Migrate(t, p.User(t, p.Owner)))
	return p
}

// Migrate applies the migrations as the user of a connection string.
func (p *Protected) Migrate(t testing.TB, user string) error {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), user)
	require.NoError(t, err)
	defer pool.Close()
	return migrations.UpAs(t.Context(), pool, migrations.Options{Roles: migrations.Roles{Owner: p.Owner, Application: p.Application}})
}

// Copy is the connection string of a user for a new database with the same contents.
func (p *Protected) Copy(t testing.TB, user string) string {
	t.Helper()
	original, err := url.Parse(p.URL)
	require.NoError(t, err)
	u, err := url.Parse(user)
	require.NoError(t, err)
	return as(t, create(t, original.Path[1:]), u.User)
}

// User creates a member of a role and returns its connection string.
func (p *Protected) User(t testing.TB, role string) string {
	t.Helper()
	user, password := name("user"), dlq.NewID().String()
	admin, err := serverURL()
	require.NoError(t, err)
	p.role(t, admin, user, fmt.Sprintf("LOGIN PASSWORD '%s' IN ROLE %s", password, role))
	return as(t, p.URL, url.UserPassword(user, password))
}

// DropUser drops the user of a connection string.
func (p *Protected) DropUser(t testing.TB, user string) {
	t.Helper()
	u, err := url.Parse(user)
	require.NoError(t, err)
	require.NoError(t, execute(t.Context(), p.URL, "DROP ROLE "+u.User.Username()))
}

func (p *Protected) role(t testing.TB, admin, name, options string) {
	t.Helper()
	require.NoError(t, execute(t.Context(), admin, "CREATE ROLE "+name+" "+options))
	t.Cleanup(func() { require.NoError(t, execute(context.Background(), admin, "DROP ROLE IF EXISTS "+name)) })
}

// name returns a new name for a role. The name needs no quotes in SQL.
func name(kind string) string {
	id := dlq.NewID()
	return fmt.Sprintf("dlq_test_%s_%x", kind, id[:])
}

func as(t testing.TB, databaseURL string, user *url.Userinfo) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	u.User = user
	return u.String()
}
