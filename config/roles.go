package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"dlqmanager/dlq"
)

// RoleGrants maps values of a claim to what they grant. In the environment it is written
// dlq-admins=admin,payments=operator:payments.*|refunds.*.
type RoleGrants map[string]RoleGrant

// RoleGrant gives a role on some topics.
type RoleGrant struct {
	Role string `yaml:"role"`
	// Topics are globs; nil for all.
	Topics []string `yaml:"topics"`
}

// Grants are the grants of a valid configuration.
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

// String is the form of the environment.
func (g RoleGrants) String() string {
	pairs := make([]string, 0, len(g))
	for _, name := range slices.Sorted(maps.Keys(g)) {
		pair := name + "=" + g[name].Role
		if len(g[name].Topics) > 0 {
			pair += ":" + strings.Join(g[name].Topics, "|")
		}
		pairs = append(pairs, pair)
	}
	return strings.Join(pairs, ",")
}

func (g RoleGrants) validate(r *report, path string) {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if _, err := dlq.NewGrant(dlq.Role(g[name].Role), g[name].Topics); err != nil {
			r.add(path+"."+name, "%s", err)
		}
	}
}

// UnmarshalText reads the form of the environment.
func (g *RoleGrants) UnmarshalText(text []byte) error {
	var pairs map[string]string
	if err := setText(reflect.ValueOf(&pairs).Elem(), string(text)); err != nil {
		return err
	}
	*g = RoleGrants{}
	for name, grant := range pairs {
		role, topics, limited := strings.Cut(grant, ":")
		granted := RoleGrant{Role: role}
		if limited { // an empty list of topics gives the topic "", which is refused
			granted.Topics = strings.Split(topics, "|")
		}
		(*g)[name] = granted
	}
	return nil
}

// roles reads a mapping of claim values to grants.
func (d *decoder) roles(path string, node *yaml.Node, target *RoleGrants) {
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, path, "must be a mapping of claim values to roles, not %s", describe(node))
		return
	}
	grants := RoleGrants{}
	d.pairs(path, node, func(key, value *yaml.Node, keyPath string) {
		d.sources[keyPath] = source{file: d.file, line: key.Line}
		value = resolveAlias(value)
		var grant RoleGrant
		d.section(keyPath, value, reflect.ValueOf(&grant).Elem())
		for i := 0; i+1 < len(value.Content); i += 2 {
			// Missing topics mean all topics, so an empty list must not be taken for that.
			if topics := resolveAlias(value.Content[i+1]); value.Content[i].Value == "topics" &&
				(isNull(topics) || topics.Kind == yaml.SequenceNode && len(topics.Content) == 0) {
				d.add(topics.Line, keyPath+".topics", `is empty; remove it, or write ["*"], for all topics`)
			}
		}
		grants[key.Value] = grant
	})
	*target = grants
}
