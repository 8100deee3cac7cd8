package config

import "dlqmanager/dlq"

// Groups configures which failures have the same cause.
type Groups struct {
	// Header is the header in which a consumer can name the group of a dead letter. "off" stands for no header.
	Header string `yaml:"header"`
	// Rules maps globs of "class: message" to the names of groups; see dlq.NewGrouping.
	Rules map[string]string `yaml:"rules"`
	// MaxPerTopic limits the groups of each dead-letter topic.
	MaxPerTopic int `yaml:"max_per_topic" check:"1 to 100000"`
}

// Grouping returns the rules for the ingest. The configuration is valid, so there is no error.
func (g Groups) Grouping() *dlq.Grouping {
	grouping, _ := g.grouping()
	return grouping
}

func (g Groups) grouping() (*dlq.Grouping, error) {
	if g.Header == "off" {
		g.Header = ""
	}
	return dlq.NewGrouping(g.Header, g.Rules)
}

func (g Groups) validate(s section) {
	_, err := g.grouping()
	s.refuseError("rules", err)
}
