package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"dlqmanager/client"
)

// groupData is the page of a cause. Alerts link to it.
type groupData struct {
	client.Group

	// Total is the number of messages of the cause, over all statuses.
	Total int64
	Pulse pulse
	// Range is the time span of the chart.
	Range string
	Chart *chart
	// ChartMissing, SampleMissing, HistoryMissing and JobsMissing say why a part of the page cannot be shown.
	ChartMissing, SampleMissing, HistoryMissing, JobsMissing string

	// Sample is one of the newest messages. It shows why the messages fail.
	Sample *failure
	// History are the decisions about the cause, the newest first.
	History []decision
	// StateReason says why a held or fixed cause is open again.
	StateReason string
	Jobs        []job
	// OtherJobs is the number of jobs of the same topics whose filters do not name the cause.
	OtherJobs int
	// HoldCount and HoldRate are conditions of a hold; 0 if the hold has no such condition.
	HoldCount, HoldRate int64
	// Seen is a fingerprint of the decision about the cause when the page was made.
	Seen string
	// Form has the fields of a refused form.
	Form url.Values
}

// Field returns the initial content of a field: the text of the refused form, or else value.
func (d groupData) Field(name, value string) string {
	if d.Form.Has(name) {
		return d.Form.Get(name)
	}
	return value
}

// IsOpen tells whether the named form was refused, so that it stays open.
func (d groupData) IsOpen(form string) bool { return d.Form.Get("do") == form }

// PlanTopics are the topics with PENDING messages of the cause. A plan is for one topic.
func (d groupData) PlanTopics() []string {
	var names []string
	for _, topic := range d.Topics {
		if name := cmp.Or(topic.DlqTopic, topic.OriginalTopic); topic.Counts.PENDING > 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (v *visit) group() (*answer, error) { return v.groupPage(nil) }

// groupPage shows a cause. form has the fields of a refused form; nil without one.
func (v *visit) groupPage(form url.Values) (*answer, error) {
	answer, err := v.api.GetGroup(v.Context(), v.PathValue("id"), nil)
	if err != nil {
		return nil, err
	}
	g := answer.Value
	data := groupData{
		Group: g, Total: g.Counts.PENDING + g.Counts.RETRYING + g.Counts.RESOLVED + g.Counts.DEAD, Pulse: pulseOf(g.LastSeen, time.Now()),
		Range: rangeOf(v.URL.Query().Get("range"), g), Seen: seenOf(g), Form: form, StateReason: v.reasonOfState(g.StateReason),
	}
	if g.Hold != nil {
		data.HoldCount, data.HoldRate = valueOf(g.Hold.Count), valueOf(g.Hold.Rate)
	}
	var arrivals *client.SeriesList
	err = v.together(
		v.part(func(ctx context.Context) { arrivals, data.ChartMissing = v.arrivalsOf(ctx, g, data.Range) }, "course"),
		v.part(func(ctx context.Context) { data.History, data.HistoryMissing = v.historyOf(ctx, g) }, "course"),
		v.part(func(ctx context.Context) { data.Jobs, data.OtherJobs, data.JobsMissing = v.jobsOf(ctx, g) }, "tried"),
		v.part(func(ctx context.Context) { data.Sample, data.SampleMissing = v.sampleOf(ctx, g) }),
	)
	if err != nil {
		return nil, err
	}
	if data.StateReason != "" && data.HistoryMissing == "" {
		opened := decision{At: g.StateAt, By: v.text("by itself"), What: []string{v.text("Opened again"), data.StateReason}}
		data.History = slices.Insert(data.History, 0, opened)
	}
	if arrivals != nil {
		data.Chart = v.courseOf(*arrivals, marksOf(v, g, data.History))
	}
	return show("group", short(80, g.Title), data)
}

// pulse tells whether a cause still arrives.
type pulse string

const (
	pulseUnknown  pulse = ""
	pulseArriving pulse = "arriving"
	pulseSlower   pulse = "slower"
	pulseOver     pulse = "over"
)

// pulseOf judges by the age of the newest message.
func pulseOf(last *time.Time, now time.Time) pulse {
	switch {
	case last == nil:
		return pulseUnknown
	case now.Sub(*last) < 5*time.Minute:
		return pulseArriving
	case now.Sub(*last) < time.Hour:
		return pulseSlower
	default:
		return pulseOver
	}
}

// seenOf returns a fingerprint of the decision about a cause, so that a form notices a decision of another person. The
// conditions of a hold are left out, since their remaining counts change with each arrival. A person who changes the
// conditions also changes the time of the state.
func seenOf(g client.Group) string {
	return fingerprintOf([]any{g.State, g.StateAt, g.Owner, g.Ticket, g.Note})
}

// reasonOfState says in the user's language why a cause is open again.
func (v *visit) reasonOfState(reason *string) string {
	switch text := valueOf(reason); {
	case strings.HasPrefix(text, "regression:"):
		return v.text("A record that was written after the fix has failed in the same way.")
	case strings.HasSuffix(text, "its time has come"):
		return v.text("The time of the hold has come.")
	case strings.HasSuffix(text, "have arrived in an hour"):
		return v.text("As many messages as the hold allowed have arrived in an hour.")
	case strings.HasSuffix(text, "have arrived"):
		return v.text("As many messages as the hold allowed have arrived.")
	default:
		return text
	}
}
