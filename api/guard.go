package api

import (
	"context"
	"errors"
	"slices"

	"dlqmanager/dlq"
)

// guard is the store as the principal of a request sees it: everything of other topics
// does not exist. Handlers reach the store only through it. It reads the principal from the
// context and refuses everything without one, so that a forgotten check fails closed.
//
// A message belongs to its dead-letter topic, and a job to the topic that it names. A job
// of a principal with some topics only is limited to them, even if it names an original
// topic that other dead-letter topics have too.
type guard struct {
	store    Store
	database Database // nil without one
	topics   *dlq.Topics
}

// TopicsWithin leaves out the topics that the principal may not see. within is ignored.
func (g guard) TopicsWithin(ctx context.Context, _ string) ([]dlq.TopicSummary, error) {
	a := accessOf(ctx)
	return g.database.TopicsWithin(ctx, a.within())
}

func (g guard) List(ctx context.Context, query dlq.ListQuery) (dlq.Page, error) {
	a := accessOf(ctx)
	query.Within = a.within()
	return g.store.List(ctx, query)
}

// Detail leaves out the id of an earlier message that the principal may not see.
func (g guard) Detail(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	return g.detail(ctx, id, g.store.Detail)
}

func (g guard) ArchivedDetail(ctx context.Context, id dlq.ID) (dlq.Detail, error) {
	return g.detail(ctx, id, g.database.ArchivedDetail)
}

func (g guard) Weigh(ctx context.Context, id dlq.ID, isArchived bool) (dlq.Weight, error) {
	w, err := g.store.Weigh(ctx, id, isArchived)
	if err == nil {
		err = checkMessage(ctx, &dlq.Message{ID: id, DLQTopic: w.DLQTopic})
	}
	return w, err
}

