package console

import (
	"net/url"
	"strings"

	"dlqmanager/client"
)

// jobBar divides a retry into messages that consumers are past, other sent messages, messages that came back, and the rest.
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

// jobReason says why a job waits or has ended. It translates the manager's own reasons, but not the reasons of operators.
func (v *visit) jobReason(j job) string {
	const closed = "all that is left waits for a target that refuses everything: "
	reason := valueOf(j.Reason)
	if target, isClosed := strings.CutPrefix(reason, closed); isClosed {
		return v.text("all that is left waits for a target that refuses everything: %s", target)
	}
	return v.word("ended", reason)
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

// rateText says how fast the job sends or changes messages.
func (v *visit) rateText(j job) string {
	rate := v.rate(j.PerSecond)
	switch {
	case j.IsRetry():
	case j.Ended():
		return v.text("%s per second on average", rate)
	default:
		return v.text("%s per second over the last ten seconds", rate)
	}
	limit := v.text("no limit")
	if j.RateLimit > 0 {
		limit = v.text("limit %d", j.RateLimit)
	}
	if j.Ended() {
		return v.text("%s per second on average (%s)", rate, limit)
	}
	return v.text("%s per second over the last ten seconds, %s on average (%s)", rate, v.rate(j.AveragePerSecond), limit)
}

// jobCounts are the numbers of a job with their meanings. A number that is always 0 for the kind is left out.
func (v *visit) jobCounts(j job, selected url.Values) []jobCount {
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
		return listOf(with(selected, "status", status), kind, j.Topic)
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
		jobCount{Name: v.text("Failed"), Count: j.Failed, IsBad: j.Failed > 0, Path: withStatus("PENDING"),
			Meaning: v.text("Not delivered, and PENDING again.")},
		jobCount{Name: v.text("Dead"), Count: j.Dead, IsBad: j.Dead > 0, Path: withStatus("DEAD"),
			Meaning: v.text("Not delivered, no retries left, and now DEAD.")},
		jobCount{Name: v.text("Waiting"), Count: j.Waiting, Path: withStatus("PENDING"),
			Meaning: v.text("Not sent yet: their partition or target refuses everything, or an earlier message of their key waits.")},
		jobCount{Name: v.text("Skipped"), Count: j.Skipped,
			Meaning: v.text("Not sent: blocked by a failed message of their key, changed by others, or unsent when the job ended.")})
}

// cameBackPath is the page with the list of the messages that have arrived since the job began, with the same group, class,
// error and consumer group.
func (v *visit) cameBackPath(j job, selected url.Values) string {
	if j.CameBack == 0 {
		return ""
	}
	same := url.Values{"created_from": {j.StartedAt.UTC().Format("2006-01-02T15:04:05Z")}}
	for _, name := range []string{"group", "class", "error", "consumer_group"} {
		if selected.Has(name) {
			same[name] = selected[name]
		}
	}
	return listOf(same, string(j.Kind), j.Topic)
}

// rampSteps tells which steps of a ramp are done, from the number of messages that the job has tried to send.
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
		add(v.language.number(step), j.Tried() >= min(until, max(j.Matched, 1)))
	}
	add(v.text("the rest"), j.State == client.JobStateCOMPLETED)
	return steps
}
