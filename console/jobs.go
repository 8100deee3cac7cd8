package console

import (
	"time"

	"dlqmanager/client"
)

// jobsPage is the list of jobs of all kinds.
type jobsPage struct {
	listing

	Rows  []jobView
	Chips []chip
	// Here is this page, to return to after a button of a row.
	Here string
	// Conflict is the job whose button was refused because the job had changed.
	Conflict string
}

// jobFilters are the filters of the list, which are parameters of the page.
var jobFilters = []string{"kind", "topic", "state", "actor", "since", "from", "to"}

// sinceTimes are the choices of the filter by start. They count back from each request.
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
	list := listing{Path: "/jobs", Asked: asked}
	list = list.turned(asked, answer.Value.Pagination.NextCursor)
	page := &jobsPage{
		listing: list, Chips: list.chips(jobFilters, v.jobFilter), Here: pageOf("/jobs", asked), Conflict: v.URL.Query().Get("conflict"),
	}
	for _, one := range answer.Value.Jobs {
		j, err := readAs[job](one)
		if err != nil {
			return nil, err
		}
		page.Rows = append(page.Rows, v.jobView(j))
	}
	return show("jobs", v.text("Jobs"), page)
}

// jobFilter describes a filter of the list in words.
func (v *visit) jobFilter(name, value string) string {
	switch name {
	case "topic":
		return v.text("topic %s", value)
	case "actor":
		return v.text("started by %s", value)
	case "from":
		return v.text("started from %s", shownTime(value))
	case "to":
		return v.text("started before %s", shownTime(value))
	default:
		return v.word(name, value)
	}
}
