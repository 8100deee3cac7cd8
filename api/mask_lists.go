package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"dlqmanager/dlq"
)

// unread is a message that a list has to read to find what its texts quote.
type unread struct {
	id dlq.ID
	// mask is what is hidden; nil if only the topics of the message tell.
	mask *dlq.Mask
	// listed is the message as the list has it; nil if the list has none.
	listed     *dlq.Message
	isArchived bool
	// show keeps texts of the message only, so that a list never has all of its messages in memory.
	show func(*dlq.Shown)
}

// hidden is the message without what is hidden.
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

// hiddenUnread is for a message that is gone or too large.
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

// maxTagTime is how long a list waits for the schemas of its messages, which may each name another one. The values of the
// schemas that come later are hidden as a whole.
const maxTagTime = 2 * time.Second

// read reads messages in parts of a bounded size, each once, hides parts of them, and shows them.
func (g guard) read(ctx context.Context, wanted []unread) error {
	tags, cancel := context.WithTimeout(ctx, maxTagTime)
	defer cancel()
	live := map[dlq.ID][]*unread{}
	for i := range wanted {
		u := &wanted[i]
		if u.isArchived || !g.hasDatabase() {
			s, err := g.readOne(ctx, tags, u)
			if err != nil {
				return err
			}
			u.show(s)
			continue
		}
		live[u.id] = append(live[u.id], u)
	}
	show := func(same []*unread, s *dlq.Shown) {
		for _, u := range same {
			u.show(s)
		}
	}
	err := g.readLive(ctx, slices.Collect(maps.Keys(live)), func(d *dlq.Detail) {
		show(live[d.ID], live[d.ID][0].hidden(tags, &g, d))
		delete(live, d.ID)
	})
	for _, same := range live { // that were not read
		show(same, same[0].hiddenUnread(&g))
	}
	return err
}

// readLive passes on messages, as far as they still exist and are not too large.
func (g guard) readLive(ctx context.Context, ids []dlq.ID, take func(*dlq.Detail)) error {
	if len(ids) == 0 {
		return nil
	}
	sizes, err := g.database.ExportSizes(ctx, ids)
	if err != nil {
		return err
	}
	page := dlq.ExportPage{Messages: slices.DeleteFunc(sizes, func(c dlq.Chosen) bool { return c.Size() > maxRead })}
	for part := range page.Parts(exportPart) {
		details, err := g.database.Export(ctx, views(part, func(c *dlq.Chosen) dlq.ID { return c.ID }))
		if err != nil {
			return err
		}
		for i := range details {
			take(&details[i])
		}
	}
	return nil
}

func (g guard) readOne(ctx, tags context.Context, u *unread) (*dlq.Shown, error) {
	w, err := g.store.Weigh(ctx, u.id, u.isArchived)
	if err != nil || w.Binary+w.Payload+w.Text > maxRead {
		return u.hiddenUnread(&g), describeGone(err)
	}
	d, err := g.detail(ctx, u.id, u.isArchived)
	if err != nil {
		return u.hiddenUnread(&g), describeGone(err)
	}
	return u.hidden(tags, &g, &d), nil
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

// hideGroups hides parts of what groups of messages have in common. All messages of a group have these texts, so its
// sample tells what they quote.
func (g guard) hideGroups(ctx context.Context, groups ...*dlq.Group) error {
	var wanted []unread
	for _, group := range groups {
		f := &group.Fingerprint
		switch mask := g.maskOfGroup(group); {
		case mask == nil:
		case group.Sample.IsZero():
			f.Message = mask.Unread().Text(f.Message)
		default:
			wanted = append(wanted, unread{id: group.Sample, mask: mask, show: func(s *dlq.Shown) {
				f.Message, f.Class, f.Frame = s.Text(f.Message), s.Text(f.Class), s.Text(f.Frame)
			}})
		}
	}
	return g.read(ctx, wanted)
}

// maskOfGroup is what is hidden of the messages of a group. The topics of a group without messages are not known.
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

// hideSummary hides parts of what a plan shows. A stored plan may be older than the rules.
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

// hideClasses hides classes that are no names of types. A class of a preview belongs to many messages, so what they quote
// is not known.
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
