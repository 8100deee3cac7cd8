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

// planForm is a request for a plan: the kind of job, its messages, and the way to send them. The address of the form
// contains it, so that people can change a plan, and make it again after it has expired.
type planForm struct {
	Kind, Topic string
	Selected    url.Values

	Reason, Target, Order, Rate string
	// Ramp is rampSteps or rampNone. Steps, Wait and CameBack describe the steps; CameBack is in percent.
	Ramp, Steps, Wait, CameBack string
	Confirm, Suspicious         bool
	// Whole is set if the person has marked that every message of the topic is meant.
	Whole bool
}

const (
	rampSteps     = "steps"
	rampNone      = "none"
	firstSteps    = "1, 10, 100"
	firstWait     = "30s"
	firstCameBack = "10"
)

// hiddenValue replaces the value of a filter in jobs, and in plans of other people, if masking hides the compared field. As a filter it
// matches nothing, so an exclusion would exclude nothing.
const hiddenValue = "***"

// firstTexts are the first values of the fields that do not begin empty.
var firstTexts = map[string]string{"ramp": rampSteps, "steps": firstSteps, "wait": firstWait, "max_came_back": firstCameBack}

// texts are the text fields of the form, by their names in the API or in the form.
func (f *planForm) texts() map[string]*string {
	return map[string]*string{
		"kind": &f.Kind, "topic": &f.Topic, "reason": &f.Reason, "target_topic": &f.Target, "order": &f.Order, "rate_limit": &f.Rate,
		"ramp": &f.Ramp, "steps": &f.Steps, "wait": &f.Wait, "max_came_back": &f.CameBack,
	}
}

// marks are the checkboxes of the form.
func (f *planForm) marks() map[string]*bool {
	return map[string]*bool{"confirm": &f.Confirm, "include_suspicious": &f.Suspicious, "whole": &f.Whole}
}

// planFormOf reads a form or an address. problem names a filter that a job cannot have. The plan is refused then: without
// the filter, it would select more messages than were meant.
func (v *visit) planFormOf(values url.Values) (f planForm, problem string) {
	f.Selected = filtersOf(values)
	texts, marks := f.texts(), f.marks()
	for name, to := range texts {
		*to = firstTexts[name]
		if values.Has(name) {
			*to = strings.TrimSpace(unixLines(values.Get(name)))
		}
	}
	for name, to := range marks {
		*to = values.Get(name) != ""
	}
	if f.Ramp != rampNone {
		f.Ramp = rampSteps
	}
	if !slices.Contains(jobKinds, f.Kind) {
		f.Kind = "retry"
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case texts[name] != nil || marks[name] != nil:
		case !isFilter(name) || name == "verified":
			return f, v.text("Jobs have no filter “%s”. Choose the messages in another way, so that no others are taken.", name)
		case slices.Contains(values[name], "") && !mayBeEmpty(name):
			return f, v.text("The filter “%s” has no value. Choose the messages again, so that no others are taken.", name)
		case strings.HasPrefix(name, "not.") && slices.Contains(values[name], hiddenValue):
			return f, v.text("The value of the filter “%s” is hidden, so it leaves nothing out. Choose the messages again, so that no others are taken.", name)
		case len(values[name]) > 1 && name != "status" && name != "ids" && !strings.HasPrefix(name, "not."):
			return f, v.text("The filter “%s” has several values. Choose the messages again, so that no others are taken.", name)
		}
	}
	return f, ""
}

// IsWhole tells whether the selection has no filter but a status.
func (f *planForm) IsWhole() bool {
	return len(without(f.Selected, "status")) == 0
}

// values writes the form as parameters of an address. It leaves out fields that have their first values.
func (f *planForm) values() url.Values {
	values := without(f.Selected)
	for name, value := range f.texts() {
		if *value != firstTexts[name] {
			values.Set(name, *value)
		}
	}
	for name, isSet := range f.marks() {
		if *isSet {
			values.Set(name, "1")
		}
	}
	return values
}

// path is the page of the form with the entered fields.
func (f *planForm) path() string { return "/plans/new?" + f.values().Encode() }

// request is the body of the plan. A text that is no number is sent unchanged, so that the API explains the mistake.
func (f *planForm) request() (client.JobRequest, error) {
	parameters := with(with(f.Selected, "kind", f.Kind), "topic", f.Topic)
	set := func(name, value string) {
		if value != "" {
			parameters.Set(name, value)
		}
	}
	set("reason", f.Reason)
	if f.Kind == "retry" {
		set("target_topic", f.Target)
		set("order", f.Order)
		set("rate_limit", f.Rate)
		if f.Suspicious {
			set("include_suspicious", "true")
		}
	}
	if f.Kind == "retry" && f.Ramp == rampSteps {
		parameters.Set("ramp.steps", f.Steps) // an empty list is sent too, and the API refuses it
		set("ramp.wait", f.Wait)
		set("ramp.max_came_back", shareOf(f.CameBack))
		if f.Confirm {
			set("ramp.confirm", "verified")
		}
	}
	var request client.JobRequest
	content, err := json.Marshal(client.PlanBody(parameters))
	if err != nil {
		return request, err
	}
	return request, json.Unmarshal(content, &request)
}

// shareOf writes a percentage as a share. It returns a text that is no number unchanged.
func shareOf(percent string) string {
	number, err := strconv.ParseFloat(percent, 64)
	share := strconv.FormatFloat(number/100, 'f', -1, 64)
	if err != nil || !json.Valid([]byte(share)) { // NaN is no JSON
		return percent
	}
	return share
}
