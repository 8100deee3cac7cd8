package console

import (
	"strconv"
	"strings"
	"time"

	"dlqmanager/client"
)

// planButton is the text of the button: the number of messages, and their target or topic.
func (v *visit) planButton(plan client.RetryPlan) string {
	switch n, topics := plan.Matched, plan.ByTargetTopic; {
	case plan.Kind != "retry" || len(topics) == 0:
		return v.word("button", plan.Kind, n, plan.Topic)
	case len(topics) == 1:
		return v.text("Send %d messages to %s", n, topics[0].Name)
	default:
		return v.text("Send %d messages to %d topics", n, len(topics))
	}
}

func (v *visit) wouldGo(kind string) string {
	if kind == "retry" {
		return v.text("would be sent")
	}
	return v.text("would be changed")
}

// rampWords says a ramp in sentences; nil without a ramp.
func (v *visit) rampWords(ramp *client.Ramp) []string {
	if ramp == nil {
		return nil
	}
	steps := make([]string, 0, len(ramp.Steps))
	for _, step := range ramp.Steps {
		steps = append(steps, v.language.number(step))
	}
	words := []string{v.text("First %s messages, then the rest.", strings.Join(steps, ", "))}
	if ramp.Wait != nil {
		words = append(words, v.text("After each step it waits %s.", *ramp.Wait))
	}
	if ramp.MaxCameBack != nil {
		words = append(words, v.text("It pauses itself if more than %s%% of the messages come back.", strconv.FormatFloat(*ramp.MaxCameBack*100, 'g', 6, 64)))
	}
	if ramp.Confirm != nil {
		words = append(words, v.text("Each step also waits until the consumers are past its messages."))
	}
	return words
}

// takes says how long a job would take at its rate limit, with the waits of its ramp. Without a limit, the targets decide.
func (v *visit) takes(plan client.RetryPlan) string {
	if plan.Kind != "retry" || plan.Matched == 0 {
		return ""
	}
	var waits time.Duration
	if plan.Ramp != nil && plan.Ramp.Wait != nil {
		wait, _ := time.ParseDuration(*plan.Ramp.Wait)
		var sent int64
		for _, step := range plan.Ramp.Steps {
			if sent += step; sent < plan.Matched {
				waits += wait
			}
		}
	}
	if plan.RateLimit == 0 {
		if waits == 0 {
			return v.text("as fast as the targets take them")
		}
		return v.text("%s of waiting, and the time that the targets take", v.language.duration(waits))
	}
	return v.text("about %s", v.language.duration(waits+time.Duration(float64(plan.Matched)/float64(plan.RateLimit)*float64(time.Second))))
}

// duration writes a time for people.
func (l locale) duration(d time.Duration) string {
	switch s := int64(d.Round(time.Second).Seconds()); {
	case s < 60:
		return l.text("%d s", max(s, 1))
	case s < 3600:
		return l.text("%d min", (s+30)/60)
	case s < 48*3600 && s%3600 < 60:
		return l.text("%d h", s/3600)
	case s < 48*3600:
		return l.text("%d h %d min", s/3600, s%3600/60)
	default:
		return l.text("%d d", s/86400)
	}
}
