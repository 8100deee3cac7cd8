package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// guard is the store as the principal of a request may see it: data of hidden topics are left out. Handlers reach the store
// only through the guard. It reads the principal from the context. Without a principal it refuses everything, so a forgotten
// check fails closed.
//
// A message belongs to its dead-letter topic, and a job to the topic that it names. If a principal has grants for some topics,
// its jobs have messages of these dead-letter topics only. This also holds for a job on an original topic, to which several
// dead-letter topics may belong.
//
// The guard also hides parts of messages; see mask.go.
type guard struct {
	Unguarded
	store    Store
	database Database // nil if messages are in memory
	topics   *dlq.Topics
	masking  *dlq.Masking // nil hides nothing
	decoder  Decoder      // nil without a Schema Registry
	comesOff func([]dlq.Header) func(dlq.Header) bool
}

func (g guard) hasDatabase() bool { return g.database != nil }

// Topics leaves out the topics that the principal may not see.
func (g guard) Topics(ctx context.Context) ([]dlq.TopicSummary, error) {
	return g.database.TopicsWithin(ctx, accessOf(ctx).withinRoute())
}

// Series leaves out the arrivals of topics that the principal may not see.
func (g guard) Series(ctx context.Context, query dlq.SeriesQuery) ([]dlq.Series, error) {
	query.Within = accessOf(ctx).withinRoute()
	return g.database.Series(ctx, query)
}

func (g guard) List(ctx context.Context, query dlq.ListQuery) (dlq.Page, error) {
	if err := g.checkFilter(ctx, &query.Filter, query.Archived); err != nil {
		return dlq.Page{}, err
	}
	query.Within = accessOf(ctx).withinRoute()
	page, err := g.store.List(ctx, query)
	if err == nil {
		err = g.hideMessages(ctx, page.Messages, query.Archived)
	}
	return page, err
}

// Weigh returns the topic of a message even with an error, if the principal may not see the message. The audit needs the topic.
func (g guard) Weigh(ctx context.Context, id dlq.ID, isArchived bool) (dlq.Weight, error) {
	found, err := g.store.Weigh(ctx, whole(id, isArchived))
	w, err := only(found, id, err)
	if err == nil {
		err = accessOf(ctx).check(w.DLQTopic)
	}
	return w, err
}

// stored returns a message as it is stored.
func (g guard) stored(ctx context.Context, id dlq.ID, isArchived bool) (dlq.Detail, error) {
	found, err := g.store.Details(ctx, whole(id, isArchived))
	d, err := only(found, id, err)
	if err == nil {
		err = accessOf(ctx).check(d.DLQTopic)
	}
	if err != nil {
		return dlq.Detail{}, err
	}
	hidePrevious(ctx, &d)
	return d, nil
}

// whole is the query for everything of one message.
func whole(id dlq.ID, isArchived bool) dlq.DetailQuery {
	return dlq.DetailQuery{IDs: []dlq.ID{id}, Archived: isArchived, AllPayloads: true}
}

// only returns the single entry that was found for a message, or dlq.ErrNotFound.
func only[T any](found []T, id dlq.ID, err error) (of T, _ error) {
	switch {
	case err != nil:
		return of, err
	case len(found) == 0:
		return of, dlq.MessageNotFound(id)
	default:
		return found[0], nil
	}
}

// hidePrevious leaves out the id of an earlier message that the principal may not see, or that was deleted.
func hidePrevious(ctx context.Context, d *dlq.Detail) {
	if a := accessOf(ctx); a.withinRoute() != "" && a.check(d.PreviousTopic) != nil {
		d.PreviousID = dlq.ID{}
	}
}

func (g guard) Message(ctx context.Context, id dlq.ID) (dlq.Message, error) {
	m, err := g.store.Message(ctx, id)
	if err == nil {
		err = accessOf(ctx).check(m.DLQTopic)
	}
	if err != nil {
		return dlq.Message{}, err
	}
	if g.masking.For(m.DLQTopic, m.OriginalTopic) != nil { // the error and the payload may quote the record, which was not read
		m.ErrorMessage, m.ErrorClass, m.Payload = "", "", nil
	}
	return m, nil
}

