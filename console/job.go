package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"dlqmanager/client"
)

// job is a job of any kind: a retry has all fields of the others but Changed.
type job struct {
	client.RetryJob

	Changed int64 `json:"changed"`
}

func jobOf(answer client.Job) (j job, err error) {
	content, err := answer.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(content, &j)
	}
	return j, err
}

// IsRetry tells whether the job sends messages.
func (j job) IsRetry() bool { return j.Kind == "retry" }

// Ended tells whether the state is final.
func (j job) Ended() bool {
	return j.State == client.JobStateCOMPLETED || j.State == client.JobStateCANCELLED || j.State == client.JobStateFAILED
}

// Tried is how many messages the job has sent, or tried to.
func (j job) Tried() int64 { return j.Retried + j.Failed + j.Dead }

// CanPause tells whether the job can be paused now, and so on. Only retries can be paused.
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

// WorkflowURL is the address of the workflow in Temporal's Web UI, empty if it is none of the web.
func (j job) WorkflowURL() string {
	if j.Workflow == nil {
		return ""
	}
	return webAddress(valueOf(j.Workflow.URL))
}

// webAddress returns an address that a link may have: of the web alone.
func webAddress(text string) string {
	to, err := url.Parse(text)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return ""
	}
	return text
}

// jobPage is one job.
type jobPage struct {
	job

	Title, KindWord string
	Selection       []string
	Bar             bar
	// Headline says how far the job is, and RateText how fast; Why is why it waits or has ended.
	Headline, RateText, Why string
	Counts                  []jobCount
	Ramp                    []rampStep
	RampWords               []string
	Outcome                 []sentence
	Unknown                 []sentence
	List, Audit             string
	// Every is how often the page reads the job again, in seconds.
	Every int
}

// jobCount is a number of a job with its meaning, and the page that shows the messages.
type jobCount struct {
	Name, Meaning, Path string
	Count               int64
	IsBad               bool
}

// rampStep is a step of a ramp: done, now or next.
type rampStep struct{ State, Text string }

// sentence is a statement about a job, with the page to go to next.
type sentence struct{ Kind, Text, Path, Link string }

// While a job runs, its page reads it often. The messages that came back after its end are counted seldom.
const (
	runningRefresh = 2
	// bigRefresh is for jobs whose sent messages take the API longer to look through.
	bigRefresh   = 5
	endedRefresh = 15
	bigJob       = 5000
)

// jobOfAddress reads the job of the address. Verified counts the messages that consumers are past.
func (v *visit) jobOfAddress(verified bool) (job, error) {
	answer, err := v.api.GetJob(v.Context(), v.PathValue("id"), &client.GetJobParams{Verified: &verified})
	if err != nil {
		return job{}, err
	}
	return jobOf(answer.Value)
}

func (v *visit) job() (*answer, error) {
	j, err := v.jobOfAddress(true)
	if err != nil {
		return nil, err
	}
	page := v.jobPageOf(j)
	return show("job", page.Title, page)
}

func (v *visit) jobPageOf(j job) *jobPage {
	selected, kind := filtersFrom(j.Filters), string(j.Kind)
	p := &jobPage{
		job: j, KindWord: v.kindWord(kind), Selection: v.selection(selected), List: selected.list(kind, j.Topic), Bar: v.jobBar(j),
		Headline: v.jobHeadline(j), Why: v.jobReason(j), Counts: v.jobCounts(j, selected),
		Ramp: v.rampSteps(j), RampWords: v.rampWords(j.Ramp), Every: runningRefresh,
		Audit: "/audit?" + url.Values{"target_id": {j.ID}}.Encode(),
	}
	p.Title = v.text("%s of %s", p.KindWord, j.Topic)
	if j.IsRetry() {
		p.RateText = v.rateText(j)
	}
	if j.Ended() {
		p.Outcome, p.Every = v.outcome(j, selected), endedRefresh
	} else if j.Matched > bigJob {
		p.Every = bigRefresh
	}
	p.Unknown = v.unknownReasons(j)
	return p
}

