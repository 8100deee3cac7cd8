package console

import (
	"context"
	"encoding/json"
	"net/url"

	"dlqmanager/client"
)

// job is a job of any kind: RetryJob has all fields of the other kinds except Changed.
type job struct {
	client.RetryJob

	Changed int64 `json:"changed"`
}

// readAs reads an answer of any kind as a type that has the fields of all kinds.
func readAs[T any](answer json.Marshaler) (one T, err error) {
	content, err := answer.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(content, &one)
	}
	return one, err
}

// IsRetry tells whether the job sends messages.
func (j job) IsRetry() bool { return j.Kind == "retry" }

// Ended tells whether the state is final.
func (j job) Ended() bool {
	return j.State == client.JobStateCOMPLETED || j.State == client.JobStateCANCELLED || j.State == client.JobStateFAILED
}

// Tried is how many messages the job has sent or tried to send.
func (j job) Tried() int64 { return j.Retried + j.Failed + j.Dead }

// CanPause tells whether the job can be paused now. Only retries can be paused.
func (j job) CanPause() bool { return j.IsRetry() && j.State == client.JobStateRUNNING }

// CanResume tells whether a pause can be ended.
func (j job) CanResume() bool {
	return j.State == client.JobStatePAUSED || j.State == client.JobStatePAUSING
}

// CanChangeRate tells whether the rate limit can be changed.
func (j job) CanChangeRate() bool {
	return j.IsRetry() && !j.Ended() && j.State != client.JobStateCANCELLING
}

// CanCancel tells whether the job can be cancelled.
func (j job) CanCancel() bool { return !j.Ended() && j.State != client.JobStateCANCELLING }

// webAddress returns an address with http or https unchanged. It returns an empty text for any other text, since
// a link must not have such an address.
func webAddress(text string) string {
	to, err := url.Parse(text)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return ""
	}
	return text
}

// jobView is a job with its progress in words and as a bar. Why says why the job waits or has ended.
type jobView struct {
	job

	Headline, Why string
	Bar           bar
}

func (v *visit) jobView(j job) jobView {
	return jobView{job: j, Headline: v.jobHeadline(j), Why: v.jobReason(j), Bar: v.jobBar(j)}
}

// jobPage is one job.
type jobPage struct {
	jobView

	Title     string
	Selection []string
	// RateText says how fast the job is.
	RateText string
	// Chart is nil for a job that has just begun or was short. ChartMissing says why the server has refused the points
	// of the chart, and ChartText describes the chart.
	Chart                   *chart
	ChartMissing, ChartText string
	Counts                  []jobCount
	Ramp                    []rampStep
	RampWords               []string
	Outcome                 []sentence
	List                    string
	// Every is how often the page reads the job again, in seconds.
	Every int
}

// jobCount is a number of a job with its meaning, and the page that lists the counted messages.
type jobCount struct {
	Name, Meaning, Path string
	Count               int64
	IsBad               bool
}

// rampStep is a step of a ramp. Its state is done, now or next.
type rampStep struct{ State, Text string }

// sentence is a statement about a job, with the page to go to next.
type sentence struct{ Kind, Text, Path, Link string }

// How often a page reads its job again, in seconds. After the job's end, only messages that come back change the counts.
const (
	runningRefresh = 2
	// bigRefresh is for jobs with many messages. The API then takes longer to count the messages that consumers are
	// past.
	bigRefresh   = 5
	endedRefresh = 15
	bigJob       = 5000
)

// jobOfAddress reads the job of the address. If verified is set, the API also counts the messages that consumers are past:
// the consumers have committed later offsets.
func (v *visit) jobOfAddress(verified bool) (job, error) {
	answer, err := v.api.GetJob(v.Context(), v.PathValue("id"), &client.GetJobParams{Verified: &verified})
	if err != nil {
		return job{}, err
	}
	return readAs[job](answer.Value)
}

func (v *visit) job() (*answer, error) {
	var j job
	var points []client.JobPoint
	var missing string
	err := v.together(
		func(context.Context) (err error) { j, err = v.jobOfAddress(true); return err },
		func(ctx context.Context) error { points, missing = v.seriesOfAddress(ctx); return nil },
	)
	if err != nil {
		return nil, err
	}
	page := v.jobPageOf(j)
	page.ChartMissing = missing
	if page.Chart = v.rateChart(j, points); page.Chart != nil {
		page.ChartText = v.chartText(page.Chart)
	}
	return show("job", page.Title, page)
}

func (v *visit) jobPageOf(j job) *jobPage {
	selected, kind := filtersFrom(j.Filters), string(j.Kind)
	p := &jobPage{
		jobView: v.jobView(j), Title: v.text("%s of %s", v.word("kind", kind), j.Topic), Selection: v.selection(selected),
		List: listOf(selected, kind, j.Topic), RateText: v.rateText(j), Counts: v.jobCounts(j, selected), Ramp: v.rampSteps(j),
		RampWords: v.rampWords(j.Ramp), Every: runningRefresh,
	}
	if j.Ended() {
		p.Outcome, p.Every = v.outcome(j, selected), endedRefresh
	} else if j.Matched > bigJob {
		p.Every = bigRefresh
	}
	return p
}
