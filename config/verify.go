package config

import "dlqmanager/dlq"

// Verify configures how the manager finds out whether consumers got past delivered messages.
type Verify struct {
	// ConsumerGroups maps globs of original topics to the consumer groups that read them. They
	// win over the groups that headers name.
	ConsumerGroups map[string]string `yaml:"consumer_groups"`
	// Interval is how often the committed offsets are fetched.
	Interval Duration `yaml:"interval" default:"10s" check:"at least 1s; at most 1m"`
}

// Groups returns the groups for the store. The configuration is valid, so there is no error.
func (v Verify) Groups() *dlq.VerifyGroups {
	groups, _ := dlq.NewVerifyGroups(v.ConsumerGroups)
	return groups
}

func (v Verify) validate(s section) {
	_, err := dlq.NewVerifyGroups(v.ConsumerGroups)
	s.refuseError("consumer_groups", err)
}
