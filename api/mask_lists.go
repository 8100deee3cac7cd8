package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// unread is a message that a list reads to find which hidden parts its texts quote.
type unread struct {
	id dlq.ID
	// mask is nil if the topics of the message are unknown. Then the mask is chosen after the message is read.
	mask *dlq.Mask
	// listed is the message in the list. It is nil if the list does not show the message itself.
	listed     *dlq.Message
	isArchived bool
	// show copies only texts of the message, so that a list never has all of its messages in memory.
	show func(*dlq.Shown)
}

// hidden returns a message that was read, without its hidden parts.
func (u *unread) hidden(ctx context.Context, g *guard, d *dlq.Detail) *dlq.Shown {
	if u.mask == nil {
		u.mask = g.masking.For(d.DLQTopic, d.OriginalTopic)
	}
	if u.mask == nil {
		return &dlq.Shown{Detail: *d}
	}
	if u.listed != nil && len(u.listed.Payload) > 0 {
		d.Payload = u.listed.Payload
	}
	return g.hideListed(ctx, u.mask, d)
}

// hiddenUnread replaces hidden for a message that was deleted or is too large to read.
func (u *unread) hiddenUnread(g *guard) *dlq.Shown {
	switch {
	case u.mask == nil:
		return g.masking.All().Unread()
	case u.listed == nil:
		return u.mask.Unread()
	default:
		return u.mask.ShowUnread(u.listed)
	}
}

// maxTagTime limits how long a list waits for the schemas of its messages, since each message may name another schema. If a
// schema does not come in time, the values with that schema are hidden as a whole.
const maxTagTime = 2 * time.Second