func (g guard) detail(ctx context.Context, id dlq.ID, read func(context.Context, dlq.ID) (dlq.Detail, error)) (dlq.Detail, error) {
	d, err := read(ctx, id)
	if err == nil {
		err = checkMessage(ctx, &d.Message)
	}
	if a := accessOf(ctx); err == nil && !d.PreviousID.IsZero() && a.within() != "" {
		if g.database == nil {
			d.PreviousID = dlq.ID{}
			return d, nil
		}
		var chain dlq.Chain // it has archived messages too
		chain, err = g.Chain(ctx, id)
		for i := range chain.Hops {
			if chain.Hops[i].ID == id {
				d.PreviousID = chain.Hops[i].PreviousID
			}
		}
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

// Chain leaves out the hops of topics that the principal may not see, and their ids. The
// topic of a message that was deleted is unknown.
func (g guard) Chain(ctx context.Context, id dlq.ID) (dlq.Chain, error) {
	a := accessOf(ctx)
	chain, err := g.database.Chain(ctx, id)
	if err != nil {
		return dlq.Chain{}, err
	}
	chain.Hops = slices.DeleteFunc(chain.Hops, func(h dlq.Hop) bool { return a.check(h.DLQTopic) != nil })
	shown := map[dlq.ID]bool{}
	for i := range chain.Hops {
		shown[chain.Hops[i].ID] = true
	}
	if !shown[id] {
		return dlq.Chain{}, dlq.MessageNotFound(id)
	}
	for i := range chain.Hops {
		if h := &chain.Hops[i]; a.within() != "" && !shown[h.PreviousID] {
			h.PreviousID = dlq.ID{}
		}
	}
	return chain, nil
}

// Verdicts is for messages that the principal has read.
func (g guard) Verdicts(ctx context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error) {
	if a := accessOf(ctx); !a.principal.May(a.permission) {
		return map[dlq.ID]dlq.Verdict{}, nil
	}
	return g.database.Verdicts(ctx, ids)
}

func (g guard) VerifyBulk(ctx context.Context, id dlq.ID) (dlq.Verifications, error) {
	if _, err := g.Bulk(ctx, id); err != nil {
		return dlq.Verifications{}, err
	}
	return g.database.VerifyBulk(ctx, id)
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

// Restore makes the request concern the new message.
func (g guard) Restore(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	if _, err := g.Weigh(ctx, id, true); err != nil {
		return dlq.Message{}, err
	}
	m, err := g.database.Restore(audited(ctx), id)
	if err == nil {
		a := accessOf(ctx)
		a.concerns(m.ID, m.DLQTopic)
	}
	return m, err
}

func (g guard) MarkDead(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	return g.store.MarkDead(audited(ctx), id)
}

// Replace makes the request concern the copy, which is sent.
func (g guard) Replace(ctx context.Context, id dlq.ID, edited dlq.Arrival) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	m, err := g.database.Replace(audited(ctx), id, edited)
	if err == nil {
		a := accessOf(ctx)
		a.concerns(m.ID, m.DLQTopic)
	}
	return m, err
}

// HandIn refuses an original topic that the sender may not choose: whoever may send a message
// back could otherwise write to any topic.
func (g guard) HandIn(ctx context.Context, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error) {
	a := accessOf(ctx)
	for i := range arrivals {
		topic := arrivals[i].DLQTopic
		if !a.principal.MayOn(a.permission, topic) {
			return nil, false, forbidden(a.permission, topic)
		}
		a.concerns(dlq.ID{}, topic)
		chosen := arrivals[i].Origin.Topic
		if a.within() != "" && !g.topics.MaySend(topic, chosen, a.principal.MayOn(a.permission, chosen)) {
			return nil, false, forbidden(a.permission, chosen)
		}
		if previous := arrivals[i].PreviousID; !previous.IsZero() && a.within() != "" {
			// Otherwise it would count as come back for a job that the sender may not see.
			if m, err := g.store.Message(ctx, previous); err != nil || !a.principal.MayOn(a.permission, m.DLQTopic) {
				arrivals[i].PreviousID, arrivals[i].RetryCount = dlq.ID{}, 0
			}
		}
	}
	describeHandIn(ctx, arrivals)
	return g.database.HandIn(audited(ctx), arrivals, key)
}

func (g guard) Revive(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	return g.database.Revive(audited(ctx), id)
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

// scopeAction checks the permission of the action too. It includes the permission of the route, which
// has been checked.
func scopeAction(ctx context.Context, spec *dlq.ActionSpec) error {
	return scope(ctx, &spec.Filter, spec.Action.Permission())
}

func (g guard) CreateBulk(ctx context.Context, bulk dlq.BulkRetry) (dlq.BulkRetry, error) {
	if err := scope(ctx, &bulk.Spec.Filter, accessOf(ctx).permission); err != nil {
		return dlq.BulkRetry{}, err
	}
	describe(ctx, &bulk.Spec.Filter, "", bulk.Spec.TargetTopic)
	created, err := g.database.CreateBulk(audited(ctx), bulk)
	if busy, ok := errors.AsType[*dlq.BulkBusyError](err); ok {
		a := accessOf(ctx) // the operation of the request is not about the running job
		running, unread := g.database.Bulk(ctx, busy.Running)
		if unread != nil || g.checkJob(&a, &running.Spec.Filter) != nil {
			err = &dlq.BulkBusyError{Topic: busy.Topic}
		}
	}
	if err == nil {
		a := accessOf(ctx)
		a.created(created.ID, created.WorkflowID, created.Spec.Topic)
	}
	return created, err
}

func (g guard) PreviewBulk(ctx context.Context, spec dlq.BulkSpec) (dlq.BulkPreview, error) {
	if err := scope(ctx, &spec.Filter, accessOf(ctx).permission); err != nil {
		return dlq.BulkPreview{}, err
	}
	return g.database.PreviewBulk(ctx, spec)
}

func (g guard) Bulk(ctx context.Context, id dlq.ID) (dlq.BulkRetry, error) {
	a := accessOf(ctx)
	bulk, err := g.database.Bulk(ctx, id)
	if err == nil {
		a.concerns(id, bulk.Spec.Topic)
		err = g.checkJob(&a, &bulk.Spec.Filter)
	}
	if err != nil {
		return dlq.BulkRetry{}, err
	}
	return bulk, nil
}

// checkJob checks a job by its filter. A job on an original topic may have messages of several
// dead-letter topics. Unless it has the same limits as the sender, it does not exist for somebody
// with some topics only.
func (g guard) checkJob(a *access, f *dlq.Filter) error {
	err := a.check(f.Topic)
	if err == nil && a.within() != "" && !g.topics.IsDeadLetter(f.Topic) && !slices.Contains(a.limits(), f.Within) {
		return dlq.ErrNotFound
	}
	return err
}

// limits are the limits of the jobs that the principal creates, and its limits for the
// permission of the route. The roles that create jobs include those that read and control them.
func (a *access) limits() (within []string) {
	for _, p := range []dlq.Permission{a.permission, dlq.PermBulkRetryCreate, dlq.PermMessageDelete} {
		within = append(within, a.principal.Within(p))
	}
	return within
}

// maxJobsRead is how many jobs are read for a list, of which most may be hidden.
const maxJobsRead = 5000

// visibleJobs reads the newest jobs until limit of them are visible.
func visibleJobs[J any](limit int, read func(n int) ([]J, error), isHidden func(J) bool) ([]J, error) {
	for n := limit; ; n *= 4 {
		jobs, err := read(n)
		if err != nil {
			return nil, err
		}
		isAll := len(jobs) < n
		jobs = slices.DeleteFunc(jobs, isHidden)
		if isAll || len(jobs) >= limit || n >= maxJobsRead {
			return jobs[:min(limit, len(jobs))], nil
		}
	}
}

// ended makes the end of a job that somebody cancels record the operation of the request.
// The end of a job that was found without a workflow is not theirs.
func ended(ctx context.Context, state dlq.BulkState, control dlq.Permission) context.Context {
	if state == dlq.BulkCancelled {
		return audited(ctx)
	}
	return dlq.WithOperation(ctx, dlq.Outside(control, ""))
}

// Bulks leaves out hidden jobs. within is ignored.
func (g guard) Bulks(ctx context.Context, _ string, limit int) ([]dlq.BulkRetry, error) {
	a := accessOf(ctx)
	read := func(n int) ([]dlq.BulkRetry, error) { return g.database.Bulks(ctx, a.within(), n) }
	return visibleJobs(limit, read, func(b dlq.BulkRetry) bool { return g.checkJob(&a, &b.Spec.Filter) != nil })
}

func (g guard) EndBulk(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkRetry, error) {
	if _, err := g.Bulk(ctx, id); err != nil {
		return dlq.BulkRetry{}, err
	}
	return g.database.EndBulk(ended(ctx, state, dlq.PermBulkRetryControl), id, state, reason)
}

func (g guard) CreateAction(ctx context.Context, action dlq.BulkAction) (dlq.BulkAction, error) {
	if err := scopeAction(ctx, &action.Spec); err != nil {
		return dlq.BulkAction{}, err
	}
	describe(ctx, &action.Spec.Filter, action.Spec.Action, "")
	created, err := g.database.CreateAction(audited(ctx), action)
	if busy, ok := errors.AsType[*dlq.ActionBusyError](err); ok {
		a := accessOf(ctx) // the operation of the request is not about the running job
		running, unread := g.database.Action(ctx, busy.Running)
		if unread != nil || g.checkJob(&a, &running.Spec.Filter) != nil {
			err = &dlq.ActionBusyError{Topic: busy.Topic}
		}
	}
	if err == nil {
		a := accessOf(ctx)
		a.created(created.ID, created.WorkflowID, created.Spec.Topic)
	}
	return created, err
}

func (g guard) PreviewAction(ctx context.Context, spec dlq.ActionSpec) (dlq.ActionPreview, error) {
	if err := scopeAction(ctx, &spec); err != nil {
		return dlq.ActionPreview{}, err
	}
	return g.database.PreviewAction(ctx, spec)
}

func (g guard) Action(ctx context.Context, id dlq.ID) (dlq.BulkAction, error) {
	a := accessOf(ctx)
	action, err := g.database.Action(ctx, id)
	if err == nil {
		a.concerns(id, action.Spec.Topic)
		err = g.checkJob(&a, &action.Spec.Filter)
	}
	if err != nil {
		return dlq.BulkAction{}, err
	}
	return action, nil
}

// Actions leaves out hidden jobs. within is ignored.
func (g guard) Actions(ctx context.Context, _ string, limit int) ([]dlq.BulkAction, error) {
	a := accessOf(ctx)
	read := func(n int) ([]dlq.BulkAction, error) { return g.database.Actions(ctx, a.within(), n) }
	return visibleJobs(limit, read, func(b dlq.BulkAction) bool { return g.checkJob(&a, &b.Spec.Filter) != nil })
}

func (g guard) StopAction(ctx context.Context, id dlq.ID, reason string) (dlq.BulkAction, error) {
	if _, err := g.Action(ctx, id); err != nil {
		return dlq.BulkAction{}, err
	}
	return g.database.StopAction(audited(ctx), id, reason)
}

func (g guard) EndAction(ctx context.Context, id dlq.ID, state dlq.BulkState, reason string) (dlq.BulkAction, error) {
	if _, err := g.Action(ctx, id); err != nil {
		return dlq.BulkAction{}, err
	}
	return g.database.EndAction(ended(ctx, state, dlq.PermBulkActionControl), id, state, reason)
}

// Operations leaves out operations on other topics and on hidden jobs, and operations without a topic unless
// the principal may see all topics.
func (g guard) Operations(ctx context.Context, query dlq.OperationQuery) (dlq.OperationPage, error) {
	a := accessOf(ctx)
	query.Within, query.Limits = a.within(), a.limits()
	return g.database.Operations(ctx, query)
}

// OperationsOf is for messages that the principal has been shown.
func (g guard) OperationsOf(ctx context.Context, messages []dlq.ID, tokens []string) (map[string]dlq.ID, error) {
	return g.database.OperationsOf(ctx, messages, tokens)
}

// RecordOperation is for every principal: refused requests are recorded too.
func (g guard) RecordOperation(ctx context.Context, operation dlq.Operation) error {
	return g.database.RecordOperation(ctx, operation)
}
