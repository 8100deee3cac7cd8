package console

import (
	"strconv"
	"strings"
	"time"

	"dlqmanager/client"
)

// planButton names the number of messages and where they go.
func (v *visit) planButton(plan client.RetryPlan) string {
	n := plan.Matched
	switch string(plan.Kind) {
	case "revive":
		return v.text("Revive %d messages of %s", n, plan.Topic)
	case "dead":
		return v.text("Mark %d messages of %s dead", n, plan.Topic)
	case "delete":
		return v.text("Delete %d messages of %s", n, plan.Topic)
	case "restore":
		return v.text("Restore %d messages of %s", n, plan.Topic)
	}
	switch len(plan.ByTargetTopic) {
	case 0:
		return v.text("Send %d messages of %s", n, plan.Topic)
	case 1:
		return v.text("Send %d messages to %s", n, plan.ByTargetTopic[0].Name)
	default:
		return v.text("Send %d messages to %d topics", n, len(plan.ByTargetTopic))
	}
}

func (v *visit) wouldGo(kind string) string {
	if kind == "retry" {
		return v.text("would be sent")
	}
	return v.text("would be changed")
}

// planQuestion says what cannot be taken back.
func (v *visit) planQuestion(kind string) string {
	switch kind {
	case "revive":
		return v.text("The messages become PENDING, with no retry counted. Nothing is sent.")
	case "dead":
		return v.text("The messages become DEAD. Nothing is sent; a revival makes them PENDING again.")
	case "delete":
		return v.text("The messages are deleted with their bytes and their history. This cannot be undone.")
	case "restore":
		return v.text("The messages leave the archive and become PENDING. Nothing is sent.")
	default:
		return v.text("Whatever is sent cannot be taken back. The job can be paused and cancelled at any time.")
	}
}

// rampWords says a ramp in sentences, none if there is none.
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

// takes says how long a plan would take: at its rate, with the waits of its ramp. Without a rate only the targets know.
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

// skipReason says in the language of the page why a message is left out. The API says it in English.
func (l locale) skipReason(reason string) string {
	switch reason {
	case "already resolved":
		return l.text("already resolved")
	case "dead":
		return l.text("dead: revive them first")
	case "being retried by another workflow":
		return l.text("being retried already")
	case "no retries left":
		return l.text("no retries left: a revival gives them new ones")
	case "its original topic is a dead-letter topic or an internal one":
		return l.text("its original topic is a dead-letter topic or an internal one")
	case "its original topic does not follow from the name of its dead-letter topic, and your grants do not cover it":
		return l.text("its original topic does not follow from its dead-letter topic, and your rights do not cover it")
	case "its headers are suspicious; include_suspicious sends it":
		return l.text("its headers are suspicious: the form has a field to send them too")
	default:
		return reason
	}
}
