package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"dlqmanager/client"
)

// number is a number for JSON as it was written, or else the text.
func number(text string) any {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil && json.Valid([]byte(text)) {
		return json.Number(text)
	}
	return text
}

// bodyOf returns filters as the fields of a plan or a job.
func bodyOf(selected url.Values) map[string]any {
	body, not := map[string]any{}, map[string]any{}
	add := func(to map[string]any, name string, value any) {
		list, _ := to[name].([]any)
		to[name] = append(list, value)
	}
	for parameter, values := range selected {
		for _, text := range values {
			name, path, isPair := strings.Cut(baseOf(parameter), ".")
			var value any = text
			switch {
			case name == "header":
				name = "headers"
			case name == "suspicious" && (text == "true" || text == "false"):
				value = text == "true"
			case name == "origin_partition" || name == "origin_offset":
				value = number(text)
			}
			switch {
			case isPair && isNot(parameter):
				add(not, name, map[string]string{path: text})
			case isPair:
				pairs, _ := body[name].(map[string]string)
				if pairs == nil {
					pairs = map[string]string{}
				}
				pairs[path] = text
				body[name] = pairs
			case isNot(parameter):
				add(not, name, value)
			case name == "status" || name == "ids":
				for value := range strings.SplitSeq(text, ",") {
					add(body, name, value)
				}
			default:
				body[name] = value
			}
		}
	}
	if len(not) > 0 {
		body["not"] = not
	}
	return body
}

// filtersFrom reads the filters of a plan or a job, whose fields have the names of the filters.
func filtersFrom(all client.Filters) url.Values {
	var fields map[string]any
	content, err := json.Marshal(all)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.UseNumber()
		err = decoder.Decode(&fields)
	}
	if err != nil {
		panic(err) // it was JSON before
	}
	query := url.Values{}
	addFields(query, "", fields)
	return filtersOf(query)
}

func addFields(query url.Values, prefix string, fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case map[string]any:
			if name == "headers" {
				name = "header"
			}
			addFields(query, prefix+name+".", value)
		case []any:
			texts := make([]string, 0, len(value))
			for _, one := range value {
				if pairs, ok := one.(map[string]any); ok {
					addFields(query, prefix, map[string]any{name: pairs})
				} else {
					texts = append(texts, fmt.Sprint(one))
				}
			}
			if prefix == "" { // a status or ids
				texts = []string{strings.Join(texts, ",")}
			}
			query[prefix+name] = append(query[prefix+name], texts...)
		default:
			query.Add(prefix+name, fmt.Sprint(value))
		}
	}
}

// listOf is the page of the messages of a selection.
func listOf(selected url.Values, kind, topic string) string {
	if kind == "restore" {
		return pageOf("/archive", with(selected, "topic", topic))
	}
	return pageOf("/topics/"+url.PathEscape(topic), selected)
}
