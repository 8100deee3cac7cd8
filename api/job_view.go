package api

import (
	"cmp"
	"math"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// jobView has the fields of jobs of all kinds: first the state of the job, then its specification.
type jobView struct {
	ID            dlq.ID        `json:"id"`
	Kind          dlq.JobKind   `json:"kind"`
	Topic         string        `json:"topic"`
	State         dlq.JobState  `json:"state"`
	Reason        *string       `json:"reason"`
	Matched       int64         `json:"matched"`
	Skipped       int64         `json:"skipped"`
	Progress      float64       `json:"progress"`
	PerSecond     float64       `json:"per_second"`
	EstimatedEnd  *timestamp    `json:"estimated_end"`
	StartedAt     timestamp     `json:"started_at"`
	UpdatedAt     timestamp     `json:"updated_at"`
	EndedAt       *timestamp    `json:"ended_at"`
	Filters       filterView    `json:"filters"`
	RequestReason *string       `json:"request_reason"`
	Workflow      *workflowView `json:"workflow"`
	// Counting is present while Matched is unknown.
	Counting bool `json:"counting,omitempty"`
	// Changed is present for a job that changes messages. A bulk retry has the fields of retryJobFields instead.
	Changed *int64 `json:"changed,omitempty"`
	*retryJobFields
}

type retryJobFields struct {
	Retried          int64   `json:"retried"`
	Failed           int64   `json:"failed"`
	Dead             int64   `json:"dead"`
	Waiting          int64   `json:"waiting"`
	CameBack         int64   `json:"came_back"`
	AveragePerSecond float64 `json:"average_per_second"`
	retrySpecView
	// Published is present in the answer of a call that has waited for the end of the job.
	Published *bool `json:"published,omitempty"`
	// Verified is present when it was requested.
	Verified *verificationsView `json:"verified,omitempty"`
}

// retrySpecView describes how a bulk retry sends messages. A plan and a job have the same fields.
type retrySpecView struct {
	RateLimit int       `json:"rate_limit"`
	Order     dlq.Order `json:"order"`
	Ramp      *rampView `json:"ramp"`
	// IncludeSuspicious is present when it was requested.
	IncludeSuspicious bool `json:"include_suspicious,omitempty"`
	// TargetTopic is present when it was requested.
	TargetTopic string `json:"target_topic,omitempty"`
}

func viewRetrySpec(spec *dlq.JobSpec) retrySpecView {
	view := retrySpecView{
		RateLimit: spec.RateLimit, Order: cmp.Or(spec.Order, dlq.OrderKey), IncludeSuspicious: spec.IncludeSuspicious, TargetTopic: spec.TargetTopic,
	}
	if ramp := spec.Ramp; ramp != nil {
		view.Ramp = &rampView{Steps: ramp.Steps, Wait: durationText(ramp.Wait), MaxCameBack: ramp.MaxCameBack, Confirm: ramp.Confirm}
	}
	return view
}

type rampView struct {
	Steps       []int   `json:"steps"`
	Wait        string  `json:"wait"`
	MaxCameBack float64 `json:"max_came_back"`
	// Confirm is present when it was requested.
	Confirm string `json:"confirm,omitempty"`
}

// viewJob computes the progress, the rates and the estimated end of a job at the time now.
func (s *Server) viewJob(j *dlq.Job, now time.Time) jobView {
	average := averageRate(j)
	end, _ := j.EstimatedEnd(now) // zero while unknown
	filter := s.guard.shownFilter(&j.Spec.Filter)
	view := jobView{
		ID: j.ID, Kind: j.Spec.Kind, Topic: j.Spec.Topic, State: j.State, Reason: optional(s.guard.shownReason(j.Reason)),
		Matched: j.Matched, Skipped: j.Counts.Skipped, Progress: progress(j), PerSecond: rounded(j.RecentPerSecond), EstimatedEnd: optionalTime(&end),
		StartedAt: timestamp(j.StartedAt), UpdatedAt: timestamp(j.UpdatedAt), EndedAt: optionalTime(j.EndedAt),
		Filters: viewFilter(&filter), RequestReason: optional(j.Spec.Reason), Workflow: s.viewWorkflow(j.Owner()), Counting: j.Counting,
	}
	if j.State.IsFinal() {
		view.PerSecond = rounded(average)
	}
	if j.Spec.Kind != dlq.KindRetry {
		view.Changed = &j.Counts.Changed
		return view
	}
	view.retryJobFields = &retryJobFields{
		Retried: j.Counts.Retried, Failed: j.Counts.Failed, Dead: j.Counts.Dead, Waiting: j.Waiting, CameBack: j.CameBack,
		AveragePerSecond: rounded(average), retrySpecView: viewRetrySpec(&j.Spec),
	}
	return view
}

// averageRate is the average in messages per second from the start to the latest change. It includes earlier pauses, but does
// not fall during a pause, so that the view of a paused job stays the same. Skipped messages are left out, since they were not
// sent.
func averageRate(b *dlq.Job) float64 {
	end := cmp.Or(b.EndedAt, &b.UpdatedAt)
	if elapsed := end.Sub(b.StartedAt).Seconds(); elapsed > 0 {
		return float64(b.Counts.Sent()) / elapsed
	}
	return 0
}

// progress is from 0 to 1. It is 1 only when no message is left.
func progress(b *dlq.Job) float64 {
	switch {
	case b.State == dlq.JobCompleted:
		return 1
	case b.Matched <= 0:
		return 0
	}
	return min(math.Floor(float64(b.Counts.Done())/float64(b.Matched)*10_000)/10_000, 1)
}

func rounded(rate float64) float64 { return math.Round(rate*1000) / 1000 }

// durationText is String without trailing units that are zero: 5m, not 5m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
