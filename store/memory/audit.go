package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// record records the operation of ctx, if it has one, on what the caller has changed.
func (m *Store) record(ctx context.Context, target dlq.OperationTarget, id dlq.ID, topic string) {
	if o, found := dlq.StoredOperation(ctx, target, dlq.OperationDone); found {
		m.append(o.On(id, topic))
	}
}

// recordCreation records the operation of ctx, which has created a job.
func (m *Store) recordCreation(ctx context.Context, target dlq.OperationTarget, job dlq.Owner, id dlq.ID, topic string) {
	if o, found := dlq.StoredOperation(ctx, target, dlq.OperationAccepted); found {
		m.append(o.Created(job, id, topic))
	}
}

// recordJoin records the operation of ctx, which has joined a job.
func (m *Store) recordJoin(ctx context.Context, target dlq.OperationTarget, job dlq.Owner, id dlq.ID, topic string) {
	if o, found := dlq.StoredOperation(ctx, target, dlq.OperationAccepted); found {
		m.append(o.Joined(job, id, topic))
	}
}

// recordEnd records the end of a job on behalf of whoever ends it, or else of whoever
// created it.
func (m *Store) recordEnd(ctx context.Context, target dlq.OperationTarget, created dlq.Permission, job dlq.Owner, state dlq.BulkState,
	id dlq.ID, topic string, counts map[string]any,
) {
	o, found := dlq.OperationOf(ctx)
	if !found {
		i := slices.IndexFunc(m.operations, func(o dlq.Operation) bool {
			return o.TargetID == id && o.Action == created && o.Outcome == dlq.OperationAccepted
		})
		if i < 0 {
			return
		}
		o = m.operations[i]
	}
	o.ID, o.Target, o.TargetID, o.Outcome, o.WorkflowID = dlq.NewID(), target, id, dlq.OutcomeOf(state), job.WorkflowID
	o.Detail, _ = json.Marshal(counts) // of texts and numbers
	m.append(o.Storable().On(id, topic))
}

// append needs the lock.
func (m *Store) append(o dlq.Operation) {
	o.At = m.now()
	m.operations = append(m.operations, o)
	if m.Audit != nil {
		m.Audit(o)
	}
}

// RecordOperation is like postgres.Store.RecordOperation.
func (m *Store) RecordOperation(_ context.Context, o dlq.Operation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.append(o.Identified().Storable())
	return nil
}

// OperationsOf is like postgres.Store.OperationsOf.
func (m *Store) OperationsOf(_ context.Context, messages []dlq.ID, tokens []string) (map[string]dlq.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	operations := map[string]dlq.ID{}
	for _, o := range slices.Backward(m.operations) { // the first operation of a job has created it
		token := m.runs[o.ID]
		if o.Action == dlq.PermBulkRetryCreate && o.Outcome == dlq.OperationAccepted {
			token = o.TargetID.String()
		} else if !slices.Contains(messages, o.TargetID) {
			continue
		}
		if token != "" && slices.Contains(tokens, token) {
			operations[token] = o.ID
		}
	}
	return operations, nil
}

// Operations is like postgres.Store.Operations.
func (m *Store) Operations(_ context.Context, q dlq.OperationQuery) (page dlq.OperationPage, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	within, err := regexp.Compile(q.Within)
	if err != nil {
		return dlq.OperationPage{}, err
	}
	var room dlq.ListRoom
	for _, o := range slices.Backward(m.operations) {
		if !selects(&q, &o) || !within.MatchString(o.Topic) || q.Within != "" && m.isHiddenJob(&q, &o) {
			continue
		}
		if len(page.Operations) == max(q.PageSize, 1) || !room.Take(o.ListSize()) {
			page.HasNext = true
			break
		}
		page.Operations = append(page.Operations, o)
	}
	return page, nil
}

// isHiddenJob is like visibleJob of package postgres.
func (m *Store) isHiddenJob(q *dlq.OperationQuery, o *dlq.Operation) bool {
	if o.Target != dlq.TargetBulkRetry && o.Target != dlq.TargetBulkAction || m.topics.IsDeadLetter(o.Topic) {
		return false
	}
	if b := m.bulks[o.TargetID]; b != nil {
		return !slices.Contains(q.Limits, b.Spec.Within)
	}
	i := slices.IndexFunc(m.actions, func(a *action) bool { return a.ID == o.TargetID })
	return i < 0 || !slices.Contains(q.Limits, m.actions[i].Spec.Within)
}

// selects reports whether the query selects the operation by everything but Within.
func selects(q *dlq.OperationQuery, o *dlq.Operation) bool {
	return (q.Subject == "" || o.Subject == q.Subject) && (q.Action == "" || o.Action == q.Action) &&
		(q.Topic == "" || o.Topic == q.Topic) && (q.TargetID.IsZero() || o.TargetID == q.TargetID) &&
		(q.Outcome == "" || o.Outcome == q.Outcome) && !o.At.Before(q.From) && (q.To.IsZero() || o.At.Before(q.To)) &&
		(q.After == nil || compareCursors(o.Cursor(), *q.After) < 0)
}

func compareCursors(a, b dlq.OperationCursor) int {
	return cmp.Or(a.At.Compare(b.At), slices.Compare(a.ID[:], b.ID[:]))
}

// PurgeOperations is like postgres.Store.PurgeOperations.
func (m *Store) PurgeOperations(_ context.Context, olderThan time.Duration, limit int) (purged int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cutoff := m.now().Add(-max(olderThan, dlq.AuditFloor))
	for len(m.operations) > 0 && purged < int64(limit) && m.operations[0].At.Before(cutoff) {
		m.operations = m.operations[1:]
		purged++
	}
	return purged, nil
}
