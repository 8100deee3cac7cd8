package api

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dlqmanager/dlq"
)

// Limits of the request for a job. The texts are short, since they become part of a workflow's input.
const (
	maxRate            = 1_000_000
	maxBulkText        = 1000
	maxBulkKey         = 4096
	maxRampSteps       = 10
	maxRampStep        = 1_000_000_000
	minRampWait        = time.Second
	maxRampWait        = 24 * time.Hour
	defaultRampWait    = 30 * time.Second
	defaultMaxCameBack = 0.1
)

// retryOnlyFields are the fields that only the request for a bulk retry has.
var retryOnlyFields = []string{"rate_limit", "order", "ramp", "include_suspicious", targetField}

// jobFields are the fields in the request for a plan, and for a job without a plan.
var jobFields = slices.Concat([]string{"kind", "topic", "reason"}, retryOnlyFields, filterNames(dlq.InJobs), []string{negation})

func (b *body) spec() dlq.JobSpec {
	b.require("kind")
	spec := dlq.JobSpec{Filter: b.filter(b.topic())}
	spec.Reason, _ = b.text("reason", maxBulkText)
	switch spec.Kind = wordOf(b, "kind", dlq.JobKinds); {
	case spec.Kind == dlq.KindRetry:
		b.retry(&spec)
	case slices.Contains(dlq.JobKinds, spec.Kind):
		b.change(&spec)
	}
	return spec
}

// change completes the specification of a job that changes messages.
func (b *body) change(spec *dlq.JobSpec) {
	for _, name := range retryOnlyFields {
		if _, given := b.fields[name]; given {
			b.reject(name, "is for jobs of the kind retry")
		}
	}
	if spec.Kind == dlq.KindRestore && len(spec.Statuses) == 0 {
		spec.Statuses = []dlq.Status{dlq.StatusDead} // not RESOLVED, so that no delivered message is sent again by mistake
	}
	if len(spec.ChangedStatuses()) == 0 {
		b.reject("status", "leaves nothing to do: %s changes messages that are %s", spec.Kind, listed(spec.Kind.Statuses()))
	}
}

// listed writes "PENDING, RESOLVED or DEAD".
func listed[T ~string](values []T) string {
	names := views(values, func(value *T) string { return string(*value) })
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// retry completes the specification of a bulk retry.
func (b *body) retry(spec *dlq.JobSpec) {
	spec.RateLimit = b.integer("rate_limit", 0, maxRate)
	spec.Order = cmp.Or(wordOf(b, "order", []dlq.Order{dlq.OrderKey, dlq.OrderNone}), dlq.OrderKey)
	spec.Ramp, spec.IncludeSuspicious, spec.TargetTopic = b.ramp(), b.flag("include_suspicious"), b.target()
}

func (b *body) topic() string {
	b.require("topic")
	return b.topicName()
}

// statuses reads one status or a list of statuses.
func (b *body) statuses(name string) []dlq.Status {
	raw := b.fields[name]
	items := []json.RawMessage{raw}
	if raw[0] == '[' {
		items = b.list(name, len(dlq.Statuses))
	}
	var wanted []dlq.Status
	for i, one := range items {
		text, _ := textOf(one)
		status, err := dlq.ParseStatus(text)
		field := name
		if raw[0] == '[' && !b.isQuery {
			field = item(field, i)
		}
		switch {
		case err != nil:
			b.reject(field, "must be one of PENDING, RETRYING, RESOLVED, DEAD")
		case slices.Contains(wanted, status):
			b.reject(field, "is given more than once")
		}
		wanted = append(wanted, status)
	}
	return wanted
}

func (b *body) ids(name string, most int) []dlq.ID {
	items := b.list(name, most)
	ids, seen := make([]dlq.ID, 0, len(items)), make(map[dlq.ID]int, len(items))
	for i, raw := range items {
		text, _ := textOf(raw)
		id, err := dlq.ParseID(text)
		first, twice := seen[id]
		switch {
		case err != nil:
			b.reject(item(name, i), "is not a UUID")
			continue
		case twice:
			b.reject(item(name, i), "is the same as %s", item(name, first))
		}
		ids, seen[id] = append(ids, id), i
	}
	return ids
}

func (b *body) ramp() *dlq.Ramp {
	inner := b.nested("ramp", "steps", "wait", "max_came_back", "confirm")
	if inner == nil {
		return nil
	}
	ramp := &dlq.Ramp{MaxCameBack: defaultMaxCameBack}
	inner.require("steps")
	for i, raw := range inner.list("steps", maxRampSteps) {
		step, ok := integerOf(raw)
		if !ok || step < 1 || step > maxRampStep {
			inner.reject(item("steps", i), "must be an integer from 1 to %d", maxRampStep)
		}
		ramp.Steps = append(ramp.Steps, step)
	}
	ramp.Wait = inner.duration("wait", defaultRampWait, minRampWait, maxRampWait, `from %s to %s, such as "30s" or "5m"`)
	if raw, given := inner.fields["max_came_back"]; given {
		share, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || share < 0 || share > 1 {
			inner.reject("max_came_back", "must be a number from 0 to 1")
		}
		ramp.MaxCameBack = math.Abs(share) // JSON can write -0
	}
	if ramp.Confirm = wordOf(inner, "confirm", []string{dlq.ConfirmVerified}); ramp.Confirm != "" {
		sum := 0
		for _, step := range ramp.Steps {
			if sum = min(sum+step, dlq.VerificationLimit); sum >= dlq.VerificationLimit {
				inner.reject("steps", "must be fewer than %d messages together with confirm", dlq.VerificationLimit)
				break
			}
		}
	}
	return ramp
}
