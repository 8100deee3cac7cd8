package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// watermarks are the published offsets, and the lease of the process that publishes them.
type watermarks struct {
	targets   []dlq.WatermarkTarget // by ID, from 1
	lease     dlq.WatermarkLease
	expires   time.Time
	at        map[int32]time.Time // by target
	groups    map[string]string
	since     map[string]time.Time    // by group
	committed map[dlq.Watermark]int64 // the key has no offset
	changed   []int32
}

// targetOf is the id of a target; it gives it one if it has none.
func (w *watermarks) targetOf(dlqTopic string, a *dlq.Acknowledgement) int32 {
	for _, t := range w.targets {
		if t.Topic == a.Topic && t.TopicID == a.TopicID && t.DLQTopics[0] == dlqTopic {
			return t.ID
		}
	}
	id := int32(len(w.targets) + 1)
	w.targets = append(w.targets, dlq.WatermarkTarget{ID: id, Topic: a.Topic, TopicID: a.TopicID, DLQTopics: []string{dlqTopic}})
	return id
}

// Verdicts is like postgres.Store.Verdicts.
func (m *Store) Verdicts(_ context.Context, ids []dlq.ID) (map[dlq.ID]dlq.Verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	verdicts := map[dlq.ID]dlq.Verdict{}
	for _, id := range ids {
		if e := cmp.Or(m.byID[id], m.archive[id]); e != nil {
			if v := m.verdict(e); v.Verified != "" {
				verdicts[id] = v
			}
		}
	}
	return verdicts, nil
}

// matchesVerified applies the filter that matches does not.
func (m *Store) matchesVerified(e *entry, f *dlq.Filter) bool {
	return f.Verified == "" || m.verdict(e).Verified == f.Verified
}

// verdict is like verdictOf of package postgres.
func (m *Store) verdict(e *entry) (v dlq.Verdict) {
	if e.Status != dlq.StatusResolved || e.Ended() != dlq.ResolutionDelivered {
		return v
	}
	to := e.delivered
	unknown := func(reason dlq.VerifiedReason) dlq.Verdict {
		v.Verified, v.Reason = dlq.VerifiedUnknown, reason
		return v
	}
	var target int32
	if to != nil && to.Topic != "" {
		v.Target, target = to.Topic, m.marks.targetOf(e.DLQTopic, to)
	}
	if m.hasComeBack(e) {
		return dlq.Verdict{Verified: dlq.VerifiedNo, Reason: dlq.ReasonCameBack, Target: v.Target}
	}
	group := cmp.Or(m.VerifyGroups.Of(e.OriginalTopic), e.Failure.Origin.ConsumerGroup)
	reason, fetched := m.marks.groups[group]
	committed, found := int64(0), false
	if target != 0 && e.TargetPartition != nil {
		committed, found = m.marks.committed[dlq.Watermark{Group: group, Target: target, Partition: *e.TargetPartition}]
	}
	switch {
	case target == 0:
		return unknown(dlq.ReasonNoTarget)
	case strings.HasPrefix(to.Topic, "http:"):
		return unknown(dlq.ReasonHTTP)
	case to.TopicID.IsZero() || e.TargetOffset == nil:
		return unknown(dlq.ReasonNoOffset)
	case slices.Contains(m.marks.changed, target):
		return unknown(dlq.ReasonTopicChanged)
	case e.Failure.Origin.Family == dlq.FamilyShareGroup:
		return unknown(dlq.ReasonShareGroup)
	case e.Failure.Origin.Family == dlq.FamilyRetryable:
		return unknown(dlq.ReasonRetryTopics)
	case group == "":
		return unknown(dlq.ReasonNoGroup)
	case found && committed > *e.TargetOffset:
		v.Verified = dlq.VerifiedYes
		return v
	case !fetched || m.marks.at[target].Before(m.marks.since[group]):
		return unknown(dlq.ReasonNotRead)
	case reason != "":
		return unknown(dlq.ReasonRefused)
	case !found && !m.reads(group, target):
		return unknown(dlq.ReasonGroupGone)
	case time.Since(m.marks.at[target]) > dlq.WatermarksOutdated:
		return unknown(dlq.ReasonOutdated)
	}
	v.Verified = dlq.VerifiedNo
	return v
}

