package console

import (
	"net/url"
	"time"

	"dlqmanager/client"
)

// jobsPage is the list of jobs of all kinds.
type jobsPage struct {
	Rows        []jobView
	Asked       url.Values
	Chips       []chip
	First, Next string
	// Here is this page, to return to after a button of a row.
	Here string
	// Conflict is the job whose button was refused because the job had changed.
	Conflict string
}

// jobFilters are the filters of the list, which are parameters of the page.
var jobFilters = []string{"kind", "topic", "state", "actor", "since", "from", "to"}

// sinceTimes are the times of the filter by start, which begin anew with each look at the page.
var sinceTimes = map[string]time.Duration{"1h": time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

func (v *visit) jobs() (*answer, error) {
	asked := v.asked(append(jobFilters, "cursor")...)
	params := &client.ListJobsParams{
		PageSize: new(int64(20)), Cursor: v.query("cursor"), Topic: v.query("topic"), Actor: v.query("actor"),
		Kind: (*client.JobKind)(v.query("kind")), State: (*client.JobState)(v.query("state")),
	}
	for name, to := range map[string]**time.Time{"from": &params.From, "to": &params.To} {
		if at, err := time.Parse(time.RFC3339Nano, asked.Get(name)); err == nil {
			*to = &at
		}
	}
	if length, ok := sinceTimes[asked.Get("since")]; ok {
		params.From = new(time.Now().Add(-length).UTC().Truncate(time.Second))
	}
	answer, err := v.api.ListJobs(v.Context(), params)
	if err != nil {
		return nil, err
	}
	page := &jobsPage{Asked: asked, Chips: v.jobChips(asked), Here: pageOf("/jobs", asked), Conflict: v.URL.Query().Get("conflict")}
	for _, one := range answer.Value.Jobs {
		j, err := readAs[job](one)
		if err != nil {
			return nil, err
		}
		page.Rows = append(page.Rows, v.jobView(j))
	}
	page.First, page.Next = cursorPages("/jobs", asked, answer.Value.Pagination.NextCursor)
	return show("jobs", v.text("Jobs"), page)
}

// jobChips are the filters of the list in words, each with the page without it.
func (v *visit) jobChips(asked url.Values) []chip {
	var chips []chip
	for _, name := range jobFilters {
		value := asked.Get(name)
		if value == "" {
			continue
		}
		text := v.word(name, value)
		switch name {
		case "topic":
			text = v.text("topic %s", value)
		case "actor":
			text = v.text("started by %s", value)
		case "from":
			text = v.text("started from %s", shownTime(value))
		case "to":
			text = v.text("started before %s", shownTime(value))
		}
		chips = append(chips, chip{Text: text, Without: pageOf("/jobs", without(asked, name, "cursor"))})
	}
	return chips
}
