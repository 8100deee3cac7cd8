package console

import (
	"net/url"

	"dlqmanager/client"
)

// restPath is the path of the form for a plan with the same filters and settings as the job. The plan takes
// the messages that match now.
func restPath(j job) string {
	plan := client.RetryPlan{
		Kind: client.RetryPlanKind(j.Kind), Topic: j.Topic, Filters: j.Filters, RequestReason: j.RequestReason, RateLimit: j.RateLimit, Order: j.Order,
		Ramp: j.Ramp, TargetTopic: j.TargetTopic, IncludeSuspicious: j.IncludeSuspicious,
	}
	return formOfPlan(plan).path()
}

// outcome says how a job has ended and what to do next. A completed job does not mean that the cause is repaired.
func (v *visit) outcome(j job, selected url.Values) []sentence {
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
			add("warning", v.text("%d messages were skipped, because others changed them meanwhile or the job ended before them.", j.Skipped),
				restPath(j), again)
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
			listOf(with(selected, "status", "DEAD"), string(j.Kind), j.Topic), v.text("Look at the dead ones"))
	}
	if j.Skipped > 0 && j.State == client.JobStateCOMPLETED {
		add("warning", v.text("%d messages were not sent, because an earlier message of their key failed or others changed them.", j.Skipped),
			restPath(j), again)
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
