package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/migrations"
	"dlqmanager/store/postgres"
)

var asked = dlq.Operation{Subject: "ann", Action: dlq.PermMessageDead}

// protectedStore is a store whose user is a member of the application's role. Its audit has
// one row.
func protectedStore(t *testing.T) (p *dbtest.Protected, pool *pgxpool.Pool) {
	t.Helper()
	p = dbtest.NewProtected(t)
	pool = dbtest.Pool(t, p.User(t, p.Application))
	s := postgres.New(pool, dlqtest.Topics(t))
	arrival := dlqtest.Arrival()
	_, err := s.Ingest(t.Context(), []dlq.Arrival{arrival}, nil)
	require.NoError(t, err)
	_, err = s.MarkDead(t.Context(), &asked, arrival.ID)
	require.NoError(t, err)
	return p, pool
}

// requireDenied checks that a statement fails because the user has no right to it.
func requireDenied(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql)
	var refusal *pgconn.PgError
	require.ErrorAs(t, err, &refusal, sql)
	require.Equal(t, "42501", refusal.Code, "%s: %s", sql, refusal.Message)
}

func TestTheApplicationCannotChangeTheAudit(t *testing.T) {
	t.Parallel()
	p, pool := protectedStore(t)
	for _, sql := range []string{
		`UPDATE dlq.dlq_audit SET subject = 'bob'`,
		`DELETE FROM dlq.dlq_audit_runs`,
		`DELETE FROM dlq.dlq_audit`,
		`TRUNCATE dlq.dlq_audit`,
		`DROP TABLE dlq.dlq_audit`,
		`DROP SCHEMA dlq CASCADE`,
		`SELECT FROM dlq.dlq_audit FOR UPDATE`,
		`DO 'BEGIN LOCK TABLE dlq.dlq_audit IN SHARE MODE; END'`,
		`INSERT INTO dlq.dlq_audit SELECT * FROM dlq.dlq_audit ON CONFLICT (id) DO UPDATE SET subject = 'bob'`,
		`ALTER TABLE dlq.dlq_audit ADD COLUMN note TEXT`,
		`ALTER TABLE dlq.dlq_audit DISABLE TRIGGER ALL`,
		`ALTER TABLE dlq.dlq_audit DISABLE TRIGGER trg_dlq_audit_protect`,
		`ALTER TABLE dlq.dlq_audit OWNER TO CURRENT_USER`,
		`DROP TRIGGER trg_dlq_audit_protect ON dlq.dlq_audit`,
		`CREATE RULE nothing AS ON INSERT TO dlq.dlq_audit DO INSTEAD NOTHING`,
		`CREATE OR REPLACE FUNCTION dlq.protect_audit() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'`,
		`CREATE FUNCTION dlq.own() RETURNS INT LANGUAGE sql AS 'SELECT 1'`,
		`CREATE TRIGGER own BEFORE INSERT ON dlq.dlq_audit FOR EACH ROW EXECUTE FUNCTION dlq.protect_audit()`,
		`SET session_replication_role = 'replica'`,
		`SET ROLE ` + p.Owner,
		`TRUNCATE dlq.dlq_messages`,
		`DROP TABLE dlq.dlq_messages`,
		`UPDATE public.schema_migrations SET version = 1`,
	} {
		requireDenied(t, pool, sql)
	}
	for _, cutoff := range []string{`now()`, `now() + interval '1 year'`, `'infinity'`} {
		var purged int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT dlq.purge_audit(`+cutoff+`, 100)`).Scan(&purged))
		require.Zero(t, purged)
	}
	_, err := pool.Exec(t.Context(), `GRANT DELETE ON dlq.dlq_audit TO CURRENT_USER`)
	require.NoError(t, err, "it is a warning: nothing is granted")
	requireDenied(t, pool, `DELETE FROM dlq.dlq_audit`)

	var subject string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT subject FROM dlq.dlq_audit`).Scan(&subject))
	require.Equal(t, "ann", subject)
}

func TestTheApplicationLacksNoRight(t *testing.T) {
	t.Parallel()
	_, pool := protectedStore(t)
	missing, err := postgres.New(pool, dlqtest.Topics(t)).MissingRights(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing)
}