// Chain leaves out the hops of hidden topics, and every reference to their ids. A principal who may see some topics only does
// not see the ids of deleted messages either, since the topics of deleted messages are unknown.
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
		if h := &chain.Hops[i]; a.withinRoute() != "" && !shown[h.PreviousID] {
			h.PreviousID = dlq.ID{}
		}
	}
	return chain, g.hideHops(ctx, chain.Hops)
}

// Verdicts does not check topics: the principal must already see the messages.
func (g guard) Verdicts(ctx context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error) {
	if a := accessOf(ctx); !a.May(a.permission) {
		return map[dlq.ID]dlq.Verdict{}, nil
	}
	return g.database.Verdicts(ctx, ids)
}

func (g guard) VerifyJob(ctx context.Context, id dlq.ID) (dlq.Verifications, error) {
	if _, err := g.Job(ctx, id); err != nil {
		return dlq.Verifications{}, err
	}
	return g.database.VerifyJob(ctx, id)
}

// checkID checks a message before a change. The check still holds at the change, since a message keeps its topic.
func (g guard) checkID(ctx context.Context, id dlq.ID) error {
	if a := accessOf(ctx); a.May(a.permission) && a.withinRoute() == "" {
		return nil
	}
	_, err := g.Message(ctx, id)
	return err
}

func (g guard) Delete(ctx context.Context, asked *dlq.Operation, id dlq.ID) error {
	if err := g.checkID(ctx, id); err != nil {
		return err
	}
	return g.store.Delete(ctx, asked, id)
}

// Restore completes the operation with the topic of the archived message, and then with the id and topic of the new message.
func (g guard) Restore(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	w, err := g.Weigh(ctx, id, true)
	asked.Topic = w.DLQTopic
	if err != nil {
		return dlq.Message{}, err
	}
	m, err := g.database.Restore(ctx, asked, id)
	if err == nil {
		asked.TargetID, asked.Topic = m.ID, m.DLQTopic
	}
	return m, err
}

func (g guard) MarkDead(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	return g.store.MarkDead(ctx, asked, id)
}

// Replace completes the operation with the id and topic of the copy, since the copy is sent.
func (g guard) Replace(ctx context.Context, asked *dlq.Operation, id dlq.ID, edited dlq.Arrival) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	m, err := g.database.Replace(ctx, asked, id, edited)
	if err == nil {
		asked.TargetID, asked.Topic = m.ID, m.DLQTopic
	}
	return m, err
}

// HandIn refuses an original topic that the sender may not choose: whoever may send a message
// back could otherwise write to any topic.
func (g guard) HandIn(ctx context.Context, asked *dlq.Operation, arrivals []dlq.Arrival, key *dlq.IdempotencyKey) (ids []dlq.ID, repeated bool, err error) {
	a := accessOf(ctx)
	for i := range arrivals {
		topic := arrivals[i].DLQTopic
		if err := a.require(topic); err != nil {
			return nil, false, err
		}
		asked.Topic = topic
		chosen := arrivals[i].Origin.Topic
		if a.withinRoute() != "" && !g.topics.MaySend(topic, chosen, a.MayOn(a.permission, chosen)) {
			return nil, false, forbidden(a.permission, chosen)
		}
		if previous := arrivals[i].PreviousID; !previous.IsZero() && a.withinRoute() != "" {
			// Otherwise the arrival would count as a message that came back, in a job that the sender may not see.
			if m, err := g.store.Message(ctx, previous); err != nil || !a.MayOn(a.permission, m.DLQTopic) {
				arrivals[i].PreviousID, arrivals[i].RetryCount = dlq.ID{}, 0
			}
		}
	}
	handedIn := views(arrivals, func(a *dlq.Arrival) dlq.ID { return a.ID })
	describe(asked, map[string]any{"command": "hand in", "messages": len(handedIn), "ids": handedIn})
	return g.database.HandIn(ctx, asked, arrivals, key)
}

func (g guard) Revive(ctx context.Context, asked *dlq.Operation, id dlq.ID) (dlq.Message, error) {
	if err := g.checkID(ctx, id); err != nil {
		return dlq.Message{}, err
	}
	return g.database.Revive(ctx, asked, id)
}

// scope limits a new job to the topics on which the principal has the permission for jobs of this kind, and checks the filter.
// The permission of the route has been checked.
func (g guard) scope(ctx context.Context, spec *dlq.JobSpec) error {
	a := accessOf(ctx)
	permission := spec.Kind.Permission()
	if !a.MayOn(permission, spec.Topic) {
		return forbidden(permission, spec.Topic)
	}
	spec.Within = a.Within(permission)
	return g.checkFilter(ctx, &spec.Filter, spec.Kind == dlq.KindRestore)
}

