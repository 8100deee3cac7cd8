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
	// Value and Key are paths in JSON; see masking.Path. The path * stands for the whole value or key, also of other formats.
	Value, Key []string
	// Headers are names of headers, or globs. Their case is ignored.
	Headers []string
	// Tags are the tags, such as PII, with which the schemas of a Schema Registry mark fields of values and keys.
	Tags []string
	// As is how hidden parts look.
	As string
}

// MaskProblem is a mistake in a rule. Field and Index name the entry; Index is negative for the whole field.
type MaskProblem struct {
	Field   string
	Index   int
	Message string
}

// Problems are the mistakes in the rule.
func (r *MaskRule) Problems() (problems []MaskProblem) {
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
		if _, err := compileGlob(glob); err != nil {
			add("topics", i, "%s", err)
		}
	}
	for field, paths := range map[string][]string{"value": r.Value, "key": r.Key} {
		for i, path := range paths {
			if _, err := masking.ParsePath(path); err != nil {
				add(field, i, "%s", err)
			}
		}
	}
	for field, names := range map[string][]string{"headers": r.Headers, "tags": r.Tags} {
		for i, name := range names {
			if name == "" {
				add(field, i, "is empty")
			}
		}
	}
	if !slices.Contains(masking.Forms, masking.Form(r.As)) {
		add("as", -1, "must be remove, mask, hash or last4, not %q", r.As)
	}
	return problems
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
		r := &rules[i]
		if problems := r.Problems(); len(problems) > 0 {
			return nil, fmt.Errorf("masking rule %d: %s %s", i+1, problems[0].Field, problems[0].Message)
		}
		as := masking.Form(r.As)
		if as == masking.Hash && len(secret) == 0 {
			return nil, fmt.Errorf("masking rule %d: hash needs a secret", i+1)
		}
		var rule maskRule
		for _, glob := range r.Topics {
			matches, _ := compileGlob(glob) // Problems has checked it
			rule.topics = append(rule.topics, matches)
		}
		rule.mask.value, rule.mask.key = maskTargets(r.Value, as), maskTargets(r.Key, as)
		for _, glob := range r.Headers {
			expression := anyRun.Replace(regexp.QuoteMeta(glob))
			rule.mask.headers = append(rule.mask.headers, maskHeader{glob, regexp.MustCompile("(?is)^" + expression + "$"), as})
		}
		if len(r.Tags) > 0 {
			rule.mask.tags = []maskTags{{r.Tags, as}}
		}
		m.rules = append(m.rules, rule)
		m.all.add(&rule.mask)
	}
	return m, nil
}

func maskTargets(paths []string, as masking.Form) []masking.Target {
	targets := make([]masking.Target, len(paths))
	for i, text := range paths {
		path, _ := masking.ParsePath(text) // Problems has checked it
		targets[i] = masking.Target{Path: path, As: as}
	}
	return targets
}

// Mask is what rules hide of a message: the rules whose topics match.
type Mask struct {
	value, key []masking.Target
	headers    []maskHeader
	tags       []maskTags
	secret     []byte
	// The tags hide parts of the value or the key, whose texts are known only after it is decoded.
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

// For is what is hidden of the messages with one of these dead-letter topics or original topics; nil for nothing.
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

// All has every rule; nil for none.
func (m *Masking) All() *Mask {
	if m == nil {
		return nil
	}
	return m.all
}

// errorNames are in the names of headers whose values quote errors.
var errorNames = []string{"error", "exception", "stack", "reason"}

// correlations are headers, and the names of members, with the ids of related messages.
var (
	correlationHeaders = []string{"correlation-id", "correlation_id", "x-correlation-id", "kafka_correlationId"}
	correlationMembers = []string{"correlation_id", "correlationId"}
	traceMembers       = []string{"trace_id", "traceId"}
)

// Filters are the fields of a filter that compare what is hidden. Who may not see that could find it out by guesses.
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

// WithoutHidden is a filter as people see it who may not see what is hidden: its values that compare that are empty.
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