// kindWord names a kind of jobs.
func (v *visit) kindWord(kind string) string {
	switch kind {
	case "retry":
		return v.text("Retry")
	case "revive":
		return v.text("Revival")
	case "dead":
		return v.text("Marking dead")
	case "delete":
		return v.text("Deletion")
	case "restore":
		return v.text("Restoration")
	default:
		return kind
	}
}

// jobBar has the three parts of a retry: what consumers are past, what is sent without that, and what came back; then the rest.
func (v *visit) jobBar(j job) bar {
	if !j.IsRetry() {
		return v.language.barOf(j.Matched,
			barPart{Class: "c3", Name: v.text("changed"), Count: j.Changed}, barPart{Class: "c0", Name: v.text("skipped"), Count: j.Skipped})
	}
	var passed int64
	if j.Verified != nil {
		passed = j.Verified.Yes
	}
	cameBack := min(j.CameBack, j.Retried)
	return v.language.barOf(j.Matched,
		barPart{Class: "c3", Name: v.text("passed by the consumer"), Count: passed},
		barPart{Class: "c1", Name: v.text("sent"), Count: j.Retried - passed - cameBack},
		barPart{Class: "c5", Name: v.text("came back as dead letters"), Count: cameBack},
		barPart{Class: "c2", Name: v.text("not delivered"), Count: j.Failed + j.Dead},
		barPart{Class: "c0", Name: v.text("skipped"), Count: j.Skipped})
}

// jobReason says why a job waits or has ended. The manager's own reasons are translated, an operator's are not.
func (v *visit) jobReason(j job) string {
	const closed = "all that is left waits for a target that refuses everything: "
	reason := valueOf(j.Reason)
	switch target, isClosed := strings.CutPrefix(reason, closed); {
	case isClosed:
		return v.text("all that is left waits for a target that refuses everything: %s", target)
	case reason == "paused by an operator":
		return v.text("paused by an operator")
	case reason == "cancelled by an operator":
		return v.text("cancelled by an operator")
	default:
		return reason
	}
}

func (v *visit) jobHeadline(j job) string {
	switch {
	case j.Counting != nil && *j.Counting:
		return v.text("The messages are being counted. Nothing is sent yet.")
	case j.IsRetry():
		return v.text("%d of %d sent", j.Retried, j.Matched)
	default:
		return v.text("%d of %d changed", j.Changed, j.Matched)
	}
}

// rateText says how fast the job sends.
func (v *visit) rateText(j job) string {
	rate := printerOf(v.language).Sprintf("%.1f", j.PerSecond)
	limit := v.text("no limit")
	if j.RateLimit > 0 {
		limit = v.text("limit %d", j.RateLimit)
	}
	if j.Ended() {
		return v.text("%s per second on average (%s)", rate, limit)
	}
	return v.text("%s per second over the last ten seconds, %s on average (%s)", rate, printerOf(v.language).Sprintf("%.1f", j.AveragePerSecond), limit)
}