func (g guard) CreateJob(ctx context.Context, asked *dlq.Operation, j dlq.Job) (dlq.Job, error) {
	asked.TargetID, asked.Topic = dlq.ID{}, j.Spec.Topic // an earlier try may have named a job that was closed since
	if err := g.scope(ctx, &j.Spec); err != nil {
		return dlq.Job{}, err
	}
	filter := g.shownFilter(&j.Spec.Filter)
	describe(asked, auditedFilter{Kind: j.Spec.Kind, Filter: filter.Masked(), TargetTopic: j.Spec.TargetTopic})
	created, err := g.database.CreateJob(ctx, asked, j)
	if busy, ok := errors.AsType[*dlq.JobBusyError](err); ok {
		running, unread := g.database.Job(ctx, busy.Running)
		if unread != nil || g.checkJob(accessOf(ctx), &running.Spec.Filter) != nil {
			err = &dlq.JobBusyError{Topic: busy.Topic}
		}
	}
	if err == nil {
		asked.TargetID, asked.WorkflowID, asked.Topic = created.ID, created.WorkflowID, created.Spec.Topic
	}
	return created, err
}

// PreviewJob returns groups and error classes as part of the summary, without their hidden parts. The preview has neither.
func (g guard) PreviewJob(ctx context.Context, spec dlq.JobSpec) (preview dlq.JobPreview, summary dlq.PlanSummary, err error) {
	if err = g.scope(ctx, &spec); err != nil {
		return preview, summary, err
	}
	if preview, err = g.database.PreviewJob(ctx, spec); err != nil {
		return preview, summary, err
	}
	summary = dlq.SummaryOf(&preview)
	preview.ByGroup, preview.ByErrorClass = nil, nil
	if err = g.hideMessages(ctx, preview.Sample, spec.Kind == dlq.KindRestore); err == nil {
		err = g.hideSummary(ctx, &spec, &summary)
	}
	return preview, summary, err
}

// PreviewScope returns only the numbers that describe the effect.
func (g guard) PreviewScope(ctx context.Context, spec dlq.JobSpec, frozen dlq.Scope) (dlq.JobPreview, error) {
	if err := g.scope(ctx, &spec); err != nil {
		return dlq.JobPreview{}, err
	}
	preview, err := g.database.PreviewScope(ctx, spec, frozen)
	preview.Sample, preview.ByGroup, preview.ByErrorClass = nil, nil, nil
	return preview, err
}

func (g guard) CreatePlan(ctx context.Context, plan dlq.JobPlan, ttl time.Duration) (dlq.JobPlan, error) {
	if err := g.scope(ctx, &plan.Spec); err != nil {
		return dlq.JobPlan{}, err
	}
	return g.database.CreatePlan(ctx, plan, ttl)
}

// Plan returns a plan to a sender who may start its job, or to a reader. A plan that was made with other grants than the
// sender's is refused, since its job would have other messages. A plan shows more than its job, such as the titles of groups of
// any dead-letter topic. So a reader who may see some topics only does not see plans of other grants.
func (g guard) Plan(ctx context.Context, id dlq.ID) (dlq.JobPlan, error) {
	plan, err := g.database.Plan(ctx, id)
	if errors.Is(err, dlq.ErrSpecUnreadable) {
		err = conflict("the plan cannot be read; make a new one", err)
	}
	if err != nil {
		return dlq.JobPlan{}, err
	}
	a := accessOf(ctx)
	isRead := a.permission == dlq.PermJobRead
	if !isRead {
		a.permission = plan.Spec.Kind.Permission()
	}
	err = a.check(plan.Spec.Topic)
	switch {
	case err != nil:
	case isRead && a.withinRoute() != "" && !slices.Contains(a.limits(), plan.Spec.Within):
		err = dlq.ErrNotFound
	case !isRead && plan.Spec.Within != a.withinRoute():
		err = conflict("the plan was made with other grants than yours; make a new one", nil)
	default:
		err = g.hideSummary(ctx, &plan.Spec, &plan.Summary)
	}
	if err == nil && isRead && g.checkFilter(ctx, &plan.Spec.Filter, plan.Spec.Kind == dlq.KindRestore) != nil {
		plan.Spec.Filter = g.shownFilter(&plan.Spec.Filter) // its values and counts would tell what the sender may not ask for
	}
	if err != nil {
		return dlq.JobPlan{}, err
	}
	return plan, nil
}

