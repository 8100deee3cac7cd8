// Package dbtest gives every test its own PostgreSQL database with the schema. Databases
// are copied from a template, which takes some tens of milliseconds.
//
// A package that uses it needs
//
//	func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }
//
// DLQ_TEST_POSTGRES_URL names the server: a superuser's connection string to any of its
// databases. Without this variable each test program starts a server in a temporary folder,
// and stops the server at its end.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// databases are the connection strings of the tests' databases, by test.
var databases sync.Map

// New returns a pool on the test's own database. The pool is closed with the test, and the database is dropped later.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Pool(t, URL(t))
}

// Another returns a pool on one more database, which no other call returns.
func Another(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Pool(t, another(t))
}

// Pool connects to a database of this package until the test ends.
func Pool(t testing.TB, databaseURL string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(databaseURL)
	require.NoError(t, err)
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(closeTimeout): // a test that failed in the middle of a transaction would hang for ever
			t.Error("a connection of the pool was not released")
		}
	})
	return pool
}

// closeTimeout is how long the end of a test waits for the connections of its pool.
const closeTimeout = 10 * time.Second

// URL is the connection string of the test's own database, to which New
// connects too.
func URL(t testing.TB) string {
	t.Helper()
	if known, ok := databases.Load(t); ok {
		return known.(string)
	}
	database := another(t)
	databases.Store(t, database)
	t.Cleanup(func() { databases.Delete(t) })
	return database
}

// Filled returns a pool on the test's own copy of a database. fill fills the database that is copied, once for
// each name in a test program.
func Filled(t testing.TB, name string, fill func(testing.TB, *pgxpool.Pool)) *pgxpool.Pool {
	t.Helper()
	database := create(t, filledDatabase(t, name, fill))
	databases.Store(t, database)
	t.Cleanup(func() { databases.Delete(t) })
	return Pool(t, database)
}

// filled are the databases that Filled copies, by the names of their contents. Main drops them.
var filled = struct {
	sync.Mutex
	databases map[string]string
}{databases: map[string]string{}}

func filledDatabase(t testing.TB, name string, fill func(testing.TB, *pgxpool.Pool)) string {
	t.Helper()
	template, err := templateName(context.Background())
	require.NoError(t, err)
	admin, err := serverURL()
	require.NoError(t, err)
	filled.Lock()
	defer filled.Unlock()
	if database := filled.databases[name]; database != "" {
		return database
	}
	database := newName()
	require.NoError(t, execute(context.Background(), admin, createSQL(database, template)))
	pool, err := pgxpool.New(context.Background(), withDatabase(admin, database))
	require.NoError(t, err)
	defer pool.Close() // a database with connections cannot be copied
	fill(t, pool)
	filled.databases[name] = database
	return database
}

// dropAll drops the databases that Filled copies, and the used databases.
func dropAll() (err error) {
	for _, database := range slices.Concat(slices.Collect(maps.Values(filled.databases)), used.names) {
		err = errors.Join(err, drop(database))
	}
	return err
}

func newName() string { return "dlq_test_" + dlq.NewID().String() }

func createSQL(database, template string) string {
	return fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", pgx.Identifier{database}.Sanitize(), pgx.Identifier{template}.Sanitize())
}

// dropSQL has FORCE, since a test that leaks a connection must not make other tests fail.
func dropSQL(database string) string {
	return fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", pgx.Identifier{database}.Sanitize())
}

func another(t testing.TB) string {
	t.Helper()
	name, err := templateName(context.Background())
	require.NoError(t, err)
	return createFor(t, name, used.add)
}

// Empty is the connection string of a new database without any schema.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// create copies the template under a new name and drops the copy with the test.
func create(t testing.TB, template string) string {
	t.Helper()
	return createFor(t, template, drop)
}

// createFor copies the template under a new name, and calls end with that name when the test has ended.
func createFor(t testing.TB, template string, end func(name string) error) string {
	t.Helper()
	admin, err := serverURL()
	require.NoError(t, err)
	name := newName()
	require.NoError(t, execute(context.Background(), admin, createSQL(name, template)))
	t.Cleanup(func() { require.NoError(t, end(name)) })
	return withDatabase(admin, name)
}

// used are databases whose tests have ended. They are dropped some tests later: a server waits a tenth of a second
// before it drops a database whose connections were closed just now.
var used usedDatabases

type usedDatabases struct {
	sync.Mutex
	names []string
}

// maxUsed is how many used databases wait to be dropped.
const maxUsed = 8

// add adds a used database, and drops the oldest if there are more than maxUsed.
func (u *usedDatabases) add(name string) error {
	u.Lock()
	u.names = append(u.names, name)
	name = ""
	if len(u.names) > maxUsed {
		name, u.names = u.names[0], u.names[1:]
	}
	u.Unlock()
	if name == "" {
		return nil
	}
	return drop(name)
}

func drop(name string) error {
	admin, err := serverURL()
	if err != nil {
		return err
	}
	return execute(context.Background(), admin, dropSQL(name))
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, databaseURL, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// withDatabase is the connection string of another database of the server.
func withDatabase(databaseURL, name string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		panic(err) // serverURL has parsed it before
	}
	u.Path = "/" + name
	return u.String()
}

// serverVariable names a server to use instead of starting one.
const serverVariable = "DLQ_TEST_POSTGRES_URL"

// externalServer is the connection string of serverVariable, or "".
func externalServer() (string, error) {
	given := os.Getenv(serverVariable)
	if given == "" {
		return "", nil
	}
	if u, err := url.Parse(given); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", fmt.Errorf("%s must be a URL, postgres://user:password@host:port/database", serverVariable)
	}
	return given, nil
}
