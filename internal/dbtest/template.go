package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dlqmanager/migrations"
)

// templateLock lets one test program at a time create the template on a shared server. The
// number is arbitrary.
const templateLock = 7_305_011_990_413

var template struct {
	sync.Mutex
	name string
}

// templateName creates the template unless it exists. Its name contains a hash of the
// migrations, so test programs of different checkouts do not conflict.
func templateName(ctx context.Context) (string, error) {
	template.Lock()
	defer template.Unlock()
	if template.name != "" {
		return template.name, nil
	}
	admin, err := serverURL()
	if err != nil {
		return "", err
	}
	name, err := migrationsName()
	if err != nil {
		return "", err
	}
	if err := createTemplate(ctx, admin, name); err != nil {
		return "", fmt.Errorf("make the template database: %w", err)
	}
	template.name = name
	return name, nil
}

func createTemplate(ctx context.Context, admin, name string) error {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // also releases the lock
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return err
	}
	// IS_TEMPLATE is set last, so a database that is a template is complete.
	var complete bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)", name).Scan(&complete)
	if err != nil || complete {
		return err
	}
	quoted := pgx.Identifier{name}.Sanitize()
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + quoted + " WITH (FORCE)",
		"CREATE DATABASE " + quoted + " TEMPLATE template0",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	pool, err := pgxpool.New(ctx, withDatabase(admin, name))
	if err != nil {
		return err
	}
	err = migrations.Up(ctx, pool)
	pool.Close() // a database with connections cannot be copied
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+quoted+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")
	return err
}

func migrationsName() (string, error) {
	hash := sha256.New()
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := migrations.Files.ReadFile(name)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
	}
	return "dlq_template_" + hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
