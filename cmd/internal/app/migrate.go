package app

import (
	"context"
	"errors"
	"io"

	"go.uber.org/zap"

	"dlqmanager/config"
)

// Migrate applies the migrations and ends. An installation runs this command before it replaces the programs, so that no other
// command needs the rights of the tables' owner. Migrate tries once: the caller decides whether to try again.
func Migrate(ctx context.Context, cfg *config.Config, out io.Writer) error {
	if !cfg.Database.Configured() {
		return errors.New("database is not configured: there is nothing to migrate. Set database.host (DLQ_DATABASE_HOST)")
	}
	p, err := assemble(cfg, "migrate", out)
	if err != nil {
		return err
	}
	defer p.close()
	if err := p.explained("database", p.migrate(false))(ctx); err != nil {
		return err
	}
	p.log.Info("the database has the schema of this version", zap.String("host", cfg.Database.Host))
	return nil
}