// read reads each wanted message once, some bytes at a time. It hides parts of each message, and calls show.
func (g guard) read(ctx context.Context, wanted []unread) error {
	tags, cancel := context.WithTimeout(ctx, maxTagTime)
	defer cancel()
	for _, areArchived := range []bool{false, true} {
		byID := map[dlq.ID][]*unread{}
		for i := range wanted {
			if u := &wanted[i]; u.isArchived == areArchived {
				byID[u.id] = append(byID[u.id], u)
			}
		}
		show := func(id dlq.ID, s *dlq.Shown) {
			for _, u := range byID[id] {
				u.show(s)
			}
			delete(byID, id)
		}
		query := dlq.DetailQuery{IDs: slices.Collect(maps.Keys(byID)), Archived: areArchived}
		err := g.readParts(ctx, query, func(d *dlq.Detail) { show(d.ID, byID[d.ID][0].hidden(tags, &g, d)) })
		for id, same := range byID { // the messages that were not read
			show(id, same[0].hiddenUnread(&g))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readParts calls take with each message that still exists and is not too large.
func (g guard) readParts(ctx context.Context, query dlq.DetailQuery, take func(*dlq.Detail)) error {
	if len(query.IDs) == 0 {
		return nil
	}
	weights, err := g.store.Weigh(ctx, query)
	if err != nil {
		return err
	}
	page := dlq.ExportPage{Messages: slices.DeleteFunc(weights, func(w dlq.Weight) bool { return w.Size() > maxRead })}
	for part := range page.Parts(exportPart) {
		query.IDs = views(part, func(w *dlq.Weight) dlq.ID { return w.ID })
		details, err := g.store.Details(ctx, query)
		if err != nil {
			return err
		}
		for i := range details {
			take(&details[i])
		}
	}
	return nil
}

func (g guard) hideMessages(ctx context.Context, messages []dlq.Message, areArchived bool) error {
	var wanted []unread
	for i := range messages {
		m := &messages[i]
		mask := g.masking.For(m.DLQTopic, m.OriginalTopic)
		if mask == nil {
			continue
		}
		wanted = append(wanted, unread{id: m.ID, mask: mask, listed: m, isArchived: areArchived, show: func(s *dlq.Shown) {
			m.ErrorMessage, m.ErrorClass, m.Masked = s.Text(m.ErrorMessage), s.Text(m.ErrorClass), s.Masked
			if len(m.Payload) > 0 {
				m.Payload = s.Payload
			}
		}})
	}
	return g.read(ctx, wanted)
}

func (g guard) hideHops(ctx context.Context, hops []dlq.Hop) error {
	var wanted []unread
	for i := range hops {
		h := &hops[i]
		mask := g.masking.For(h.DLQTopic, h.OriginalTopic)
		if mask == nil || len(h.Attempts) == 0 {
			continue
		}
		wanted = append(wanted, unread{id: h.ID, mask: mask, isArchived: h.Archived, show: func(s *dlq.Shown) {
			for j := range h.Attempts {
				h.Attempts[j].Error = s.Text(h.Attempts[j].Error)
			}
		}})
	}
	return g.read(ctx, wanted)
}

func (g guard) hideRetries(ctx context.Context, retries []dlq.SingleRetry) error {
	if g.masking == nil {
		return nil
	}
	var wanted []unread
	for i := range retries {
		if r := &retries[i]; r.Attempt.Error+r.Refusal != "" {
			wanted = append(wanted, unread{id: r.TargetID, show: func(s *dlq.Shown) {
				r.Attempt.Error, r.Refusal = s.Text(r.Attempt.Error), s.Text(r.Refusal)
			}})
		}
	}
	return g.read(ctx, wanted)
}

// hideGroups hides parts of the texts of groups. All messages of a group have these texts in common, so the sample of the group
// tells which hidden parts the texts quote.
func (g guard) hideGroups(ctx context.Context, groups ...*dlq.Group) error {
	var wanted []unread
	for _, group := range groups {
		f := &group.Fingerprint
		switch mask := g.maskOfGroup(group); {
		case mask == nil:
		case group.Sample.IsZero():
			s := mask.Unread()
			f.Message, f.Class, f.Frame = s.Text(f.Message), s.Text(f.Class), s.Text(f.Frame)
		default:
			wanted = append(wanted, unread{id: group.Sample, mask: mask, show: func(s *dlq.Shown) {
				f.Message, f.Class, f.Frame = s.Text(f.Message), s.Text(f.Class), s.Text(f.Frame)
			}})
		}
	}
	return g.read(ctx, wanted)
}

// maskOfGroup is the mask of the messages of a group. For a group without messages it has all rules, since the topics are
// unknown.
func (g guard) maskOfGroup(group *dlq.Group) *dlq.Mask {
	if len(group.Counts) == 0 {
		return g.masking.All()
	}
	var topics []string
	for _, count := range group.Counts {
		topics = append(topics, count.DLQTopic, count.OriginalTopic)
	}
	return g.masking.For(topics...)
}

// hideSummary hides parts of the summary of a plan. A stored plan may be older than the masking rules.
func (g guard) hideSummary(ctx context.Context, spec *dlq.JobSpec, summary *dlq.PlanSummary) error {
	if g.masking == nil {
		return nil
	}
	var groups []*dlq.Group
	ofGroup := map[*dlq.Group]*dlq.PlanGroup{}
	for i := range summary.ByGroup {
		of := &summary.ByGroup[i]
		if of.ID == nil {
			continue
		}
		group, err := g.database.Group(ctx, *of.ID, "")
		switch {
		case describeGone(err) != nil:
			return err
		case err != nil:
			of.Title = g.masking.All().Unread().Text(of.Title)
		default:
			groups = append(groups, &group)
			ofGroup[&group] = of
		}
	}
	if err := g.hideGroups(ctx, groups...); err != nil {
		return err
	}
	for group, of := range ofGroup {
		of.Title = dlq.GroupTitle(&group.Fingerprint)
	}
	return g.hideClasses(ctx, spec, summary.ByErrorClass)
}

// hideClasses hides the error classes that are not names of types. A class in a preview belongs to many messages, so nobody
// knows which hidden parts it quotes.
func (g guard) hideClasses(ctx context.Context, spec *dlq.JobSpec, counts []dlq.PreviewCount) error {
	mask, err := g.maskOfTopic(ctx, spec.Topic, spec.Kind == dlq.KindRestore)
	if mask == nil || err != nil {
		return err
	}
	for i := range counts {
		if !dlq.IsTypeName(counts[i].Name) {
			counts[i].Name = "***"
		}
	}
	return nil
}
