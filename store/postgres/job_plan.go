package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// deletePlansSQL deletes some plans that expired more than a day ago. For that day, the start of an expired plan can fail with
// the reason.
const deletePlansSQL = `
DELETE FROM dlq.dlq_plans
WHERE id = ANY (ARRAY(
	SELECT id FROM dlq.dlq_plans WHERE expires_at < now() - interval '1 day' ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED))`

const createPlanSQL = `
INSERT INTO dlq.dlq_plans (id, spec, upper_bound, snapshot_at, effect, summary, expires_at)
VALUES (@id, @spec::jsonb, @upper_bound, @snapshot_at, @effect::jsonb, @summary::jsonb, clock_timestamp() + @seconds * interval '1 second')
RETURNING expires_at`

const planSQL = `
SELECT id, spec, upper_bound, snapshot_at, effect, summary, expires_at, EXISTS (SELECT FROM dlq.dlq_jobs WHERE id = @id)
FROM dlq.dlq_plans
WHERE id = @id`

// CreatePlan stores a plan, which expires after ttl, and deletes some plans that expired more than a day ago.
func (s *Store) CreatePlan(ctx context.Context, p dlq.JobPlan, ttl time.Duration) (dlq.JobPlan, error) {
	args := pgx.NamedArgs{"id": uuid(p.ID), "spec": p.Spec.Storable(), "upper_bound": p.UpperBound,
		"snapshot_at": timestamptz(p.SnapshotAt), "effect": p.Effect, "summary": p.Summary, "seconds": ttl.Seconds()}
	expires, _, err := queryOne(ctx, s, "create plan", pgx.RowTo[time.Time], createPlanSQL, args, byIndexSQL, deletePlansSQL)
	p.ExpiresAt = expires.UTC()
	return p, err
}

// Plan returns a plan, or dlq.ErrNotFound. An expired plan is found for a day or longer. Plan returns
// dlq.ErrSpecUnreadable if the specification cannot be read.
func (s *Store) Plan(ctx context.Context, id dlq.ID) (dlq.JobPlan, error) {
	return queryExisting(ctx, s, "read plan", dlq.ErrNotFound, scanPlan, planSQL, pgx.NamedArgs{"id": uuid(id)})
}

func scanPlan(row pgx.CollectableRow) (p dlq.JobPlan, err error) {
	var spec, effect, summary []byte
	err = row.Scan((*[16]byte)(&p.ID), &spec, &p.UpperBound, instant{&p.SnapshotAt}, &effect, &summary, instant{&p.ExpiresAt}, &p.IsStarted)
	if err == nil {
		p.Spec, err = decodeSpec(spec)
	}
	isReadable := slices.Contains(dlq.JobKinds, p.Spec.Kind) && json.Unmarshal(effect, &p.Effect) == nil && json.Unmarshal(summary, &p.Summary) == nil
	if err == nil && !isReadable {
		err = dlq.ErrSpecUnreadable
	}
	return p, err
}
