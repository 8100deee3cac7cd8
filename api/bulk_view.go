package api

import (
	"cmp"
	"math"
	"strings"
	"time"

	"dlqmanager/dlq"
)

type bulksView struct {
	BulkRetries []bulkView `json:"bulk_retries"`
}

// bulkView is the resource: the state of the job, then its specification.
type bulkView struct {
	ID               dlq.ID        `json:"id"`
	Topic            string        `json:"topic"`
	State            dlq.BulkState `json:"state"`
	Reason           *string       `json:"reason"`
	Matched          int64         `json:"matched"`
	Retried          int64         `json:"retried"`
	Failed           int64         `json:"failed"`
	Dead             int64         `json:"dead"`
	Skipped          int64         `json:"skipped"`
	Waiting          int64         `json:"waiting"`
	CameBack         int64         `json:"came_back"`
	Progress         float64       `json:"progress"`
	PerSecond        float64       `json:"per_second"`
	AveragePerSecond float64       `json:"average_per_second"`
	EstimatedEnd     *timestamp    `json:"estimated_end"`
	StartedAt        timestamp     `json:"started_at"`
	UpdatedAt        timestamp     `json:"updated_at"`
	EndedAt          *timestamp    `json:"ended_at"`
	Filters          filterView    `json:"filters"`
	RateLimit        int           `json:"rate_limit"`
	Order            dlq.Order     `json:"order"`
	Ramp             *rampView     `json:"ramp"`
	RequestReason    *string       `json:"request_reason"`
	Workflow         *workflowView `json:"workflow"`
	// Counting is present while Matched is unknown.
	Counting bool `json:"counting,omitempty"`
	// Published is known only to the call that saw the job end.
	Published *bool `json:"published,omitempty"`
	// IncludeSuspicious is present when it was requested.
	IncludeSuspicious bool `json:"include_suspicious,omitempty"`
	// TargetTopic is present when it was requested.
	TargetTopic string `json:"target_topic,omitempty"`
	// Verified is present when it was requested.
	Verified *verificationsView `json:"verified,omitempty"`
}

type rampView struct {
	Steps       []int   `json:"steps"`
	Wait        string  `json:"wait"`
	MaxCameBack float64 `json:"max_came_back"`
	// Confirm is present when it was requested.
	Confirm string `json:"confirm,omitempty"`
}

// viewBulk computes progress, rates and the estimated end as of now.
func (s *Server) viewBulk(b *dlq.BulkRetry, now time.Time) bulkView {
	average := averageRate(b, now)
	view := bulkView{
		ID: b.ID, Topic: b.Spec.Topic, State: b.State, Reason: optionalText(b.Reason), Matched: b.Matched,
		Retried: b.Counts.Retried, Failed: b.Counts.Failed, Dead: b.Counts.Dead, Skipped: b.Counts.Skipped, Waiting: b.Waiting, CameBack: b.CameBack,
		Progress: progress(b), PerSecond: rounded(b.RecentPerSecond), AveragePerSecond: rounded(average), EstimatedEnd: estimatedEnd(b, now),
		StartedAt: timestamp(b.StartedAt), UpdatedAt: timestamp(b.UpdatedAt), EndedAt: optionalTime(b.EndedAt),
		Filters: viewFilter(&b.Spec.Filter), RateLimit: b.Spec.RateLimit, Order: cmp.Or(b.Spec.Order, dlq.OrderKey),
		RequestReason: optionalText(b.Spec.Reason), Workflow: s.viewWorkflow(b.Owner()), Counting: b.Counting,
		IncludeSuspicious: b.Spec.IncludeSuspicious, TargetTopic: b.Spec.TargetTopic,
	}
	if b.State.IsFinal() {
		view.PerSecond = view.AveragePerSecond
	}
	if ramp := b.Spec.Ramp; ramp != nil {
		view.Ramp = &rampView{Steps: ramp.Steps, Wait: durationText(ramp.Wait), MaxCameBack: ramp.MaxCameBack, Confirm: ramp.Confirm}
	}
	return view
}

// averageRate is in messages per second since the start, pauses included. It leaves out
// skipped messages, which were not sent. It is 0 while the store's clock is ahead of
// ours.
func averageRate(b *dlq.BulkRetry, now time.Time) float64 {
	end := now
	if b.EndedAt != nil {
		end = *b.EndedAt
	}
	if elapsed := end.Sub(b.StartedAt).Seconds(); elapsed > 0 {
		return float64(b.Counts.Sent()) / elapsed
	}
	return 0
}

// estimatedEnd is nil when it is unknown.
func estimatedEnd(b *dlq.BulkRetry, now time.Time) *timestamp {
	end, known := b.EstimatedEnd(now)
	if !known {
		return nil
	}
	shown := timestamp(end)
	return &shown
}

// progress is from 0 to 1, and 1 only when nothing is left.
func progress(b *dlq.BulkRetry) float64 {
	switch {
	case b.State == dlq.BulkCompleted:
		return 1
	case b.Matched <= 0:
		return 0
	}
	return min(math.Floor(float64(b.Counts.Done())/float64(b.Matched)*10_000)/10_000, 1)
}

func rounded(rate float64) float64 { return math.Round(rate*1000) / 1000 }

// durationText is String without trailing zero units: 5m, not 5m0s.
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
