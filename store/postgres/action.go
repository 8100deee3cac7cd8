package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dlqmanager/dlq"
)

// actionsSQL reads bulk actions. Their rate is computed as for bulk retries
// (bulksSQL).
const actionsSQL = `
SELECT a.id, a.workflow_id, a.spec, a.state, a.reason, a.upper_bound, a.matched, NOT a.counted, a.changed, a.skipped,
	CASE
		WHEN w.age < 10 THEN a.window_count + a.previous_count * (1 - w.age / 10)
		WHEN w.age < 20 THEN a.window_count * (2 - w.age / 10)
		ELSE 0 END
		/ least(10, greatest(1, extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM a.started_at)::float8)),
	a.started_at, a.updated_at, a.ended_at
FROM dlq.dlq_bulk_actions a
CROSS JOIN LATERAL (
	SELECT greatest(0, extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM a.window_started_at)::float8) AS age
) AS w
WHERE a.ended_at IS NULL /* condition */
ORDER BY a.started_at DESC, a.id DESC
LIMIT @limit`

// actions reads the bulk actions that meet a condition on a, the newest first. A nil limit
// reads all of them.
func (s *Store) actions(ctx context.Context, operation, condition string, args pgx.NamedArgs) ([]dlq.BulkAction, error) {
	return queryAll(ctx, s, operation, scanAction, strings.Replace(actionsSQL, "a.ended_at IS NULL /* condition */", condition, 1), args)
}

func scanAction(row pgx.CollectableRow) (dlq.BulkAction, error) {
	var a dlq.BulkAction
	var spec []byte
	err := row.Scan((*[16]byte)(&a.ID), &a.WorkflowID, &spec, (*string)(&a.State), &a.Reason, &a.UpperBound, &a.Matched, &a.Counting,
		&a.Changed, &a.Skipped, &a.RecentPerSecond, instant{&a.StartedAt}, instant{&a.UpdatedAt}, optionalInstant{&a.EndedAt})
	if err != nil {
		return dlq.BulkAction{}, err
	}
	a.Spec, err = decodeSpec[dlq.ActionSpec](spec)
	if err == nil && (a.Spec.Topic == "" || len(a.Spec.Action.Statuses()) == 0) {
		a.Spec, err = dlq.ActionSpec{}, fmt.Errorf("%w: %w", dlq.ErrSpecUnreadable, errNoAction)
	}
	if err != nil { // an unreadable row must not hide the others
		a.Reason = err.Error()
	}
	return a, nil
}

// errNoAction refuses a specification that some other program has written.
var errNoAction = errors.New("it has no topic or no known action")

// checkReadable returns dlq.ErrSpecUnreadable when the specification of the job could not be
// decoded.
func checkReadable(a *dlq.BulkAction) error {
	if a.Spec.Action == "" {
		return fmt.Errorf("bulk action %s: %w", a.ID, dlq.ErrSpecUnreadable)
	}
	return nil
}

// Action returns a bulk action, or dlq.ErrNotFound.
func (s *Store) Action(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	actions, err := s.actions(ctx, "read bulk action", "a.id = @id", pgx.NamedArgs{"id": uuid(id), "limit": 1})
	if err == nil && len(actions) == 0 {
		err = dlq.ActionNotFound(id)
	}
	if err != nil {
		return dlq.BulkAction{}, err
	}
	return actions[0], nil
}

// Actions returns the newest bulk actions, the newest first, of the topics that match an
// expression; empty for all.
func (s *Store) Actions(ctx context.Context, within string, limit int) ([]dlq.BulkAction, error) {
	return s.actions(ctx, "list bulk actions", "(@within = '' OR a.topic ~ @within)", pgx.NamedArgs{"limit": max(limit, 0), "within": within})
}

// ActionOwners is BulkOwners for bulk actions.
func (s *Store) ActionOwners(ctx context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	return s.jobOwners(ctx, dlq.TargetBulkAction, startedBefore)
}

const stopActionSQL = `
WITH changed AS (
	UPDATE dlq.dlq_bulk_actions
	SET state = 'CANCELLING', reason = @reason, updated_at = now()
	WHERE id = @id AND state = 'RUNNING'
	RETURNING id, topic
) /* audit */
SELECT id, topic FROM changed`

// StopAction makes a running bulk action CANCELLING. Afterwards the job changes no
// message any more. A job in another state does not change. StopAction returns the bulk
// action, or dlq.ErrNotFound.
func (s *Store) StopAction(ctx context.Context, id dlq.ID, reason string) (dlq.BulkAction, error) {
	err := s.changeJob(ctx, "stop bulk action", dlq.TargetBulkAction, stopActionSQL,
		pgx.NamedArgs{"id": uuid(id), "reason": dlq.StorableText(reason)})
	if err != nil {
		return dlq.BulkAction{}, err
	}
	return s.Action(ctx, id)
}

const explainActionSQL = `
UPDATE dlq.dlq_bulk_actions
SET reason = @reason, updated_at = now()
WHERE id = @id AND state = 'RUNNING'`

// ExplainAction records why a running bulk action does not continue. The next batch that
// succeeds clears the reason. Only an answer of the server is recorded word for word: other errors
// name hosts and users.
func (s *Store) ExplainAction(ctx context.Context, id dlq.ID, cause error) error {
	reason := dlq.ErrUnavailable.Error()
	var refusal *pgconn.PgError
	var connect *pgconn.ConnectError
	if errors.As(cause, &refusal) && !errors.As(cause, &connect) {
		reason = cause.Error()
	}
	return s.batch(ctx, "explain bulk action", func(batch *pgx.Batch) {
		batch.Queue(explainActionSQL, pgx.NamedArgs{"id": uuid(id), "reason": dlq.StorableText(reason)})
	})
}

const endActionSQL = `
WITH ended AS (
	UPDATE dlq.dlq_bulk_actions
	SET state = @state, reason = @reason, ended_at = now(), updated_at = now(), counted = true,
		matched = greatest(matched, changed), skipped = greatest(matched - changed, 0)
	WHERE id = @id AND ended_at IS NULL
	RETURNING id, topic, workflow_id, jsonb_build_object('state', state, 'reason', reason, 'matched', matched,
		'changed', changed, 'skipped', skipped) AS counts
)` + recordEnd

// EndAction ends a bulk action. Afterwards the job changes no message any more. A
// second call changes nothing. EndAction returns the bulk action, or dlq.ErrNotFound.
func (s *Store) EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error) {
	if !state.IsFinal() {
		return dlq.BulkAction{}, fmt.Errorf("store: end bulk action %s: %s is not an end", id, state)
	}
	if err := s.endJob(ctx, dlq.TargetBulkAction, endActionSQL, id, state, reason); err != nil {
		return dlq.BulkAction{}, err
	}
	return s.Action(ctx, id)
}