// jobCounts are the numbers of a job with their meanings. A number that is always 0 for the kind is left out.
func (v *visit) jobCounts(j job, selected filters) []jobCount {
	kind := string(j.Kind)
	if !j.IsRetry() {
		return []jobCount{
			{Name: v.text("Matched"), Count: j.Matched, Meaning: v.text("Messages in the scope when the job was created. Later arrivals are not touched.")},
			{Name: v.text("Changed by the job"), Count: j.Changed, Meaning: v.text("Exact at any time.")},
			{Name: v.text("Skipped"), Count: j.Skipped,
				Meaning: v.text("Changed by others meanwhile, locked, or not reached before a cancellation. Known at the end.")},
		}
	}
	withStatus := func(status string) string {
		return selected.with(filter{"status", status}).list(kind, j.Topic)
	}
	counts := []jobCount{
		{Name: v.text("Matched"), Count: j.Matched, Meaning: v.text("PENDING with retries left when the job was created. Later arrivals are not sent.")},
		{Name: v.text("Sent"), Count: j.Retried, Meaning: v.text("The target has acknowledged them. That does not say that a consumer could process them.")},
	}
	if verified := j.Verified; verified != nil {
		counts = append(counts,
			jobCount{Name: v.text("Passed"), Count: verified.Yes,
				Meaning: v.text("The consumer group has committed an offset beyond them, and they have not come back.")},
			jobCount{Name: v.text("Not passed"), Count: verified.No - verified.CameBack, Meaning: v.text("The consumer group has not got there yet.")},
			jobCount{Name: v.text("Nobody knows"), Count: verified.Unknown, Meaning: v.text("No commit can be compared; the reasons are below.")})
	}
	return append(counts,
		jobCount{Name: v.text("Came back"), Count: j.CameBack, IsBad: j.CameBack > 0, Path: v.cameBackPath(j, selected),
			Meaning: v.text("Sent, and in a dead-letter topic again, as new messages. It can still grow after the end.")},
		jobCount{Name: v.text("Failed"), Count: j.Failed, IsBad: j.Failed > 0, Path: withStatus("PENDING"), Meaning: v.text("Not delivered, and PENDING again.")},
		jobCount{Name: v.text("Dead"), Count: j.Dead, IsBad: j.Dead > 0, Path: withStatus("DEAD"), Meaning: v.text("Not delivered, no retries left, and now DEAD.")},
		jobCount{Name: v.text("Waiting"), Count: j.Waiting, Path: withStatus("PENDING"),
			Meaning: v.text("Not sent yet: their partition or target refuses everything, or an earlier message of their key waits.")},
		jobCount{Name: v.text("Skipped"), Count: j.Skipped,
			Meaning: v.text("Not sent: blocked by a failed message of their key, changed by others, or unsent when the job ended.")})
}

// cameBackPath shows what arrived for the same reason since the job has begun.
func (v *visit) cameBackPath(j job, selected filters) string {
	if j.CameBack == 0 {
		return ""
	}
	rest := slices.DeleteFunc(slices.Clone(selected), func(one filter) bool {
		return one.Name != "group" && one.Name != "class" && one.Name != "error" && one.Name != "consumer_group"
	})
	return rest.with(filter{"created_from", j.StartedAt.UTC().Format("2006-01-02T15:04:05Z")}).list(string(j.Kind), j.Topic)
}

// rampSteps tells which steps of a ramp are done, by what was sent.
func (v *visit) rampSteps(j job) []rampStep {
	if j.Ramp == nil {
		return nil
	}
	steps := make([]rampStep, 0, len(j.Ramp.Steps)+1)
	var until int64
	current := false
	add := func(text string, isDone bool) {
		state := "next"
		switch {
		case isDone:
			state = "done"
		case !current && !j.Ended():
			state, current = "now", true
		}
		steps = append(steps, rampStep{state, text})
	}
	for _, step := range j.Ramp.Steps {
		until += step
		add(printerOf(v.language).Sprint(step), j.Tried() >= min(until, max(j.Matched, 1)))
	}
	add(v.text("the rest"), j.State == client.JobStateCOMPLETED)
	return steps
}

// restPath is the plan of what such a job would take now.
func restPath(j job) string {
	plan := client.RetryPlan{
		Kind: client.RetryPlanKind(j.Kind), Topic: j.Topic, Filters: j.Filters, RequestReason: j.RequestReason, RateLimit: j.RateLimit, Order: j.Order,
		Ramp: j.Ramp, TargetTopic: j.TargetTopic, IncludeSuspicious: j.IncludeSuspicious,
	}
	return formOfPlan(plan).path()
}

