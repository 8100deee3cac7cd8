package config

import (
	"fmt"
	"strings"

	"dlqmanager/dlq"
)

// RoleGrants maps values of a claim to grants. The environment writes it as
// dlq-admins=admin,payments=operator:payments.*|refunds.*.
type RoleGrants map[string]RoleGrant

// RoleGrant is a role on some topics.
type RoleGrant struct {
	Role string `yaml:"role"`
	// Topics are globs. nil stands for all topics. An empty list is refused, since it could be taken for all topics.
	Topics []string `yaml:"topics" empty:"remove it, or write [\"*\"], for all topics"`
}

// Grants returns the grants. If the configuration is valid, there is no error.
func (g RoleGrants) Grants() (map[string]dlq.Grant, error) {
	grants := map[string]dlq.Grant{}
	for name, given := range g {
		grant, err := dlq.NewGrant(dlq.Role(given.Role), given.Topics)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		grants[name] = grant
	}
	return grants, nil
}

func (g *RoleGrant) validate(s section) {
	_, err := dlq.NewGrant(dlq.Role(g.Role), g.Topics)
	s.refuseError("", err)
}

// setText reads a grant from the environment.
func (g *RoleGrant) setText(text string) {
	role, topics, isLimited := strings.Cut(text, ":")
	g.Role = role
	if isLimited { // without a topic after the colon, the list has the topic "", which is refused
		g.Topics = strings.Split(topics, "|")
	}
}
