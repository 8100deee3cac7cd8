package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// action is a bulk action.
type action struct {
	dlq.BulkAction
	snapshotAt time.Time // messages that changed later are not changed
	cursor     int64     // the Seq of the last message that was read
	window     rateWindow
}

// snapshot is the bulk action at a time.
func (a *action) snapshot(at time.Time) dlq.BulkAction {
	s := a.BulkAction
	s.Spec = s.Spec.Storable()
	s.RecentPerSecond = a.window.recent(at) / min(10, max(1, at.Sub(s.StartedAt).Seconds()))
	return s
}

// includes reports whether the job changes the message.
func (a *action) includes(e *entry) bool {
	return e.Seq <= a.UpperBound && !e.UpdatedAt.After(a.snapshotAt) && matches(e, &a.Spec.Filter) &&
		slices.Contains(a.Spec.Action.Statuses(), e.Status)
}

// act applies an action to a message whose status allows it. The error is why a message is not restored.
func (m *Store) act(what dlq.Action, e *entry) error {
	switch what {
	case dlq.ActionRevive:
		e.Status, e.Resolution, e.Owner, e.UpdatedAt = dlq.StatusPending, "", dlq.Owner{}, m.now()
		e.RetryCount, e.MaxRetries = 0, max(e.MaxRetries, 1)
	case dlq.ActionDead:
		if e.Status != dlq.StatusRetrying {
			e.Owner = dlq.Owner{}
		}
		e.Status, e.Resolution, e.UpdatedAt = dlq.StatusDead, dlq.ResolutionGivenUp, m.now()
		e.keepDelivery()
	case dlq.ActionDelete:
		m.remove(e)
		delete(m.knownIDs, e.ID)
	case dlq.ActionRestore:
		return m.restore(e)
	}
	return nil
}

// CreateAction is like postgres.Store.CreateAction.
func (m *Store) CreateAction(ctx context.Context, a dlq.BulkAction) (dlq.BulkAction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec := a.Spec.Storable()
	for _, other := range m.actions {
		if other.State.IsFinal() || !m.share(&spec.Filter, &other.Spec.Filter) {
			continue
		}
		if !other.Spec.IsSameWork(spec) {
			return dlq.BulkAction{}, &dlq.ActionBusyError{Topic: spec.Topic, Running: other.ID}
		}
		m.recordJoin(ctx, dlq.TargetBulkAction, other.Owner(), other.ID, spec.Topic)
		return other.snapshot(m.now()), nil
	}
	started := m.now()
	n := &action{snapshotAt: started, window: rateWindow{startedAt: started}, BulkAction: dlq.BulkAction{
		ID: a.ID, WorkflowID: a.WorkflowID, Spec: spec, State: dlq.BulkRunning, UpperBound: m.lastSeq, Counting: true,
		StartedAt: started, UpdatedAt: started}}
	m.actions = append(m.actions, n)
	m.recordCreation(ctx, dlq.TargetBulkAction, n.Owner(), a.ID, spec.Topic)
	return n.snapshot(started), nil
}

// share reports whether the topics and limits of two jobs are equal, or match the same
// message.
func (m *Store) share(a, b *dlq.Filter) bool {
	return a.Topic == b.Topic && a.Within == b.Within || slices.ContainsFunc(m.order, func(e *entry) bool {
		return inTopic(e, a.Topic) && inTopic(e, b.Topic) && isWithin(e.DLQTopic, a.Within) && isWithin(e.DLQTopic, b.Within)
	})
}

// steerAction runs change on a job. change returns false when it left the job unchanged.
func (m *Store) steerAction(id dlq.ID, change func(a *action, at time.Time) bool) (dlq.BulkAction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.actions, func(a *action) bool { return a.ID == id })
	if i < 0 {
		return dlq.BulkAction{}, dlq.ActionNotFound(id)
	}
	a, at := m.actions[i], m.now()
	if change(a, at) {
		a.UpdatedAt = at
	}
	return a.snapshot(at), nil
}

// CountAction is like postgres.Store.CountAction.
func (m *Store) CountAction(_ context.Context, id dlq.ID) (dlq.BulkAction, error) {
	return m.steerAction(id, func(a *action, _ time.Time) bool {
		if !a.Counting {
			return false
		}
		for _, e := range m.scope(&a.Spec.Filter) {
			if a.includes(e) {
				a.Matched++
			}
		}
		a.Counting = false
		return true
	})
}

