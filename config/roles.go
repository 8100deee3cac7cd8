package config

import (
	"fmt"
	"strings"

	"dlqmanager/dlq"
)

// RoleGrants maps values of a claim to grants, in the environment written
// dlq-admins=admin,payments=operator:payments.*|refunds.*.
type RoleGrants map[string]RoleGrant

// RoleGrant gives a role on some topics.
type RoleGrant struct {
	Role string `yaml:"role"`
	// Topics are globs; nil stands for all topics. So an empty list is refused: it must not mean all topics.
	Topics []string `yaml:"topics" empty:"remove it, or write [\"*\"], for all topics"`
}

// Grants returns the grants. A valid configuration has no error.
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

// setText reads the form of the environment.
func (g *RoleGrant) setText(text string) {
	role, topics, isLimited := strings.Cut(text, ":")
	g.Role = role
	if isLimited { // an empty list of topics gives the topic "", which is refused
		g.Topics = strings.Split(topics, "|")
	}
}