// reads tells whether a group has an offset of a target.
func (m *Store) reads(group string, target int32) bool {
	for w := range m.marks.committed {
		if w.Group == group && w.Target == target {
			return true
		}
	}
	return false
}

func (m *Store) hasComeBack(e *entry) bool {
	target := e.OriginalTopic
	if e.delivered != nil && e.delivered.Topic != "" {
		target = e.delivered.Topic
	}
	isCopy := func(c *entry) bool {
		at := &c.Failure.Origin
		named := dlq.Arrival{DLQTopic: c.DLQTopic, Failure: c.Failure}
		return c.PreviousID == e.ID && c.ID != dlq.RestoredID(e.ID) && named.CameBack(e.DLQTopic, target) ||
			e.delivered != nil && e.TargetOffset != nil && at.Offset != nil && *at.Offset == *e.TargetOffset &&
				at.Partition != nil && *at.Partition == *e.TargetPartition && c.OriginalTopic == e.delivered.Topic && c.Seq > e.Seq
	}
	for _, c := range m.archive {
		if isCopy(c) {
			return true
		}
	}
	return slices.ContainsFunc(m.order, isCopy)
}

// VerifyBulk is like postgres.Store.VerifyBulk, without a limit.
func (m *Store) VerifyBulk(_ context.Context, id dlq.ID) (counts dlq.Verifications, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.order {
		if e.Owner.Token == id.String() {
			counts.Add(m.verdict(e), 1)
		}
	}
	return counts, nil
}

// LeaseWatermarks is like postgres.Store.LeaseWatermarks.
func (m *Store) LeaseWatermarks(_ context.Context, holder dlq.ID, expiry time.Duration) (dlq.WatermarkLease, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &m.marks
	if w.lease.Holder != holder {
		if time.Now().Before(w.expires) {
			return dlq.WatermarkLease{}, false, nil
		}
		w.lease = dlq.WatermarkLease{Holder: holder, Epoch: w.lease.Epoch + 1}
	}
	w.expires = time.Now().Add(expiry)
	return w.lease, true, nil
}

// WatermarkScope is like postgres.Store.WatermarkScope.
func (m *Store) WatermarkScope(context.Context) (scope dlq.WatermarkScope, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		if g.Fingerprint.Scope != g.dlqTopic {
			scope.Groups = append(scope.Groups, g.Fingerprint.Scope)
		}
	}
	if m.VerifyGroups != nil {
		scope.Groups = append(scope.Groups, m.VerifyGroups.Groups...)
	}
	for _, e := range m.byID {
		if e.delivered != nil && e.delivered.Topic != "" {
			m.marks.targetOf(e.DLQTopic, e.delivered)
		}
	}
	for _, t := range m.marks.targets {
		if !t.TopicID.IsZero() {
			t.DLQTopics = slices.Clone(t.DLQTopics)
			for _, e := range m.order {
				if e.OriginalTopic == t.Topic && !slices.Contains(t.DLQTopics, e.DLQTopic) {
					t.DLQTopics = append(t.DLQTopics, e.DLQTopic)
				}
			}
			scope.Targets = append(scope.Targets, t)
		}
	}
	return scope, nil
}

// PublishWatermarks is like postgres.Store.PublishWatermarks.
func (m *Store) PublishWatermarks(_ context.Context, lease dlq.WatermarkLease, w *dlq.Watermarks) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks.lease != lease {
		return dlq.ErrFenced
	}
	marks := &m.marks
	if marks.committed == nil {
		marks.committed, marks.at, marks.since = map[dlq.Watermark]int64{}, map[int32]time.Time{}, map[string]time.Time{}
	}
	for group := range w.Groups {
		if _, fetched := marks.groups[group]; !fetched || w.At.Before(marks.since[group]) {
			marks.since[group] = w.At
		}
	}
	marks.groups = maps.Clone(w.Groups)
	maps.Copy(marks.at, w.Targets)
	isPublished := func(target int32) bool { _, published := w.Targets[target]; return published }
	marks.changed = append(slices.DeleteFunc(marks.changed, isPublished), w.Changed...)
	maps.DeleteFunc(marks.committed, func(c dlq.Watermark, _ int64) bool { return isPublished(c.Target) && !slices.Contains(w.Away, c.Group) })
	for _, c := range w.Committed {
		offset := c.Offset
		c.Offset = 0
		m.marks.committed[c] = offset
	}
	return nil
}
