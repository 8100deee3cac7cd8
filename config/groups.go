package config

import "dlqmanager/dlq"

// Groups configures which failures count as one cause.
type Groups struct {
	// Header is a header in which a consumer names the group of a dead letter. "off" stands
	// for none.
	Header string `yaml:"header"`
	// Rules maps globs of "class: message" to names of groups; see dlq.NewGrouping.
	Rules map[string]string `yaml:"rules"`
	// MaxPerTopic limits the groups of each dead-letter topic.
	MaxPerTopic int `yaml:"max_per_topic"`
}

func defaultGroups() Groups {
	return Groups{Header: dlq.DefaultGroupHeader, MaxPerTopic: dlq.MaxGroups}
}

// Grouping is what the ingest needs. The configuration is valid, so it has no error.
func (g Groups) Grouping() *dlq.Grouping {
	grouping, _ := dlq.NewGrouping(g.header(), g.Rules)
	return grouping
}

func (g Groups) header() string {
	if g.Header == "off" {
		return ""
	}
	return g.Header
}

func (g Groups) validate(r *report) {
	r.between("groups.max_per_topic", g.MaxPerTopic, 1, 100_000)
	if _, err := dlq.NewGrouping(g.header(), g.Rules); err != nil {
		r.add("groups.rules", "%s", err)
	}
}