// Act is like postgres.Store.Act. It reads in the order of arrival.
func (m *Store) Act(_ context.Context, job dlq.BulkAction, limit int) (step dlq.ActionStep, err error) {
	_, err = m.steerAction(job.ID, func(a *action, at time.Time) bool {
		if a.State != dlq.BulkRunning {
			step.Stopped = true
			return false
		}
		order := m.scope(&a.Spec.Filter)
		from, _ := indexOf(order, a.cursor+1)
		next := order[from:min(from+limit, len(order))]
		for _, e := range slices.Clone(next) {
			a.cursor = e.Seq
			if a.includes(e) && (a.Spec.Action != dlq.ActionRevive || !e.mayBeOnItsWay(at)) && m.act(a.Spec.Action, e) == nil {
				step.Changed++
			}
		}
		a.Changed += step.Changed
		a.window.add(step.Changed, at)
		a.Reason = ""
		step.Total, step.Done = a.Changed, len(next) < limit
		return true
	})
	return step, err
}

// ExplainAction is like postgres.Store.ExplainAction.
func (m *Store) ExplainAction(_ context.Context, id dlq.ID, cause error) error {
	_, err := m.steerAction(id, func(a *action, _ time.Time) bool {
		if a.State != dlq.BulkRunning {
			return false
		}
		a.Reason = dlq.StorableText(cause.Error())
		return true
	})
	return err
}

// StopAction is like postgres.Store.StopAction.
func (m *Store) StopAction(ctx context.Context, id dlq.ID, reason string) (dlq.BulkAction, error) {
	return m.steerAction(id, func(a *action, _ time.Time) bool {
		if a.State != dlq.BulkRunning {
			return false
		}
		a.State, a.Reason = dlq.BulkCancelling, dlq.StorableText(reason)
		m.record(ctx, dlq.TargetBulkAction, id, a.Spec.Topic)
		return true
	})
}

// EndAction is like postgres.Store.EndAction.
func (m *Store) EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error) {
	if !state.IsFinal() {
		return dlq.BulkAction{}, fmt.Errorf("store: end bulk action %s: %s is not an end", id, state)
	}
	return m.steerAction(id, func(a *action, at time.Time) bool {
		if a.State.IsFinal() {
			return false
		}
		a.State, a.Reason, a.EndedAt, a.Counting = state, dlq.StorableText(reason), &at, false
		a.Skipped, a.Matched = max(a.Matched-a.Changed, 0), max(a.Matched, a.Changed)
		m.recordEnd(ctx, dlq.TargetBulkAction, dlq.PermBulkActionCreate, a.Owner(), state, id, a.Spec.Topic, map[string]any{
			"state": state, "reason": a.Reason, "matched": a.Matched, "changed": a.Changed, "skipped": a.Skipped})
		return true
	})
}

// Action is like postgres.Store.Action.
func (m *Store) Action(_ context.Context, id dlq.ID) (dlq.BulkAction, error) {
	return m.steerAction(id, func(*action, time.Time) bool { return false })
}

// Actions is like postgres.Store.Actions.
func (m *Store) Actions(_ context.Context, within string, limit int) ([]dlq.BulkAction, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []dlq.BulkAction
	at := m.now()
	for _, a := range slices.Backward(m.actions) {
		if len(list) >= limit {
			break
		}
		if isWithin(a.Spec.Topic, within) {
			list = append(list, a.snapshot(at))
		}
	}
	return list, nil
}

// ActionOwners is like postgres.Store.ActionOwners.
func (m *Store) ActionOwners(_ context.Context, startedBefore time.Time) ([]dlq.Owner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var owners []dlq.Owner
	for _, a := range m.actions {
		if !a.State.IsFinal() && a.StartedAt.Before(startedBefore) {
			owners = append(owners, a.Owner())
		}
	}
	return owners, nil
}

// PreviewAction is like postgres.Store.PreviewAction.
func (m *Store) PreviewAction(_ context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	spec = spec.Storable()
	byStatus, byGroup := map[dlq.Status]int64{}, map[dlq.ID]int64{}
	var sample []dlq.Message
	for _, e := range m.scope(&spec.Filter) {
		if !matches(e, &spec.Filter) {
			continue
		}
		byStatus[e.Status]++
		if !slices.Contains(spec.Action.Statuses(), e.Status) {
			continue
		}
		byGroup[e.GroupID]++
		if len(sample) < dlq.PreviewSample {
			sample = append(sample, e.Listed())
		}
	}
	preview := dlq.NewActionPreview(spec.Action, byStatus, sample)
	preview.ByGroup, preview.Groups = m.largestGroups(byGroup)
	return preview, nil
}