func TestTheOwnerCannotChangeTheAuditByAccident(t *testing.T) {
	t.Parallel()
	p, pool := protectedStore(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_audit_runs (operation_id, run_id) SELECT id, 'run' FROM dlq.dlq_audit`)
	require.NoError(t, err)
	owner := dbtest.Pool(t, p.User(t, p.Owner))
	requireDenied(t, owner, `UPDATE dlq.dlq_audit_runs SET run_id = 'other'`)
	requireDenied(t, owner, `DELETE FROM dlq.dlq_audit_runs`)
	requireDenied(t, owner, `TRUNCATE dlq.dlq_audit_runs`)
	requireDenied(t, owner, `UPDATE dlq.dlq_audit SET subject = 'bob'`)
	requireDenied(t, owner, `DELETE FROM dlq.dlq_audit`)
	requireDenied(t, owner, `TRUNCATE dlq.dlq_audit CASCADE`)
}

func TestThePurgeDeletesWhatIsOlderThanTheRetentionAndTheFloor(t *testing.T) {
	t.Parallel()
	p, pool := protectedStore(t)
	admin := dbtest.Pool(t, p.URL)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_audit (id, at, subject, method, address, action, topic, target, reason, request_id, workflow_id, outcome)
			SELECT gen_random_uuid(), now() - age, age::text, '', '', '', '', '', '', '', '', ''
			FROM unnest(ARRAY['29 days', '31 days', '399 days', '401 days', '500 days']::interval[]) AS age`,
		`INSERT INTO dlq.dlq_audit_runs (operation_id, run_id) SELECT id, 'run' FROM dlq.dlq_audit`,
	} {
		_, err := admin.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	s := postgres.New(pool, dlqtest.Topics(t))
	days := func(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
	for _, c := range []struct {
		days, limit int
		want        int64
	}{{400, 1, 1}, {400, 100, 1}, {400, 100, 0}, {0, 100, 2}} {
		purged, err := s.PurgeOperations(t.Context(), days(c.days), c.limit)
		require.NoError(t, err)
		require.Equal(t, c.want, purged)
	}
	page, err := s.Operations(t.Context(), dlq.OperationQuery{PageSize: 10})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2)
	require.Equal(t, "29 days", page.Entries[1].Subject)
	var runs int
	require.NoError(t, admin.QueryRow(t.Context(), `SELECT count(*) FROM dlq.dlq_audit_runs`).Scan(&runs))
	require.Equal(t, 2, runs)
}

// A day of an interval is a day of the session's time zone, and may have 23 or 25 hours. The time
// zone of this test changed its clocks ten days ago.
func TestTheFloorOfTheAuditIsTheSameInEveryTimeZone(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	changed := time.Now().UTC().AddDate(0, 0, -10).YearDay()
	for _, names := range []string{"WINTER0SUMMER-1", "SUMMER-1WINTER0"} {
		zone := fmt.Sprintf("%s,%d/0,%d/0", names, changed-1, (changed+180)%365)
		var left []string
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue(`SELECT set_config('timezone', $1, true)`, zone)
			batch.Queue(`INSERT INTO dlq.dlq_audit (id, at, subject, method, address, action, topic, target, reason, request_id, workflow_id, outcome)
				SELECT gen_random_uuid(), now() - age, age::text, '', '', '', '', '', '', '', '', ''
				FROM unnest(ARRAY['719:30:00', '720:30:00']::interval[]) AS age`)
			batch.Queue(`SELECT dlq.purge_audit(now(), 100)`)
			batch.Queue(`SELECT subject FROM dlq.dlq_audit`).Query(func(rows pgx.Rows) (err error) {
				left, err = pgx.CollectRows(rows, pgx.RowTo[string])
				return err
			})
			return errors.Join(tx.SendBatch(t.Context(), batch).Close(), errUndo)
		})
		require.ErrorIs(t, err, errUndo)
		require.Equal(t, []string{"719:30:00"}, left, "%s: %v", zone, err)
	}
}

// errUndo makes a test's transaction end without its changes.
var errUndo = errors.New("undo")

// credentials are login data that can change while connections are made.
type credentials chan *pgx.ConnConfig

func (c credentials) use(t *testing.T, user string) {
	t.Helper()
	config, err := pgx.ParseConfig(user)
	require.NoError(t, err)
	c <- config
}

func (c credentials) apply(_ context.Context, connection *pgx.ConnConfig) error {
	current := <-c
	c <- current
	connection.User, connection.Password = current.User, current.Password
	return nil
}

func TestAUserIsReplacedWhileTheStoreIsInUse(t *testing.T) {
	t.Parallel()
	p := dbtest.NewProtected(t)
	first := p.User(t, p.Application)
	config, err := pgxpool.ParseConfig(first)
	require.NoError(t, err)
	current := make(credentials, 1)
	current.use(t, first)
	config.BeforeConnect, config.MaxConns = current.apply, 4
	pool, err := postgres.NewPool(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	s := postgres.New(pool, dlqtest.Topics(t))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 4)
	done := make(chan struct{}, 1)
	for range cap(ended) {
		go func() { ended <- changeUntil(ctx, s, done) }()
	}
	users := usersOf(t, p.URL)
	<-done
	second := p.User(t, p.Application)
	<-current
	current.use(t, second)
	pool.Reset() // as conn_max_lifetime does
	require.Eventually(t, func() bool {
		connected := users()
		return len(connected) == 1 && connected[0] == userOf(t, second)
	}, 10*time.Second, 5*time.Millisecond)
	p.DropUser(t, first)
	for range 20 {
		<-done
	}
	stop()
	for range cap(ended) {
		require.NoError(t, <-ended)
	}
	migrator := p.User(t, p.Owner)
	require.NoError(t, p.Migrate(t, migrator))
	p.DropUser(t, migrator)
}

