package dlq

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"dlqmanager/dlq/masking"
)

// MaskRule says which parts of the messages of some topics hold personal data.
type MaskRule struct {
	// Topics are globs of dead-letter topics and of original topics.
	Topics []string
	// Value and Key are paths in JSON; see masking.Path. The path * stands for the whole value or key, even if it is not JSON.
	Value, Key []string
	// Headers are names of headers, or globs. Their case is ignored.
	Headers []string
	// Tags are the tags, such as PII, with which the schemas of a Schema Registry mark fields of values and keys.
	Tags []string
	// As is the form of the hidden parts; see masking.Form.
	As string
}

// MaskProblem is a mistake in a rule. Field and Index name the entry; Index is negative for the whole field.
type MaskProblem struct {
	Field   string
	Index   int
	Message string
}

// Problems are the mistakes in the rule.
func (r *MaskRule) Problems() []MaskProblem {
	_, problems := r.compile()
	return problems
}

func (r *MaskRule) compile() (rule maskRule, problems []MaskProblem) {
	add := func(field string, index int, format string, args ...any) {
		problems = append(problems, MaskProblem{field, index, fmt.Sprintf(format, args...)})
	}
	if len(r.Topics) == 0 {
		add("topics", -1, `is required; write "*" for all topics`)
	}
	if len(r.Value)+len(r.Key)+len(r.Headers)+len(r.Tags) == 0 {
		add("", -1, "hides nothing: it needs value, key, headers or tags")
	}
	for i, glob := range r.Topics {
		matches, err := compileGlob(glob)
		if err != nil {
			add("topics", i, "%s", err)
		}
		rule.topics = append(rule.topics, matches)
	}
	as := masking.Form(r.As)
	targets := func(field string, paths []string) (all []masking.Target) {
		for i, text := range paths {
			path, err := masking.ParsePath(text)
			if err != nil {
				add(field, i, "%s", err)
			}
			all = append(all, masking.Target{Path: path, As: as})
		}
		return all
	}
	rule.mask.value, rule.mask.key = targets("value", r.Value), targets("key", r.Key)
	for i, glob := range r.Headers {
		if glob == "" {
			add("headers", i, "is empty")
		}
		expression := anyRun.Replace(regexp.QuoteMeta(glob))
		rule.mask.headers = append(rule.mask.headers, maskHeader{glob, regexp.MustCompile("(?is)^" + expression + "$"), as})
	}
	for i, tag := range r.Tags {
		if tag == "" {
			add("tags", i, "is empty")
		}
	}
	if len(r.Tags) > 0 {
		rule.mask.tags = []maskTags{{r.Tags, as}}
	}
	if !slices.Contains(masking.Forms, as) {
		add("as", -1, "must be remove, mask, hash or last4, not %q", r.As)
	}
	return rule, problems
}

// Masking has the rules about which parts of messages are hidden. Nil hides nothing.
type Masking struct {
	rules []maskRule
	all   *Mask
}

type maskRule struct {
	topics []*regexp.Regexp
	mask   Mask
}

// NewMasking compiles the rules. The secret is the key of the hashes; only the form hash needs it.
func NewMasking(rules []MaskRule, secret []byte) (*Masking, error) {
	if len(rules) == 0 {
		return nil, nil //nolint:nilnil // nil hides nothing
	}
	m := &Masking{all: &Mask{secret: secret}}
	for i := range rules {
		rule, problems := rules[i].compile()
		if len(problems) > 0 {
			return nil, fmt.Errorf("masking rule %d: %s %s", i+1, problems[0].Field, problems[0].Message)
		}
		if masking.Form(rules[i].As) == masking.Hash && len(secret) == 0 {
			return nil, fmt.Errorf("masking rule %d: hash needs a secret", i+1)
		}
		m.rules = append(m.rules, rule)
		m.all.add(&rule.mask)
	}
	return m, nil
}

// Mask has the parts of a message that rules hide: the rules whose topics match the message.
type Mask struct {
	value, key []masking.Target
	headers    []maskHeader
	tags       []maskTags
	secret     []byte
	// Set if tags hide parts of the value or the key whose texts are known only after the value or the key is decoded.
	isValueEncoded, isKeyEncoded bool
}

type maskHeader struct {
	glob    string
	matches *regexp.Regexp
	as      masking.Form
}

func (k *Mask) add(other *Mask) {
	k.value = append(k.value, other.value...)
	k.key = append(k.key, other.key...)
	k.headers = append(k.headers, other.headers...)
	k.tags = append(k.tags, other.tags...)
}

