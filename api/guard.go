package api

import (
	"context"
	"errors"
	"slices"

	"dlqmanager/dlq"
)

// guard is the store as the principal of a request sees it: what belongs to other topics
// does not exist. Handlers reach the store only through it. It reads the principal from the
// context and refuses everything without one, so that a forgotten check fails closed.
//
// A message belongs to its dead-letter topic, and a job to the topic that it names. A job
// of a principal with some topics only is limited to them, even if it names an original
// topic that other dead-letter topics have too.
type guard struct {
	store  Store
	topics *dlq.Topics
}

func (g guard) Topics(ctx context.Context) ([]dlq.TopicSummary, error) {
	a := accessOf(ctx)
	topics, err := g.store.Topics(ctx)
	return slices.DeleteFunc(topics, func(t dlq.TopicSummary) bool { return a.check(t.DLQTopic) != nil }), err
}

func (g guard) List(ctx context.Context, query dlq.ListQuery) (dlq.Page, error) {
	a := accessOf(ctx)
	query.Within = a.within()
	return g.store.List(ctx, query)
}

func (g guard) Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	d, err := g.store.Detail(ctx, id)
	if err == nil {
		err = checkMessage(ctx, &d.Message)
	}
	if err != nil {
		return dlq.Detail{}, err
	}
	return d, nil
}

func (g guard) Message(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	m, err := g.store.Message(ctx, id)
	if err == nil {
		err = checkMessage(ctx, &m)
	}
	if err != nil {
		return dlq.Message{}, err
	}
	return m, nil
}

func checkMessage(ctx context.Context, m *dlq.Message) error {
	a := accessOf(ctx)
	a.concerns(m.ID, m.DLQTopic)
	return a.check(m.DLQTopic)
}

// Chain leaves out the hops of topics that the principal may not see.
func (g guard) Chain(ctx context.Context, id dlq.ID) (dlq.Chain, error) {
	a := accessOf(ctx)
	chain, err := g.store.Chain(ctx, id)
	if err != nil {
		return dlq.Chain{}, err
	}
	chain.Hops = slices.DeleteFunc(chain.Hops, func(h dlq.Hop) bool { return a.check(h.DLQTopic) != nil })
	if !slices.ContainsFunc(chain.Hops, func(h dlq.Hop) bool { return h.ID == id }) {
		return dlq.Chain{}, dlq.MessageNotFound(id)
	}
	return chain, nil
}

// checkID checks a message before it is changed. Its topic never changes.
func (g guard) checkID(ctx context.Context, id dlq.ID) error {
	if a := accessOf(ctx); a.principal.May(a.permission) && a.within() == "" {
		return nil
	}
	_, err := g.Message(ctx, id)
	return err
}

func (g guard) Delete(ctx context.Context, id dlq.ID) error {
	if err := g.checkID(ctx, id); err != nil {
		return err
	}
	return g.store.Delete(audited(ctx), id)
}

func (g guard) MarkDead(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	return g.store.MarkDead(audited(ctx), id)
}

func (g guard) Revive(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	return g.store.Revive(audited(ctx), id)
}

// scope limits a new job to the topics on which the principal has a permission.
func scope(ctx context.Context, f *dlq.Filter, permission dlq.Permission) error {
	a := accessOf(ctx)
	if a.operation != nil { // a job that was closed before it may have been its target
		a.operation.TargetID, a.operation.Topic = dlq.ID{}, f.Topic
	}
	if !a.principal.MayOn(permission, f.Topic) {
		return forbidden(permission, f.Topic)
	}
	f.Within = a.principal.Within(permission)
	return nil
}

// scopeAction checks the permission of the action too. It includes that of the route, which
// has been checked.
func scopeAction(ctx context.Context, spec *dlq.ActionSpec) error {
	return scope(ctx, &spec.Filter, spec.Action.Permission())
}

func (g guard) CreateBulk(ctx context.Context, bulk dlq.BulkRetry) (dlq.BulkRetry, error) {
	if err := scope(ctx, &bulk.Spec.Filter, accessOf(ctx).permission); err != nil {
		return dlq.BulkRetry{}, err
	}
	describe(ctx, &bulk.Spec.Filter, "")
	created, err := g.store.CreateBulk(audited(ctx), bulk)
	if busy, ok := errors.AsType[*dlq.BulkBusyError](err); ok {
		if _, hidden := g.Bulk(ctx, busy.Running); hidden != nil {
			err = &dlq.BulkBusyError{Topic: busy.Topic}
		}
	}
	return created, err
}

