package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Roles are the database roles of an installation whose programs do not own its tables. The
// zero value stands for a single user that owns everything.
type Roles struct {
	// Credentials are the credentials of the user that migrates. Nil stands for the pool's.
	Credentials func() (user, password string, err error)
	// Owner is the role that owns the schema; the user that migrates is a member of that role. If Owner
	// is empty, that user owns the schema.
	Owner string
	// Application is the role whose members are the users of the programs. It gets the rights
	// that the programs need. If Application is empty, no rights are granted.
	Application string
}

// configure makes connections use the credentials, and act as the owner.
func (r Roles) configure(config *pgxpool.Config) {
	if r.Credentials != nil {
		before := config.BeforeConnect // reads the certificates
		config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) (err error) {
			if before != nil {
				if err := before(ctx, c); err != nil {
					return err
				}
			}
			c.User, c.Password, err = r.Credentials()
			return err
		}
	}
	if r.Owner == "" {
		return
	}
	before := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `SET ROLE `+pgx.Identifier{r.Owner}.Sanitize()); err != nil {
			return fmt.Errorf("act as the role that owns the schema: %w", err)
		}
		return before(ctx, conn)
	}
}

// mayOwnSQL tells whether a role has the rights of the owner of the audit. Such a role could change
// the audit.
const mayOwnSQL = `
SELECT r.oid, pg_has_role(r.oid, c.relowner, 'MEMBER')
FROM pg_roles r, pg_class c
WHERE r.rolname = @role AND c.oid = 'dlq.dlq_audit'::regclass`

// grantsSQL writes the statements that give a role its rights. It leaves out objects on which the role already has
// exactly its rights, so a second start changes nothing. The role can read and add rows of the audit, but
// neither change nor delete them. A REVOKE of the rights to a table also revokes the rights to its columns. The
// rights of PUBLIC to the audit are revoked, since the role would have them too.
const grantsSQL = `
WITH object AS (
	SELECT 'SCHEMA' AS kind, quote_ident(nspname) AS name, nspacl AS acl, '{USAGE}'::text[] AS wanted, false AS is_audit, 0::oid AS relation
	FROM pg_namespace
	WHERE nspname = 'dlq'
	UNION ALL
	SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, relnamespace::regnamespace || '.' || quote_ident(relname), relacl,
		CASE
			WHEN relkind = 'S' THEN '{SELECT,USAGE}'
			WHEN relkind = 'v' OR relname IN ('dlq_schema', 'dlq_schema_files') OR relnamespace <> 'dlq'::regnamespace THEN '{SELECT}'
			WHEN relname IN ('dlq_audit', 'dlq_audit_runs') THEN '{INSERT,SELECT}'
			ELSE '{DELETE,INSERT,SELECT,UPDATE}'
		END::text[], relname IN ('dlq_audit', 'dlq_audit_runs'), oid
	FROM pg_class
	WHERE relnamespace = 'dlq'::regnamespace AND relkind IN ('r', 'p', 'v', 'S') OR oid = 'public.schema_migrations'::regclass
	UNION ALL
	SELECT 'ROUTINE', oid::regprocedure::text, proacl, '{EXECUTE}', false, 0
	FROM pg_proc
	WHERE pronamespace = 'dlq'::regnamespace AND prorettype <> 'trigger'::regtype
)
SELECT format('REVOKE ALL ON %1$s %2$s FROM %4$I%5$s; GRANT %3$s ON %1$s %2$s TO %4$I',
	kind, name, array_to_string(wanted, ', '), @role::text, CASE WHEN is_audit THEN ', PUBLIC' END)
FROM object
WHERE wanted IS DISTINCT FROM (
	SELECT array_agg(privilege_type ORDER BY privilege_type)
	FROM aclexplode(acl)
	WHERE grantee = @oid)
OR is_audit AND EXISTS (SELECT FROM aclexplode(acl) WHERE grantee = 0)
OR EXISTS (
	SELECT
	FROM pg_attribute, aclexplode(attacl)
	WHERE attrelid = relation AND (grantee = @oid OR is_audit AND grantee = 0))
ORDER BY kind, name`

// errApplicationOwns refuses a set-up in which the audit is not protected.
var errApplicationOwns = errors.New("it has the rights of the owner of dlq.dlq_audit, so the programs could change the audit: " +
	"let another role own the tables (database.migrations.role)")

var errNoSuchRole = errors.New("there is no such role")

// grant gives the role its rights, in a transaction.
func grant(ctx context.Context, pool *pgxpool.Pool, role string) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		args := pgx.NamedArgs{"role": role}
		var oid uint32
		var mayOwn bool
		err := tx.QueryRow(ctx, mayOwnSQL, args).Scan(&oid, &mayOwn)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return errNoSuchRole
		case err != nil:
			return err
		case mayOwn:
			return errApplicationOwns
		}
		args["oid"] = oid
		rows, err := tx.Query(ctx, grantsSQL, args)
		if err != nil {
			return err
		}
		statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, sql := range statements {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("grant rights to the role %q: %w", role, err)
	}
	return nil
}
