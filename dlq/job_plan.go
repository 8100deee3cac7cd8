package dlq

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Scope is the frozen scope of a job: the messages that match the job's filter, and neither arrived nor changed after the snapshot.
type Scope struct {
	// UpperBound is the highest Seq that was assigned before the scope was frozen. Messages that arrived later are not in the scope.
	UpperBound int64 `json:"upper_bound"`
	// SnapshotAt is when the scope was frozen, in UTC. Messages that were changed later are not in the scope.
	SnapshotAt time.Time `json:"snapshot_at"`
}

// JobPlan is a job that is reviewed before its start. The job has the ID of its plan, so a plan starts a single job.
type JobPlan struct {
	ID   ID
	Spec JobSpec
	Scope
	Effect  Effect
	Summary PlanSummary
	// ExpiresAt is UTC. The plan starts no job from then on.
	ExpiresAt time.Time
	// IsStarted is set if the plan's job exists.
	IsStarted bool
}

// PlanSummary is the part of the preview that a plan shows beside its Effect, as of the time when the plan was made.
type PlanSummary struct {
	Skipped      int64            `json:"skipped"`
	ByStatus     map[Status]int64 `json:"by_status"`
	ByErrorClass []PreviewCount   `json:"by_error_class,omitempty"`
	SkipReasons  []PreviewCount   `json:"skip_reasons,omitempty"`
	ByGroup      []PlanGroup      `json:"by_group,omitempty"`
	// Groups is how many groups there are. ByGroup has at most PreviewRows.
	Groups int64 `json:"groups"`
	// Sample has ids only: a copy would outlive the deletion of its message.
	Sample []ID `json:"sample,omitempty"`
}

// PlanGroup is a group and its number of messages in a plan. ID is nil for messages in no group.
type PlanGroup struct {
	ID    *ID    `json:"id"`
	Title string `json:"title"`
	Count int64  `json:"count"`
}

// SummaryOf keeps the parts of a preview that a plan shows.
func SummaryOf(p *JobPreview) PlanSummary {
	s := PlanSummary{Skipped: p.Skipped, ByStatus: p.ByStatus, ByErrorClass: p.ByErrorClass, SkipReasons: p.SkipReasons, Groups: p.Groups}
	for i := range p.ByGroup {
		group := PlanGroup{Title: "in no group", Count: p.ByGroup[i].Count}
		if !p.ByGroup[i].ID.IsZero() {
			group.ID, group.Title = &p.ByGroup[i].ID, GroupTitle(&p.ByGroup[i].Fingerprint)
		}
		s.ByGroup = append(s.ByGroup, group)
	}
	for i := range p.Sample {
		s.Sample = append(s.Sample, p.Sample[i].ID)
	}
	return s
}

// Effect counts the messages that a job would send or change.
type Effect struct {
	Matched int64 `json:"matched"`
	// Digest identifies the matched messages: two different sets of messages rarely have the same digest.
	Digest int64 `json:"digest"`
	// ByTarget counts the messages for each target topic, the largest count first, for at most PreviewRows topics; nil for
	// a job that changes messages.
	ByTarget []PreviewCount `json:"by_target,omitempty"`
}

// Hash is the SHA-256 of the plan's request, scope and effect, in hexadecimal.
func (p *JobPlan) Hash() string {
	spec := p.Spec.Storable()
	spec.Reason, spec.Within = "", ""                                                         // the sender's note and grants are no part of the request
	encoded, _ := json.Marshal([]any{spec, p.UpperBound, p.SnapshotAt.UnixMicro(), p.Effect}) // every field can be encoded
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// PlanDifference is a number of messages that has changed since the plan was made.
type PlanDifference struct {
	// Name is the field of the plan's answer that has the number.
	Name string
	// Planned and Now are equal if the number of matching messages is the same, but some are other messages.
	Planned, Now int64
}

func (d PlanDifference) String() string {
	if d.Planned == d.Now {
		return fmt.Sprintf("%d were planned, now %d others", d.Planned, d.Now)
	}
	return fmt.Sprintf("%d were planned, now %d", d.Planned, d.Now)
}

// DifferencesTo compares the planned effect with the present effect. The result is empty if the plan still holds.
func (p *JobPlan) DifferencesTo(now *Effect) []PlanDifference {
	var differences []PlanDifference
	if p.Effect.Matched != now.Matched || p.Effect.Digest != now.Digest {
		differences = append(differences, PlanDifference{Name: "matched", Planned: p.Effect.Matched, Now: now.Matched})
	}
	for i, target := range slices.Concat(p.Effect.ByTarget, now.ByTarget) {
		was, is := countNamed(p.Effect.ByTarget, target.Name), countNamed(now.ByTarget, target.Name)
		isRepeated := was != 0 && i >= len(p.Effect.ByTarget)
		if was != is && !isRepeated {
			differences = append(differences, PlanDifference{Name: "by_target_topic." + target.Name, Planned: was, Now: is})
		}
	}
	return differences
}

func countNamed(counts []PreviewCount, name string) int64 {
	if i := slices.IndexFunc(counts, func(c PreviewCount) bool { return c.Name == name }); i >= 0 {
		return counts[i].Count
	}
	return 0
}
