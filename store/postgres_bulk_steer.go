package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"dlqmanager/dlq"
)

// steerTimeout bounds a change of state: it holds locks that the lanes wait for.
const steerTimeout = time.Minute

// steering is a job whose row is locked.
type steering struct {
	tx    pgx.Tx
	id    dlq.ID
	owner dlq.Owner
	state dlq.BulkState
	lanes int
}

// steer changes the state of a job. All who lock more than one of them lock the
// job's row first, then the lanes', then the messages'.
func (p *Postgres) steer(ctx context.Context, what string, id dlq.ID, change func(context.Context, steering) error) (dlq.BulkRetry, error) {
	ctx, cancel := context.WithTimeout(ctx, steerTimeout)
	defer cancel()
	err := again(func() error {
		return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			s := steering{tx: tx, id: id, owner: dlq.Owner{RunID: id.String()}}
			err := tx.QueryRow(ctx, `SELECT workflow_id, state, lanes FROM dlq.dlq_bulk_retries WHERE id = $1 FOR UPDATE`, uuid(id)).
				Scan(&s.owner.WorkflowID, (*string)(&s.state), &s.lanes)
			if err != nil {
				return err
			}
			return change(ctx, s)
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return dlq.BulkRetry{}, bulkNotFound(id)
	}
	if err != nil {
		return dlq.BulkRetry{}, failed(what, err)
	}
	return p.Bulk(ctx, id)
}

// standstill waits for the pages that lanes are claiming or finalizing right
// now, lets none claim any more, and gives back what the job still owns. A claim
// that has waited for the lane meanwhile sees that it was rewound.
func (s steering) standstill(ctx context.Context) error {
	_, err := s.tx.Exec(ctx, `UPDATE dlq.dlq_bulk_retry_lanes SET closed = true, rewinds = rewinds + 1 WHERE bulk_id = $1`, uuid(s.id))
	if err != nil {
		return err
	}
	returned, err := release(ctx, s.tx, s.owner, dlq.ResultReturned, "", &rewind{bulk: s.id, lanes: s.lanes})
	if err != nil || returned == 0 {
		return err
	}
	_, err = s.tx.Exec(ctx, `UPDATE dlq.dlq_bulk_retries SET allowance = allowance + $2 WHERE id = $1 AND allowance IS NOT NULL`,
		uuid(s.id), returned)
	return err
}

func (s steering) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.tx.Exec(ctx, sql, append([]any{uuid(s.id)}, args...)...)
	return err
}

// PauseBulk stops a running bulk retry for now: nothing is claimed for it, and
// what it still owns goes back as it was, to be claimed again in its turn. On
// one that is paused it only replaces the reason; one that has ended stays as it
// is. It returns the bulk retry, or dlq.ErrNotFound.
func (p *Postgres) PauseBulk(ctx context.Context, id dlq.ID, reason string) (dlq.BulkRetry, error) {
	return p.steer(ctx, "pause bulk retry", id, func(ctx context.Context, s steering) error {
		switch {
		case s.state.IsFinal():
			return nil
		case s.state == dlq.BulkRunning:
			if err := s.standstill(ctx); err != nil {
				return err
			}
		}
		return s.exec(ctx, `UPDATE dlq.dlq_bulk_retries SET state = 'PAUSED', reason = $2, updated_at = now()
			WHERE id = $1 AND (state, reason) <> ('PAUSED', $2)`, text(reason))
	})
}

// ResumeBulk lets a paused bulk retry go on. Any other stays as it is. It
// returns the bulk retry, or dlq.ErrNotFound.
func (p *Postgres) ResumeBulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	return p.steer(ctx, "resume bulk retry", id, func(ctx context.Context, s steering) error {
		if s.state != dlq.BulkPaused {
			return nil
		}
		err := s.exec(ctx, `UPDATE dlq.dlq_bulk_retries SET state = 'RUNNING', reason = '', updated_at = now(), next_at = clock_timestamp()
			WHERE id = $1`)
		if err != nil {
			return err
		}
		return s.exec(ctx, `UPDATE dlq.dlq_bulk_retry_lanes SET closed = false WHERE bulk_id = $1`)
	})
}

const endBulkSQL = `
UPDATE dlq.dlq_bulk_retries b
SET state = $2, reason = $3, ended_at = now(), updated_at = now(), counted = true,
	matched = greatest(b.matched, l.done), skipped = greatest(b.matched - l.done, 0)
FROM (SELECT COALESCE(sum(retried + failed + dead + skipped), 0)::bigint AS done FROM dlq.dlq_bulk_retry_lanes WHERE bulk_id = $1) AS l
WHERE b.id = $1`

// EndBulk ends a bulk retry: nothing can be claimed for it any more, what it
// still owns goes back as it was, and what was matched but not sent is counted
// as skipped. One that ends before it was counted has matched what it has done.
// Ending it again changes nothing; the first end counts. It returns the bulk
// retry, or dlq.ErrNotFound.
func (p *Postgres) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if !state.IsFinal() {
		return dlq.BulkRetry{}, notAnEnd(id, state)
	}
	return p.steer(ctx, "end bulk retry", id, func(ctx context.Context, s steering) error {
		if s.state.IsFinal() {
			return nil
		}
		if err := s.standstill(ctx); err != nil {
			return err
		}
		return s.exec(ctx, endBulkSQL, string(state), text(reason))
	})
}

func notAnEnd(id dlq.ID, state dlq.BulkState) error {
	return fmt.Errorf("store: end bulk retry %s: %s is not an end", id, state)
}

// SetBulkRate sets how many messages per second all lanes together may claim; 0
// lifts the limit. One that has ended keeps its limit. It returns
// dlq.ErrNotFound when there is no such bulk retry.
func (p *Postgres) SetBulkRate(ctx context.Context, id dlq.ID, rate int) error {
	return p.limit(ctx, "set rate of bulk retry", id, `rate_limit = $2`, count32(rate))
}

// SetBulkAllowance sets how many more messages all lanes together may claim; nil
// lifts the limit. One that has ended keeps what it had. It returns
// dlq.ErrNotFound when there is no such bulk retry.
func (p *Postgres) SetBulkAllowance(ctx context.Context, id dlq.ID, messages *int64) error {
	if messages != nil {
		messages = optional(max(*messages, 0), false)
	}
	return p.limit(ctx, "set allowance of bulk retry", id, `allowance = $2`, messages)
}

func (p *Postgres) limit(ctx context.Context, what string, id dlq.ID, assignment string, value any) error {
	var found bool
	err := again(func() error {
		return p.pool.QueryRow(ctx, `
			WITH changed AS (
				UPDATE dlq.dlq_bulk_retries SET `+assignment+`, updated_at = now()
				WHERE id = $1 AND state IN ('RUNNING', 'PAUSED')
			)
			SELECT EXISTS (SELECT FROM dlq.dlq_bulk_retries WHERE id = $1)`, uuid(id), value).Scan(&found)
	})
	if err != nil {
		return failed(what, err)
	}
	if !found {
		return bulkNotFound(id)
	}
	return nil
}

// NoteBulk records why a running bulk retry waits; an empty reason says that it
// no longer does. One that is paused or has ended keeps the reason for that.
func (p *Postgres) NoteBulk(ctx context.Context, id dlq.ID, reason string) error {
	err := again(func() error {
		_, err := p.pool.Exec(ctx, `UPDATE dlq.dlq_bulk_retries SET reason = $2, updated_at = now()
			WHERE id = $1 AND state = 'RUNNING' AND reason <> $2`, uuid(id), text(reason))
		return err
	})
	if err != nil {
		return failed("note bulk retry", err)
	}
	return nil
}