func (g guard) Job(ctx context.Context, id dlq.ID) (dlq.Job, error) {
	j, err := g.database.Job(ctx, id)
	if err == nil {
		err = g.checkJob(accessOf(ctx), &j.Spec.Filter)
	}
	if err != nil {
		return dlq.Job{}, err
	}
	return j, nil
}

// JobSamples does not check topics: the principal must already see the job.
func (g guard) JobSamples(ctx context.Context, id dlq.ID) ([]dlq.JobSample, error) {
	if a := accessOf(ctx); !a.May(a.permission) {
		return nil, nil
	}
	return g.database.JobSamples(ctx, id)
}

// checkJob checks a job by its filter. A job on an original topic may have messages of several dead-letter topics. If the
// sender may see some topics only, such a job is hidden, unless it has one of the limits of the sender.
func (g guard) checkJob(a access, f *dlq.Filter) error {
	err := a.check(f.Topic)
	if err == nil && a.withinRoute() != "" && !g.topics.IsDeadLetter(f.Topic) && !slices.Contains(a.limits(), f.Within) {
		return dlq.ErrNotFound
	}
	return err
}

// limits are the expressions for topics in the jobs that the principal creates, and the expression for the permission of the
// route. The roles that create jobs include the roles that read and control jobs.
func (a access) limits() (within []string) {
	for _, p := range []dlq.Permission{a.permission, dlq.PermJobCreate, dlq.PermMessageDelete} {
		within = append(within, a.Within(p))
	}
	return within
}

// Jobs leaves out hidden jobs. The store does so too, except for jobs whose specification cannot be read.
func (g guard) Jobs(ctx context.Context, query dlq.JobQuery) (dlq.PageOf[dlq.Job], error) {
	a := accessOf(ctx)
	query.Within, query.Limits = a.withinRoute(), a.limits()
	page, err := g.database.Jobs(ctx, query)
	page.Entries = slices.DeleteFunc(page.Entries, func(j dlq.Job) bool { return g.checkJob(a, &j.Spec.Filter) != nil })
	return page, err
}

func (g guard) StopJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error) {
	if _, err := g.Job(ctx, id); err != nil {
		return dlq.Job{}, err
	}
	return g.database.StopJob(ctx, asked, id, state, reason)
}

func (g guard) EndJob(ctx context.Context, asked *dlq.Operation, id dlq.ID, state dlq.JobState, reason string) (dlq.Job, error) {
	if _, err := g.Job(ctx, id); err != nil {
		return dlq.Job{}, err
	}
	return g.database.EndJob(ctx, asked, id, state, reason)
}

// Operations leaves out operations on other topics and on hidden jobs, and operations without a topic unless
// the principal may see all topics.
func (g guard) Operations(ctx context.Context, query dlq.OperationQuery) (dlq.PageOf[dlq.Operation], error) {
	a := accessOf(ctx)
	query.Within, query.Limits = a.withinRoute(), a.limits()
	return g.database.Operations(ctx, query)
}

// SingleRetries leaves out retries of messages of other topics.
func (g guard) SingleRetries(ctx context.Context, query dlq.OperationQuery) (dlq.PageOf[dlq.SingleRetry], error) {
	query.Within = accessOf(ctx).withinRoute()
	page, err := g.database.SingleRetries(ctx, query)
	if err == nil {
		err = g.hideRetries(ctx, page.Entries)
	}
	return page, err
}

// topicOf is the topic of the target of a refused request, also if the principal may not see the target.
func (g guard) topicOf(ctx context.Context, target dlq.OperationTarget, id dlq.ID) string {
	switch target {
	case dlq.TargetMessage:
		m, _ := g.store.Message(ctx, id)
		return m.DLQTopic
	case dlq.TargetJob:
		j, _ := g.database.Job(ctx, id)
		return j.Spec.Topic
	case dlq.TargetGroup:
		seen, _ := g.database.Group(ctx, id, accessOf(ctx).Within(dlq.PermGroupRead))
		return topicOfGroup(&seen)
	default:
		return ""
	}
}
