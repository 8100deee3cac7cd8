package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"dlqmanager/client"
)

// filtersFrom writes the filters of a plan or a job as parameters of a list.
func filtersFrom(all client.Filters) url.Values {
	var fields map[string]any
	content, err := json.Marshal(all)
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.UseNumber()
		err = decoder.Decode(&fields)
	}
	if err != nil {
		panic(err) // this cannot happen, since the filters were decoded from JSON
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

// listOf is the page that lists the messages of a selection.
func listOf(selected url.Values, kind, topic string) string {
	if kind == "restore" {
		return pageOf("/archive", with(selected, "topic", topic))
	}
	return pageOf("/topics/"+url.PathEscape(topic), selected)
}