// For is the mask of messages that have one of these topics as dead-letter topic or original topic; nil if it hides
// nothing.
func (m *Masking) For(topics ...string) *Mask {
	if m == nil {
		return nil
	}
	var mask *Mask
	for i := range m.rules {
		if !slices.ContainsFunc(topics, m.rules[i].has) {
			continue
		}
		if mask == nil {
			mask = &Mask{secret: m.all.secret}
		}
		mask.add(&m.rules[i].mask)
	}
	return mask
}

func (r *maskRule) has(topic string) bool {
	return slices.ContainsFunc(r.topics, func(glob *regexp.Regexp) bool { return glob.MatchString(topic) })
}

// All is the mask of all rules; nil if there are no rules.
func (m *Masking) All() *Mask {
	if m == nil {
		return nil
	}
	return m.all
}

// errorNames are parts of the names of headers whose values quote errors.
var errorNames = []string{"error", "exception", "stack", "reason"}

// The names of headers with correlation ids, and the names of JSON members with correlation ids and trace ids.
var (
	correlationHeaders = []string{"correlation-id", "correlation_id", "x-correlation-id", "kafka_correlationId"}
	correlationMembers = []string{"correlation_id", "correlationId"}
	traceMembers       = []string{"trace_id", "traceId"}
)

// Filters are the fields of a filter that compare hidden parts. Whoever may not see these parts could guess them by such filters.
func (k *Mask) Filters(f *Filter) (fields []string) {
	if k == nil {
		return nil
	}
	for _, field := range f.Given() {
		isHidden := false
		switch field.Name {
		case "error":
			isHidden = true
		case "key":
			isHidden = len(k.key)+len(k.tags) > 0
		case "correlation_id":
			isHidden = k.hidesID(correlationHeaders, correlationMembers)
		case "trace_id":
			isHidden = k.hidesID([]string{"traceparent"}, traceMembers)
		case "headers":
			for name := range f.Headers {
				isError := slices.ContainsFunc(errorNames, func(part string) bool { return strings.Contains(strings.ToLower(name), part) })
				if _, _, hidden := k.header(name); hidden || isError {
					fields = append(fields, "header."+name)
				}
			}
		case "payload":
			for path := range f.Payload {
				place := strings.Split(path, ".")
				if len(k.tags) > 0 || slices.ContainsFunc(k.value, func(t masking.Target) bool { return t.Covers(place) }) {
					fields = append(fields, "payload."+path)
				}
			}
		}
		if isHidden {
			fields = append(fields, field.Name)
		}
	}
	for i := range f.Not {
		fields = append(fields, k.Filters(&f.Not[i])...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

func (k *Mask) hidesID(headers, members []string) bool {
	return len(k.tags) > 0 || slices.ContainsFunc(headers, func(name string) bool { _, _, hidden := k.header(name); return hidden }) ||
		slices.ContainsFunc(k.value, func(t masking.Target) bool { return t.IsWhole() || t.EndsIn(members...) })
}

// header is the form of a header that is hidden, and the glob that hides it.
func (k *Mask) header(name string) (glob string, as masking.Form, hidden bool) {
	for _, h := range k.headers {
		if !h.matches.MatchString(name) {
			continue
		}
		if hidden {
			as = masking.Stronger(as, h.as)
			continue
		}
		glob, as, hidden = h.glob, h.as, true
	}
	return glob, as, hidden
}

// WithoutHidden is a filter as shown to readers who may not see hidden parts: masking.Hidden replaces the values that compare such parts.
func (k *Mask) WithoutHidden(f *Filter) Filter {
	shown := f.Storable()
	hidden := k.Filters(f)
	if len(hidden) == 0 {
		return shown
	}
	shown.hide(hidden)
	for i := range shown.Not {
		shown.Not[i].hide(hidden)
	}
	return shown
}

func (f *Filter) hide(fields []string) {
	for _, field := range f.Given() {
		isHidden := slices.Contains(fields, field.Name)
		switch value := field.At(f).(type) {
		case *string:
			if isHidden {
				*value = masking.Hidden
			}
		case *[]byte:
			if isHidden {
				*value = []byte(masking.Hidden)
			}
		case *map[string]string:
			part, _, _ := strings.Cut(field.Part, ".")
			for name := range *value {
				if slices.Contains(fields, part+"."+name) {
					(*value)[name] = masking.Hidden
				}
			}
		}
	}
}
