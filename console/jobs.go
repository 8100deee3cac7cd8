package console

import (
	"net/url"
	"slices"
	"time"

	"dlqmanager/client"
)

// jobsPage is the list of jobs of all kinds.
type jobsPage struct {
	Rows        []jobRow
	Kinds       []choice
	States      []choice
	Since       []choice
	Topic       string
	Actor       string
	Chips       []chip
	First, Next string
	// Here is this page, to return to after a button of a row.
	Here string
	// Keep are the parameters that the form does not have.
	Keep filters
}

// jobRow is a job in the list.
type jobRow struct {
	job

	KindWord string
	Headline string
	// Why is why the job waits or has ended.
	Why string
	Bar bar
	// Conflict is set if a button of this row was refused because the job had changed.
	Conflict bool
}

// choice is a value of a field with its words.
type choice struct {
	Value, Text string
	IsSelected  bool
}

var jobStates = []string{"RUNNING", "PAUSING", "PAUSED", "CANCELLING", "COMPLETED", "CANCELLED", "FAILED"}

// sinceTimes are the times of the filter by start, which begin anew with each look at the page.
var sinceTimes = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

func (v *visit) jobs() (*answer, error) {
	query := v.URL.Query()
	size := int64(20)
	params := &client.ListJobsParams{PageSize: &size, Cursor: v.query("cursor"), Topic: v.query("topic"), Actor: v.query("actor")}
	if kind := v.query("kind"); kind != nil {
		params.Kind = (*client.JobKind)(kind)
	}
	if state := v.query("state"); state != nil {
		params.State = (*client.JobState)(state)
	}
	for name, to := range map[string]**time.Time{"from": &params.From, "to": &params.To} {
		if at, err := time.Parse(time.RFC3339Nano, query.Get(name)); err == nil {
			*to = &at
		}
	}
	if length, ok := sinceTimes[query.Get("since")]; ok {
		from := time.Now().Add(-length).UTC().Truncate(time.Second)
		params.From = &from
	}
	answer, err := v.api.ListJobs(v.Context(), params)
	if err != nil {
		return nil, err
	}
	page := &jobsPage{Topic: query.Get("topic"), Actor: query.Get("actor"), Chips: v.jobChips(query), Here: jobsPath(query, nil)}
	for _, one := range answer.Value.Jobs {
		j, err := readAs[job](one)
		if err != nil {
			return nil, err
		}
		page.Rows = append(page.Rows, jobRow{
			job: j, KindWord: v.word("kind", j.Kind), Headline: v.jobHeadline(j), Why: v.jobReason(j), Bar: v.jobBar(j),
			Conflict: query.Get("conflict") == j.ID,
		})
	}
	page.Kinds, page.States, page.Since = v.jobChoices(query)
	for _, name := range []string{"from", "to"} {
		if value := query.Get(name); value != "" {
			page.Keep = append(page.Keep, filter{name, value})
		}
	}
	if next := answer.Value.Pagination.NextCursor; next != nil {
		page.Next = jobsPath(query, map[string]string{"cursor": *next})
	}
	if query.Get("cursor") != "" {
		page.First = jobsPath(query, map[string]string{"cursor": ""})
	}
	return show("jobs", v.text("Jobs"), page)
}

// jobsPath is this list with some parameters set anew; an empty value leaves one out. A notice beside a row is shown once.
func jobsPath(query url.Values, set map[string]string) string {
	kept := url.Values{}
	for name, values := range query {
		if name != "conflict" {
			kept[name] = slices.Clone(values)
		}
	}
	for name, value := range set {
		if kept.Del(name); value != "" {
			kept.Set(name, value)
		}
	}
	for name, values := range kept {
		if slices.Equal(values, []string{""}) {
			kept.Del(name)
		}
	}
	return pageOf("/jobs", kept)
}

// jobChips are the filters of the list in words, each with the page without it.
func (v *visit) jobChips(query url.Values) []chip {
	var chips []chip
	for _, name := range []string{"kind", "topic", "state", "actor", "since", "from", "to"} {
		value := query.Get(name)
		if value == "" {
			continue
		}
		text := value
		switch name {
		case "kind":
			text = v.word("kind", value)
		case "topic":
			text = v.text("topic %s", value)
		case "actor":
			text = v.text("started by %s", value)
		case "since":
			text = v.word("since", value)
		case "from":
			text = v.text("started from %s", shownTime(value))
		case "to":
			text = v.text("started before %s", shownTime(value))
		}
		chips = append(chips, chip{Text: text, Without: jobsPath(query, map[string]string{name: "", "cursor": ""})})
	}
	return chips
}

func (v *visit) jobChoices(query url.Values) (kinds, states, since []choice) {
	for _, kind := range jobKinds {
		kinds = append(kinds, choice{kind, v.word("kind", kind), query.Get("kind") == kind})
	}
	for _, state := range jobStates {
		states = append(states, choice{state, state, query.Get("state") == state})
	}
	for _, value := range []string{"1h", "24h", "7d"} {
		since = append(since, choice{value, v.word("since", value), query.Get("since") == value})
	}
	return kinds, states, since
}
