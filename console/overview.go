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

// overviewData is the first page.
type overviewData struct {
	Topics []client.Topics_Topics
	Cards  []card
	// Unwell are the troubles that a person has to look after.
	Unwell []trouble
	// Arrivals is nil if the arrivals cannot be read. Then ArrivalsError says why. CausesError says why the causes
	// cannot be read.
	Arrivals      *chart
	ArrivalsError string
	Span          string
	Causes        []causeList
	CausesError   string
	// Server is the address of this server in commands.
	Server string
}

// card is a number with a link to the page about it.
type card struct {
	Label, Value, Path, Help string
	// At is a time in place of Value.
	At *time.Time
	// Kind is the name of an icon and of a colour.
	Kind string
}

// causeList is a few causes in one order, and the page with all of them.
type causeList struct {
	Title, Path string
	Groups      []client.Group
}

const (
	// causesShown is how many causes the overview and the page of a topic have.
	causesShown  = 5
	chartColours = 5
	// meanMinutes is the number of whole minutes over which the rate of arrivals is a mean.
	meanMinutes = 5
	readyWait   = 3 * time.Second
	jobsCounted = 100
	monthHours  = 30 * 24
)

// part reads a part of a page, unless the script asks for a region without this part. An error of a part does not fail the page, whose
// other parts may be all that an operator needs.
func (v *visit) part(read func(context.Context), regions ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if v.wants(regions...) {
			read(ctx)
		}
		return nil
	}
}

// wants tells whether the answer has one of the regions. The whole page has every region.
func (v *visit) wants(regions ...string) bool {
	asked := v.Header.Get(regionHeader)
	return asked == "" || slices.Contains(regions, asked)
}

func (v *visit) overview() (*answer, error) {
	data := overviewData{Span: v.span(), Server: v.server()}
	var rate *client.SeriesList
	var jobs *client.Jobs
	var ready []trouble
	err := v.together(
		func(ctx context.Context) (err error) {
			if v.wants("now", "topics", "start") {
				data.Topics, err = v.topics(ctx)
			}
			return err
		},
		v.part(func(ctx context.Context) { ready = v.readiness(ctx) }, "now", "start"),
		v.part(func(ctx context.Context) { rate = v.lastMinutes(ctx) }, "now", "start"),
		v.part(func(ctx context.Context) { jobs = v.runningJobs(ctx) }, "now", "start"),
		v.part(func(ctx context.Context) { data.Arrivals, data.ArrivalsError = v.arrivals(ctx, "") }, "arrivals"),
		v.part(func(ctx context.Context) { data.Causes, data.CausesError = v.causesNow(ctx) }, "causes"),
	)
	if err != nil {
		return nil, err
	}
	data.Cards = v.cards(data.Topics, rate, jobs)
	data.Unwell = slices.Concat(ready, v.troubles(data.Topics))
	return show("overview", v.text("Overview"), data)
}

// topics reads the dead-letter topics. Topics with the most PENDING messages come first.
func (v *visit) topics(ctx context.Context) ([]client.Topics_Topics, error) {
	list, err := v.api.ListTopics(ctx, nil)
	if err != nil {
		return nil, err
	}
	topics := list.Value.Topics
	slices.SortStableFunc(topics, func(a, b client.Topics_Topics) int { return cmp.Compare(b.Counts.PENDING, a.Counts.PENDING) })
	return topics, nil
}

// lastMinutes reads the arrivals of the last minutes; nil after an error.
func (v *visit) lastMinutes(ctx context.Context) *client.SeriesList {
	list, err := v.api.ListSeries(ctx, &client.ListSeriesParams{
		Step: new(client.ListSeriesParamsStepMinute), From: new(time.Now().Add(-(meanMinutes + 1) * time.Minute)),
	})
	if err != nil {
		return nil
	}
	return &list.Value
}

func (v *visit) runningJobs(ctx context.Context) *client.Jobs {
	jobs, err := v.api.ListJobs(ctx, &client.ListJobsParams{State: new(client.JobStateRUNNING), PageSize: new(int64(jobsCounted))})
	if err != nil {
		return nil
	}
	return &jobs.Value
}