// outcome says how a job has ended and what to do next. Completed is not repaired.
func (v *visit) outcome(j job, selected filters) []sentence {
	again := v.text("Plan the rest")
	var all []sentence
	add := func(kind, text, path, link string) { all = append(all, sentence{kind, text, path, link}) }
	switch j.State {
	case client.JobStateCANCELLED:
		add("held", v.text("The job was cancelled. What it had done stays done; the other messages stay as they were."), restPath(j), again)
	case client.JobStateFAILED:
		add("refused", v.text("The job ended by an error. What it had done stays done; the other messages stay as they were."), restPath(j), again)
	default:
		if !j.IsRetry() {
			add("done", v.text("The job is done: %d messages were changed.", j.Changed), "", "")
		}
	}
	if !j.IsRetry() {
		if j.Skipped > 0 {
			add("warning", v.text("%d messages were skipped, because others changed them meanwhile or the job ended before them.", j.Skipped), restPath(j), again)
		}
		return all
	}
	if j.CameBack > 0 {
		add("refused", v.text("%d messages came back: their cause is not repaired.", j.CameBack), v.cameBackPath(j, selected), v.text("Look at what came back"))
	}
	if j.Failed > 0 {
		add("refused", v.text("%d messages could not be delivered and are PENDING again.", j.Failed), restPath(j), again)
	}
	if j.Dead > 0 {
		add("refused", v.text("%d messages could not be delivered and have no retries left.", j.Dead),
			selected.with(filter{"status", "DEAD"}).list(string(j.Kind), j.Topic), v.text("Look at the dead ones"))
	}
	if j.Skipped > 0 && j.State == client.JobStateCOMPLETED {
		add("warning", v.text("%d messages were not sent, because an earlier message of their key failed or others changed them.", j.Skipped), restPath(j), again)
	}
	if verified := j.Verified; verified != nil {
		switch waiting := verified.No - verified.CameBack; {
		case j.Retried > 0 && verified.Yes == j.Retried && len(all) == 0:
			add("done", v.text("All %d messages were sent, and the consumers are past each of them.", j.Retried), "", "")
		case waiting > 0:
			add("waiting", v.text("%d sent messages wait for their consumer. Look again later: what comes back is counted here.", waiting), "", "")
		}
		if verified.Unknown > 0 {
			add("warning", v.text("Nobody can say whether a consumer got past %d sent messages.", verified.Unknown), "", "")
		}
	}
	if j.Matched == 0 {
		add("warning", v.text("No message matched, so nothing was sent."), "", "")
	}
	return all
}

// unknownReasons say why nobody knows whether consumers are past messages.
func (v *visit) unknownReasons(j job) []sentence {
	if j.Verified == nil {
		return nil
	}
	reasons := make([]string, 0, len(j.Verified.UnknownReasons))
	for reason := range j.Verified.UnknownReasons {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	all := make([]sentence, 0, len(reasons))
	for _, reason := range reasons {
		all = append(all, sentence{Kind: printerOf(v.language).Sprint(j.Verified.UnknownReasons[reason]), Text: v.unknownReason(reason)})
	}
	return all
}

func (v *visit) unknownReason(reason string) string {
	switch reason {
	case "no_target":
		return v.text("they were delivered without Kafka")
	case "no_offset":
		return v.text("Kafka named no offset for them")
	case "http_target":
		return v.text("the target is an HTTP endpoint, which has no consumer group")
	case "topic_changed":
		return v.text("the target topic was deleted or made anew")
	case "share_group":
		return v.text("the consumers are a share group, which commits no offsets")
	case "retry_topics":
		return v.text("the consumer may have passed them to a retry topic")
	case "no_group":
		return v.text("the headers name no consumer group, and none is configured")
	case "not_read":
		return v.text("the offsets of the group have not been read yet")
	case "refused":
		return v.text("Kafka does not show the offsets of the group")
	case "group_gone":
		return v.text("the consumer group is gone, or does not read the topic")
	case "outdated":
		return v.text("the offsets of the group are too old")
	default:
		return strings.ReplaceAll(reason, "_", " ")
	}
}
