package client

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// PlanBody returns parameters as the fields of a plan or a job. Filters have the names that they have in a list: `header.tenant=acme`
// becomes `"headers": {"tenant": "acme"}`. Other fields have their own names, such as `rate_limit` and `ramp.steps`. If a field needs a
// number and its text is no number, the field gets the text, so that the API explains the mistake.
func PlanBody(parameters url.Values) map[string]any {
	body, not := map[string]any{}, map[string]any{}
	for _, parameter := range slices.Sorted(maps.Keys(parameters)) {
		values := parameters[parameter]
		if excluded, isNot := strings.CutPrefix(parameter, "not."); isNot {
			for _, text := range values {
				field, value := fieldOf(excluded, []string{text})
				list, _ := not[field].([]any)
				not[field] = append(list, value)
			}
			continue
		}
		field, value := fieldOf(parameter, values)
		if known, isKnown := body[field]; isKnown {
			value = merged(known, value)
		}
		body[field] = value
	}
	if text, isKnown := body["not"]; isKnown {
		body["not"] = merged(text, not)
	} else if len(not) > 0 {
		body["not"] = not
	}
	return body
}

// merged has the members of both objects. Any other two values become a list, which the API refuses: without one of the filters, more
// messages would match.
func merged(a, b any) any {
	members, isObject := a.(map[string]any)
	more, areObjects := b.(map[string]any)
	if !isObject || !areObjects {
		return []any{a, b}
	}
	maps.Copy(members, more)
	return members
}

// fieldOf returns the field of a parameter and its value in JSON: an object with one member for a header, a value in the payload, or a
// part of a ramp.
func fieldOf(parameter string, values []string) (field string, value any) {
	value = fieldValue(parameter, values)
	object, member, isMember := strings.Cut(parameter, ".")
	switch {
	case isMember && object == "header":
		return "headers", map[string]any{member: value}
	case isMember && (object == "payload" || object == "ramp"):
		return object, map[string]any{member: value}
	default:
		return parameter, value
	}
}

// fieldValue is the value of a field in JSON. Several values become a list, which the API refuses if the field is no list.
func fieldValue(name string, values []string) any {
	text := strings.Join(values, ",")
	switch name {
	case "status", "ids":
		return strings.Split(text, ",")
	case "ramp.steps":
		steps := []any{}
		for step := range strings.SplitSeq(text, ",") {
			if step = strings.TrimSpace(step); step != "" {
				_, err := strconv.ParseInt(step, 10, 64)
				steps = append(steps, number(step, err))
			}
		}
		return steps
	}
	if len(values) > 1 {
		return values
	}
	switch name {
	case "suspicious", "include_suspicious":
		if text == "true" || text == "false" {
			return text == "true"
		}
	case "origin_partition", "origin_offset", "rate_limit":
		_, err := strconv.ParseInt(text, 10, 64)
		return number(text, err)
	case "ramp.max_came_back":
		_, err := strconv.ParseFloat(text, 64)
		return number(text, err)
	}
	return text
}

// number returns a number as it was written, so that no digit is lost. A text that is no number stays a text.
func number(text string, err error) any {
	if err == nil && json.Valid([]byte(text)) {
		return json.Number(text)
	}
	return text
}
