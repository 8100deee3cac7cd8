package config

import "dlqmanager/dlq"

// Verify configures how the manager finds out whether consumers have processed delivered messages.
type Verify struct {
	// ConsumerGroups maps globs of original topics to the consumer groups that read them. It overrides the groups that headers
	// name.
	ConsumerGroups map[string]string `yaml:"consumer_groups"`
	// Interval is the time between two fetches of the committed offsets.
	Interval Duration `yaml:"interval" default:"10s" check:"at least 1s; at most 1m"`
}

// Groups returns the consumer groups for the store. The configuration is valid, so there is no error.
func (v Verify) Groups() *dlq.VerifyGroups {
	groups, _ := dlq.NewVerifyGroups(v.ConsumerGroups)
	return groups
}

func (v Verify) validate(s section) {
	_, err := dlq.NewVerifyGroups(v.ConsumerGroups)
	s.refuseError("consumer_groups", err)
}