// changeUntil stores and changes messages until ctx ends. It sends to done after each round.
func changeUntil(ctx context.Context, s *postgres.Store, done chan<- struct{}) error {
	for ctx.Err() == nil {
		arrival := dlqtest.Arrival()
		_, err := s.Ingest(ctx, []dlq.Arrival{arrival}, nil)
		if err == nil {
			_, err = s.MarkDead(ctx, &asked, arrival.ID)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case done <- struct{}{}:
		default:
		}
	}
	return nil
}

// usersOf lists the users that are connected, except the superuser.
func usersOf(t *testing.T, databaseURL string) func() []string {
	t.Helper()
	pool := dbtest.Pool(t, databaseURL)
	return func() []string {
		rows, err := pool.Query(t.Context(), `SELECT DISTINCT usename::text FROM pg_stat_activity WHERE datname = current_database() AND usename <> current_user`)
		require.NoError(t, err)
		users, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return users
	}
}

func userOf(t *testing.T, connection string) string {
	t.Helper()
	config, err := pgx.ParseConfig(connection)
	require.NoError(t, err)
	return config.User
}

func TestAShortLivedUserMigratesAndOwnsNothing(t *testing.T) {
	t.Parallel()
	p := dbtest.NewProtected(t)
	admin := dbtest.Pool(t, p.URL)
	for range 2 {
		migrator := p.User(t, p.Owner)
		_, err := admin.Exec(t.Context(), `UPDATE public.schema_migrations SET version = version - 1`)
		require.NoError(t, err)
		require.NoError(t, p.Migrate(t, migrator), "the last migration runs again")
		p.DropUser(t, migrator)
	}
	user := p.User(t, p.Application)
	require.ErrorContains(t, p.Migrate(t, user), "act as the role that owns the schema")
	pool := dbtest.Pool(t, user)
	require.NoError(t, migrations.Check(t.Context(), pool))
	require.NoError(t, migrations.Up(t.Context(), pool), "there is nothing to do")
}

func TestTheApplicationGetsItsRightsAndNoOthers(t *testing.T) {
	t.Parallel()
	p, pool := protectedStore(t)
	admin := dbtest.Pool(t, p.URL)
	acls := func() (all string) {
		require.NoError(t, admin.QueryRow(t.Context(), `SELECT string_agg(relname || relacl::text || xmin::text, ' ' ORDER BY relname)
			FROM pg_class WHERE relnamespace = 'dlq'::regnamespace AND relkind IN ('r', 'v', 'S')`).Scan(&all))
		return all
	}
	migrator := p.User(t, p.Owner)
	before := acls()
	require.NoError(t, p.Migrate(t, migrator))
	require.Equal(t, before, acls(), "a start changes nothing")

	_, err := admin.Exec(t.Context(), `GRANT ALL ON dlq.dlq_audit, dlq.dlq_messages TO `+p.Application)
	require.NoError(t, err)
	for _, role := range []string{p.Application, "PUBLIC"} {
		_, err = admin.Exec(t.Context(), `GRANT UPDATE (subject), REFERENCES (id) ON dlq.dlq_audit TO `+role)
		require.NoError(t, err)
	}
	_, err = admin.Exec(t.Context(), `GRANT DELETE ON dlq.dlq_audit, dlq.dlq_audit_runs TO PUBLIC`)
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `REVOKE ALL ON dlq.dlq_jobs FROM `+p.Application)
	require.NoError(t, err)
	require.NoError(t, p.Migrate(t, migrator))
	requireDenied(t, pool, `TRUNCATE dlq.dlq_messages`)
	requireDenied(t, pool, `DELETE FROM dlq.dlq_audit`)
	requireDenied(t, pool, `DELETE FROM dlq.dlq_audit_runs`)
	requireDenied(t, pool, `UPDATE dlq.dlq_audit SET subject = 'bob'`)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET state = state`)
	require.NoError(t, err)
	before = acls()
	require.NoError(t, p.Migrate(t, migrator))
	require.Equal(t, before, acls(), "there is nothing left to revoke")
}

func TestARoleThatCouldChangeTheAuditIsRefused(t *testing.T) {
	t.Parallel()
	p := dbtest.NewProtected(t)
	migrator := p.User(t, p.Owner)
	application := p.Application
	for role, want := range map[string]string{p.Owner: "it has the rights of the owner", userOf(t, migrator): "it has the rights of the owner",
		"no_such_role": "there is no such role"} {
		p.Application = role
		require.ErrorContains(t, p.Migrate(t, migrator), want)
	}
	p.Application = application
	require.NoError(t, p.Migrate(t, migrator))
}
