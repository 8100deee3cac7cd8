package dlq

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// endpointPrefix marks a target that is an HTTP endpoint. No Kafka topic has a colon in its
// name, so both kinds of target can stand in the same field.
const endpointPrefix = "http:"

// EndpointTarget is the target that stands for an HTTP endpoint of the configuration.
func EndpointTarget(name string) string { return endpointPrefix + name }

// EndpointOf is the name of the HTTP endpoint of a target; ok is false for a Kafka topic.
func EndpointOf(target string) (name string, ok bool) {
	return strings.CutPrefix(target, endpointPrefix)
}

// Targets decides where messages go: to their original topic, to another topic, or to an
// HTTP endpoint. Nil sends all messages to their original topics.
type Targets struct {
	topics    *Topics
	routes    globMap[string] // of original topics to targets
	allowed   []targetGlob
	endpoints []string
}

// targetGlob matches names of topics, or of endpoints.
type targetGlob struct {
	endpoints bool
	matches   *regexp.Regexp
}

func (g targetGlob) has(target string) bool {
	name, isEndpoint := EndpointOf(target)
	return isEndpoint == g.endpoints && g.matches.MatchString(name)
}

// NewTargets compiles globs, in which * stands for any run of characters and ? for a character. routes maps
// globs of original topics to a topic or the EndpointTarget of any of the endpoints. allowed has globs of the
// targets that an operator may name for a retry. The error is the first problem found.
func NewTargets(topics *Topics, routes map[string]string, allowed, endpoints []string) (*Targets, error) {
	compiled, err := newGlobMap(routes)
	if err != nil {
		return nil, err
	}
	t := &Targets{topics: topics, endpoints: endpoints, routes: compiled}
	for glob, target := range routes {
		if reason := t.unusable(target); reason != "" {
			return nil, fmt.Errorf("the target %q of %q %s", target, glob, reason)
		}
	}
	for _, glob := range allowed {
		name, endpoints := EndpointOf(glob)
		matches, err := compileGlob(name)
		if err != nil {
			return nil, err
		}
		t.allowed = append(t.allowed, targetGlob{endpoints, matches})
	}
	return t, nil
}

// Of returns the target of a message: a Kafka topic, or the EndpointTarget of an endpoint. requested is the
// target that the operator has named, or empty. The error is a *TargetError.
func (t *Targets) Of(originalTopic, requested string) (string, error) {
	routed := t.Route(originalTopic)
	target := cmp.Or(requested, routed)
	var reason string
	switch {
	case target == routed || target == originalTopic:
		reason = t.refusal(target)
	case t == nil:
		reason = notAllowed
	default:
		reason = t.unusable(target)
		if reason == "" && !slices.ContainsFunc(t.allowed, func(glob targetGlob) bool { return glob.has(target) }) {
			reason = notAllowed
		}
	}
	if reason != "" {
		return "", &TargetError{Target: target, Reason: reason}
	}
	return target, nil
}

// Route is where the messages of a topic go unless an operator names another target.
func (t *Targets) Route(originalTopic string) string {
	if t != nil {
		if route := t.routes.of(originalTopic); route != nil {
			return route.value
		}
	}
	return originalTopic
}

// RouteTargets are the targets of the routes, in the order of the routes.
func (t *Targets) RouteTargets() (targets []string) {
	if t == nil {
		return nil
	}
	for _, route := range t.routes {
		targets = append(targets, route.value)
	}
	return targets
}

const notAllowed = "is not among the allowed targets; an administrator can add it to targets.allowed"

// unusable says why nothing can be sent to a target; empty for a usable target.
func (t *Targets) unusable(target string) string {
	name, isEndpoint := EndpointOf(target)
	switch {
	case isEndpoint && !slices.Contains(t.endpoints, name):
		return "is not an endpoint of targets.endpoints"
	case isEndpoint:
		return ""
	case !IsTopicName(target):
		return "is not the name of a topic"
	default:
		return t.refusal(target)
	}
}

// refusal is the refusal of t.topics. If t is nil, no target is refused.
func (t *Targets) refusal(target string) string {
	if t == nil {
		return ""
	}
	return t.topics.refusal(target)
}

// TargetError refuses to send messages to a target.
type TargetError struct {
	Target string `json:"target"`
	// Reason completes a sentence that begins with the target.
	Reason string `json:"reason"`
}

// Error names the target and the reason.
func (e *TargetError) Error() string { return fmt.Sprintf("target %q %s", e.Target, e.Reason) }
