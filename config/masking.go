package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dlqmanager/dlq"
)

// Masking configures which personal data the API hides.
type Masking struct {
	// Secret is the key of the hashes. SecretFile has the key instead. It is read only when the program starts, because another
	// key would change all hashes.
	Secret     Secret `yaml:"secret"`
	SecretFile string `yaml:"secret_file" file:"secret"`
	// Rules are the masking rules, by name. A message may match the topics of several rules: then all of them apply. The
	// environment cannot name paths: customers=orders.*|refunds.* hides the keys, the values and all headers of messages of
	// these topics.
	Rules map[string]MaskingRule `yaml:"rules"`
}

// MaskingRule says which parts of the messages of some topics are hidden.
type MaskingRule struct {
	// Topics are globs of dead-letter topics and of original topics.
	Topics []string `yaml:"topics"`
	// Value and Key are paths in JSON, such as customer.email, items.*.card and **.iban. The path * is the whole value or the
	// whole key.
	Value []string `yaml:"value"`
	Key   []string `yaml:"key"`
	// Headers are names of headers, or globs.
	Headers []string `yaml:"headers"`
	// Tags are tags that fields have in the schemas of schema_registry, such as PII.
	Tags []string `yaml:"tags"`
	// As is how a part is hidden: remove, mask, hash or last4.
	As string `yaml:"as" default:"mask"`
}

// setText reads a rule from the environment.
func (r *MaskingRule) setText(text string) {
	r.Topics, r.Value, r.Key, r.Headers = strings.Split(text, "|"), []string{"*"}, []string{"*"}, []string{"*"}
}

func (r *MaskingRule) validate(s section) {
	rule := dlq.MaskRule(*r)
	for _, p := range rule.Problems() {
		key := p.Field
		if p.Index >= 0 {
			key = fmt.Sprintf("%s[%d]", p.Field, p.Index)
		}
		s.add(key, "%s", p.Message)
	}
}

// minMaskingSecret is the length of the shortest secret, in bytes. Nobody can guess a secret of this length.
const minMaskingSecret = 16

func (m *Masking) validate(s section) {
	needsSecret := false
	for _, rule := range m.Rules {
		needsSecret = needsSecret || rule.As == "hash"
	}
	switch {
	case !m.Secret.IsZero() && len(m.Secret.Reveal()) < minMaskingSecret:
		s.add("secret", "must have at least %d bytes: who can guess it can look hashed values up", minMaskingSecret)
	case needsSecret && m.Secret.IsZero() && m.SecretFile == "":
		s.add("secret_file", "is required for the form hash, or secret: otherwise hashed values could be looked up")
	}
}

// validateTags refuses tags without a Schema Registry: all values with a schema would be hidden as a whole.
func (c *Config) validateTags(s section) {
	for name, rule := range c.Masking.Rules {
		s.refuse(len(rule.Tags) > 0 && !c.SchemaRegistry.Configured(), "masking.rules."+name+".tags",
			"needs schema_registry.url: tags are in the schemas of a Schema Registry")
	}
}

// WithoutSecret returns the rules for a program that only needs to know which topics have rules. It returns nil without rules.
func (m *Masking) WithoutSecret() (*dlq.Masking, error) {
	rules := m.rules()
	for i := range rules {
		rules[i].As = "mask"
	}
	return dlq.NewMasking(rules, nil)
}

// Compiled returns the rules with the secret. It returns nil without rules.
func (m *Masking) Compiled() (*dlq.Masking, error) {
	secret, err := secretFrom(m.Secret, "masking.secret_file", m.SecretFile)
	if err != nil {
		return nil, err
	}
	if m.SecretFile != "" && len(secret) < minMaskingSecret {
		return nil, fmt.Errorf("masking.secret_file: must have at least %d bytes", minMaskingSecret)
	}
	return dlq.NewMasking(m.rules(), []byte(secret))
}

// rules returns the rules in the order of their names.
func (m *Masking) rules() (rules []dlq.MaskRule) {
	for _, name := range slices.Sorted(maps.Keys(m.Rules)) {
		rules = append(rules, dlq.MaskRule(m.Rules[name]))
	}
	return rules
}