// perMinute is the mean of the last whole minutes. The last bucket is the current minute, which is left out.
func perMinute(list *client.SeriesList) float64 {
	sum := int64(0)
	for _, series := range list.Series {
		whole := series.Buckets[:max(len(series.Buckets)-1, 0)]
		for _, value := range whole[max(len(whole)-meanMinutes, 0):] {
			sum += value
		}
	}
	return float64(sum) / meanMinutes
}

// rate writes a number of messages per minute or second. Small numbers get a decimal, so that a slow rate is not shown as 0.
func (v *visit) rate(of float64) string {
	switch {
	case of >= 100 || of == 0:
		return printerOf(v.language).Sprintf("%.0f", of)
	case of < 0.05:
		return "<0.1"
	default:
		return printerOf(v.language).Sprintf("%.1f", of)
	}
}

// cards are the numbers that an operator asks for first.
func (v *visit) cards(topics []client.Topics_Topics, rate *client.SeriesList, jobs *client.Jobs) []card {
	var pending, dead int64
	var oldest, deadest client.Topics_Topics
	for _, topic := range topics {
		pending, dead = pending+topic.Counts.PENDING, dead+topic.Counts.DEAD
		if topic.OldestPending != nil && (oldest.OldestPending == nil || topic.OldestPending.Before(*oldest.OldestPending)) {
			oldest = topic
		}
		if topic.Counts.DEAD > deadest.Counts.DEAD {
			deadest = topic
		}
	}
	arriving, running := "–", "–"
	if rate != nil {
		arriving = v.rate(perMinute(rate))
	}
	if jobs != nil {
		running = v.language.number(int64(len(jobs.Jobs)))
		if jobs.Pagination.HasNext {
			running += "+"
		}
	}
	pathOfTopic := func(topic, query string) string {
		if topic == "" {
			return "/#topics"
		}
		return "/topics/" + url.PathEscape(topic) + "?" + query
	}
	return []card{
		{Label: "PENDING", Value: v.language.number(pending), Path: "/groups?sort=pending", Kind: "PENDING", Help: v.text("wait for a retry or for you")},
		{Label: v.text("Arriving per minute"), Value: arriving, Path: "/groups?sort=last_seen", Help: v.text("mean of the last five minutes")},
		{
			Label: v.text("Oldest PENDING"), At: oldest.OldestPending, Help: oldest.DlqTopic,
			Path: pathOfTopic(oldest.DlqTopic, "sort=created_at&status=PENDING"),
		},
		{
			Label: "DEAD", Value: v.language.number(dead), Kind: "DEAD", Help: v.text("are not retried unless you revive them"),
			Path: pathOfTopic(deadest.DlqTopic, "status=DEAD"),
		},
		{Label: v.text("Running jobs"), Value: running, Path: "/jobs?state=RUNNING", Kind: "RUNNING", Help: v.text("retries and changes of many messages")},
	}
}

// causesNow reads the largest open causes, and the newest open causes.
func (v *visit) causesNow(ctx context.Context) ([]causeList, string) {
	lists := []causeList{
		{Title: v.text("Largest open causes"), Path: "/groups?sort=pending&state=open"},
		{Title: v.text("New causes"), Path: "/groups?sort=first_seen&state=open"},
	}
	for i, sort := range []client.ListGroupsParamsSort{client.ListGroupsParamsSortPending, client.ListGroupsParamsSortFirstSeen} {
		list, err := v.api.ListGroups(ctx, &client.ListGroupsParams{State: new(client.GroupStateOpen), Sort: &sort, PageSize: new(int64(causesShown))})
		if err != nil {
			return nil, v.optional(err)
		}
		lists[i].Groups = list.Value.Groups
	}
	return lists, ""
}

// origin is the scheme and host of this server in the browser. host is the header Host of the request.
func (v *visit) origin(host string) string {
	scheme := "http://"
	if v.console.options.Secure {
		scheme = "https://"
	}
	return cmp.Or(v.console.options.Origin, scheme+host)
}

// server is the address of this server for commands to copy.
func (v *visit) server() string {
	host := v.Host
	if strings.ContainsFunc(host, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-:[]", r) }) {
		host = "localhost"
	}
	return v.origin(host)
}
