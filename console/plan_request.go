package console

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dlqmanager/client"
)

// jobKinds are the kinds of jobs, in the order of a choice.
var jobKinds = []string{"retry", "revive", "dead", "delete", "restore"}

// planForm is a request for a plan: what to do, with which messages, and how to send them. It lies in the address of the
// form, so that a plan can be changed, and made again after it has expired.
type planForm struct {
	Kind, Topic string
	Selected    filters

	Reason, Target, Order, Rate string
	// Ramp is steps or none. The others describe the steps; CameBack is in percent.
	Ramp, Steps, Wait, CameBack string
	Confirm, Suspicious         bool
	// Whole is set by whoever means every message of the topic.
	Whole bool
}

const (
	rampSteps     = "steps"
	rampNone      = "none"
	firstSteps    = "1, 10, 100"
	firstWait     = "30s"
	firstCameBack = "10"
)

// hiddenValue stands in jobs, and in plans of others, for the value of a filter that compares what masking hides. As a filter it
// matches nothing, so that an exclusion would exclude nothing.
const hiddenValue = "***"

// ownFields are the fields of the form beside the filters.
var ownFields = []string{"kind", "topic", "reason", "target_topic", "order", "rate_limit", "ramp", "steps", "wait", "max_came_back", "confirm",
	"include_suspicious", "whole"}

// planFormOf reads a form or an address. The problem names a filter that a job does not have: to leave it out would select
// more messages than were meant.
func (v *visit) planFormOf(values url.Values) (f planForm, problem string) {
	f = planForm{
		Kind: values.Get("kind"), Topic: values.Get("topic"), Selected: filtersOf(values),
		Reason: unixLines(values.Get("reason")), Target: strings.TrimSpace(values.Get("target_topic")),
		Order: values.Get("order"), Rate: strings.TrimSpace(values.Get("rate_limit")),
		Ramp: rampSteps, Steps: firstSteps, Wait: firstWait, CameBack: firstCameBack,
		Confirm: values.Get("confirm") != "", Suspicious: values.Get("include_suspicious") != "", Whole: values.Get("whole") != "",
	}
	if values.Get("ramp") == rampNone {
		f.Ramp = rampNone
	}
	for name, to := range map[string]*string{"steps": &f.Steps, "wait": &f.Wait, "max_came_back": &f.CameBack} {
		if values.Has(name) {
			*to = strings.TrimSpace(values.Get(name))
		}
	}
	if !slices.Contains(jobKinds, f.Kind) {
		f.Kind = "retry"
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		isFilter := isFilter(name)
		switch {
		case slices.Contains(ownFields, name):
		case !isFilter || name == "verified":
			return f, v.text("Jobs have no filter “%s”. Choose the messages in another way, so that no others are taken.", name)
		case slices.Contains(values[name], "") && name != "key":
			return f, v.text("The filter “%s” has no value. Choose the messages again, so that no others are taken.", name)
		case strings.HasPrefix(name, "not.") && slices.Contains(values[name], hiddenValue):
			return f, v.text("The value of the filter “%s” is hidden, so it leaves nothing out. Choose the messages again, so that no others are taken.", name)
		case len(values[name]) > 1 && name != "status" && name != "ids" && !strings.HasPrefix(name, "not."):
			return f, v.text("The filter “%s” has several values. Choose the messages again, so that no others are taken.", name)
		}
	}
	return f, ""
}

// isWhole tells whether nothing but a status limits the selection.
func (f *planForm) isWhole() bool {
	return !slices.ContainsFunc(f.Selected, func(one filter) bool { return one.Name != "status" })
}

// values is the form as an address. A field with its first value is left out.
func (f *planForm) values() url.Values {
	values := f.Selected.query()
	set := func(name, value, first string) {
		if value != first {
			values.Set(name, value)
		}
	}
	set("kind", f.Kind, "")
	set("topic", f.Topic, "")
	set("reason", f.Reason, "")
	set("target_topic", f.Target, "")
	set("order", f.Order, "")
	set("rate_limit", f.Rate, "")
	set("ramp", f.Ramp, rampSteps)
	set("steps", f.Steps, firstSteps)
	set("wait", f.Wait, firstWait)
	set("max_came_back", f.CameBack, firstCameBack)
	for name, isSet := range map[string]bool{"confirm": f.Confirm, "include_suspicious": f.Suspicious, "whole": f.Whole} {
		if isSet {
			values.Set(name, "1")
		}
	}
	return values
}

// path is the form's page with what was entered.
func (f *planForm) path() string { return "/plans/new?" + f.values().Encode() }

// request is the body of the plan. Whatever is no number goes as it is: the API says what is wrong with it.
func (f *planForm) request() (client.JobRequest, error) {
	body := f.Selected.body()
	body["kind"], body["topic"] = f.Kind, f.Topic
	if f.Reason != "" {
		body["reason"] = f.Reason
	}
	if f.Kind == "retry" {
		if f.Target != "" {
			body["target_topic"] = f.Target
		}
		if f.Order != "" {
			body["order"] = f.Order
		}
		if f.Rate != "" {
			body["rate_limit"] = number(f.Rate)
		}
		if f.Suspicious {
			body["include_suspicious"] = true
		}
		if f.Ramp == rampSteps {
			body["ramp"] = f.ramp()
		}
	}
	var request client.JobRequest
	content, err := json.Marshal(body)
	if err != nil {
		return request, err
	}
	return request, json.Unmarshal(content, &request)
}

func (f *planForm) ramp() map[string]any {
	steps := []any{}
	for step := range strings.SplitSeq(f.Steps, ",") {
		if step = strings.TrimSpace(step); step != "" {
			steps = append(steps, number(step))
		}
	}
	ramp := map[string]any{"steps": steps}
	if f.Wait != "" {
		ramp["wait"] = f.Wait
	}
	if f.CameBack != "" {
		ramp["max_came_back"] = f.CameBack
		percent, err := strconv.ParseFloat(f.CameBack, 64)
		if share := strconv.FormatFloat(percent/100, 'f', -1, 64); err == nil && json.Valid([]byte(share)) { // NaN is no JSON
			ramp["max_came_back"] = json.RawMessage(share)
		}
	}
	if f.Confirm {
		ramp["confirm"] = "verified"
	}
	return ramp
}
