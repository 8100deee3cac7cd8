package console

import (
	"slices"
	"strings"

	"dlqmanager/client"
)

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
			selected.with(filter{"status", "DEAD"}).list(string(j.Kind), j.Topic), v.text("Look at the dead ones"))
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
		all = append(all, sentence{Kind: v.language.number(j.Verified.UnknownReasons[reason]), Text: v.unknownReason(reason)})
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
