package config

import (
	"time"

	"dlqmanager/dlq"
)

// Verify configures how the manager finds out whether consumers got past delivered messages.
type Verify struct {
	// ConsumerGroups maps globs of original topics to the consumer groups that read them. They
	// win over the groups that headers name.
	ConsumerGroups map[string]string `yaml:"consumer_groups"`
	// Interval is how often the committed offsets are fetched.
	Interval Duration `yaml:"interval"`
}

func defaultVerify() Verify { return Verify{Interval: Duration(10 * time.Second)} }

// Groups is what the store needs. The configuration is valid, so it has no error.
func (v Verify) Groups() *dlq.VerifyGroups {
	groups, _ := dlq.NewVerifyGroups(v.ConsumerGroups)
	return groups
}

func (v Verify) validate(r *report) {
	r.atLeast("verify.interval", v.Interval, time.Second)
	r.atMost("verify.interval", v.Interval, time.Minute)
	if _, err := dlq.NewVerifyGroups(v.ConsumerGroups); err != nil {
		r.add("verify.consumer_groups", "%s", err)
	}
}