func (g guard) PreviewBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error) {
	if err := scope(ctx, &spec.Filter, accessOf(ctx).permission); err != nil {
		return dlq.BulkPreview{}, err
	}
	return g.store.PreviewBulk(ctx, spec)
}

func (g guard) Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	a := accessOf(ctx)
	bulk, err := g.store.Bulk(ctx, id)
	if err == nil {
		a.concerns(id, bulk.Spec.Topic)
		err = g.checkBulk(&a, &bulk.Spec.Filter)
	}
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return bulk, nil
}

// checkBulk also refuses the control of a job that has messages of other topics: one on an
// original topic, unless it has the limits of the principal.
func (g guard) checkBulk(a *access, f *dlq.Filter) error {
	err := a.check(f.Topic)
	if own := a.within(); err == nil && a.permission == dlq.PermBulkRetryControl && own != "" && f.Within != own && !g.topics.IsDeadLetter(f.Topic) {
		return forbidden(a.permission, "every dead-letter topic of "+f.Topic)
	}
	return err
}

// ended makes the end of a job that somebody cancels record the operation of the request.
// The end of a job that was found without a workflow is not theirs.
func ended(ctx context.Context, state dlq.BulkState) context.Context {
	if state == dlq.BulkCancelled {
		return audited(ctx)
	}
	return ctx
}

// Bulks leaves out the jobs of other topics. within is ignored.
func (g guard) Bulks(ctx context.Context, _ string, limit int) ([]dlq.BulkRetry, error) {
	a := accessOf(ctx)
	return g.store.Bulks(ctx, a.within(), limit)
}

func (g guard) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if _, err := g.Bulk(ctx, id); err != nil {
		return dlq.BulkRetry{}, err
	}
	return g.store.EndBulk(ended(ctx, state), id, state, reason)
}

func (g guard) CreateAction(ctx context.Context, action dlq.BulkAction) (dlq.BulkAction, error) {
	if err := scopeAction(ctx, &action.Spec); err != nil {
		return dlq.BulkAction{}, err
	}
	describe(ctx, &action.Spec.Filter, action.Spec.Action)
	created, err := g.store.CreateAction(audited(ctx), action)
	if busy, ok := errors.AsType[*dlq.ActionBusyError](err); ok {
		if _, hidden := g.Action(ctx, busy.Running); hidden != nil {
			err = &dlq.ActionBusyError{Topic: busy.Topic}
		}
	}
	return created, err
}

func (g guard) PreviewAction(ctx context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error) {
	if err := scopeAction(ctx, &spec); err != nil {
		return dlq.ActionPreview{}, err
	}
	return g.store.PreviewAction(ctx, spec)
}

func (g guard) Action(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	a := accessOf(ctx)
	action, err := g.store.Action(ctx, id)
	if err == nil {
		a.concerns(id, action.Spec.Topic)
		err = a.check(action.Spec.Topic)
	}
	if err != nil {
		return dlq.BulkAction{}, err
	}
	return action, nil
}

// Actions leaves out the jobs of other topics. within is ignored.
func (g guard) Actions(ctx context.Context, _ string, limit int) ([]dlq.BulkAction, error) {
	a := accessOf(ctx)
	return g.store.Actions(ctx, a.within(), limit)
}

func (g guard) StopAction(ctx context.Context, id dlq.ID, reason string) (dlq.BulkAction, error) {
	if _, err := g.Action(ctx, id); err != nil {
		return dlq.BulkAction{}, err
	}
	return g.store.StopAction(audited(ctx), id, reason)
}

func (g guard) EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error) {
	if _, err := g.Action(ctx, id); err != nil {
		return dlq.BulkAction{}, err
	}
	return g.store.EndAction(ended(ctx, state), id, state, reason)
}

// Operations leaves out those of other topics, and those without a topic unless the principal
// may see all topics.
func (g guard) Operations(ctx context.Context, query dlq.OperationQuery) (dlq.OperationPage, error) {
	a := accessOf(ctx)
	query.Within = a.within()
	return g.store.Operations(ctx, query)
}

// RecordOperation is for every principal: refused requests are recorded too.
func (g guard) RecordOperation(ctx context.Context, operation dlq.Operation) error {
	return g.store.RecordOperation(ctx, operation)
}
