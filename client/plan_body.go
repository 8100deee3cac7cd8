package client

import (
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// PlanBody returns parameters as the fields of a plan or a job. Filters have the names that they have in a list: `header.tenant=acme`
// becomes `"headers": {"tenant": "acme"}`. Other fields have their own names, such as `rate_limit` and `ramp.steps`. Where a number is
// needed and the text is none, the field has the text, so that the API says what is wrong with it.
func PlanBody(parameters url.Values) map[string]any {
	body, not := map[string]any{}, map[string][]any{}
	for parameter, values := range parameters {
		if excluded, isNot := strings.CutPrefix(parameter, "not."); isNot {
			for _, text := range values {
				field, value := fieldOf(excluded, text)
				not[field] = append(not[field], value)
			}
			continue
		}
		field, value := fieldOf(parameter, strings.Join(values, ","))
		if members, ok := body[field].(map[string]any); ok {
			if more, ok := value.(map[string]any); ok {
				maps.Copy(more, members)
			}
		}
		body[field] = value
	}
	if len(not) > 0 {
		body["not"] = not
	}
	return body
}

// fieldOf returns the field of a parameter and its value in JSON: an object with one member for a header, a value in the payload, or a
// part of a ramp.
func fieldOf(parameter, text string) (field string, value any) {
	object, member, isMember := strings.Cut(parameter, ".")
	switch {
	case isMember && object == "header":
		return "headers", map[string]any{member: text}
	case isMember && object == "payload":
		return "payload", map[string]any{member: text}
	case isMember && object == "ramp":
		return "ramp", map[string]any{member: fieldValue(parameter, text)}
	default:
		return parameter, fieldValue(parameter, text)
	}
}

// fieldValue is the value of a field in JSON.
func fieldValue(name, text string) any {
	switch name {
	case "status", "ids":
		return strings.Split(text, ",")
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
	return text
}

// number is a number as it was written, so that each digit stays, or else the text.
func number(text string, err error) any {
	if err == nil && json.Valid([]byte(text)) {
		return json.Number(text)
	}
	return text
}
