package console

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"dlqmanager/client"
)

// number is a number for JSON as it was written, or else the text.
func number(text string) any {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil && json.Valid([]byte(text)) {
		return json.Number(text)
	}
	return text
}

// body returns the filters as the fields of a plan or a job.
func (f filters) body() map[string]any {
	body := map[string]any{}
	put := func(to map[string]any, name string, value any, isList bool) {
		if isList {
			list, _ := to[name].([]any)
			list = append(list, value)
			value = list
		}
		to[name] = value
	}
	not := map[string]any{}
	for _, one := range f {
		to, base := body, one.base()
		if one.Not() {
			to = not
		}
		header, isHeader := strings.CutPrefix(base, "header.")
		path, isPayload := strings.CutPrefix(base, "payload.")
		switch {
		case isHeader && one.Not():
			put(to, "headers", map[string]string{header: one.Value}, true)
		case isPayload && one.Not():
			put(to, "payload", map[string]string{path: one.Value}, true)
		case isHeader:
			addTo(body, "headers", header, one.Value)
		case isPayload:
			addTo(body, "payload", path, one.Value)
		case base == "status" || base == "ids":
			for value := range strings.SplitSeq(one.Value, ",") {
				put(to, base, value, true)
			}
		case base == "suspicious" && (one.Value == "true" || one.Value == "false"):
			to[base] = one.Value == "true"
		case base == "origin_partition" || base == "origin_offset":
			put(to, base, number(one.Value), one.Not())
		default:
			put(to, base, one.Value, one.Not())
		}
	}
	if len(not) > 0 {
		body["not"] = not
	}
	return body
}

func addTo(body map[string]any, field, name, value string) {
	values, _ := body[field].(map[string]string)
	if values == nil {
		values = map[string]string{}
		body[field] = values
	}
	values[name] = value
}

// filtersFrom reads the filters of a plan or a job.
func filtersFrom(all client.Filters) filters {
	query := url.Values{}
	text := func(name string, value *string) {
		if value != nil {
			query.Set(name, *value)
		}
	}
	text("error", all.Error)
	text("class", all.Class)
	text("key", all.Key)
	text("consumer_group", all.ConsumerGroup)
	text("group", all.Group)
	text("trace_id", all.TraceID)
	text("correlation_id", all.CorrelationID)
	for name, at := range map[string]*time.Time{"created_from": all.CreatedFrom, "created_to": all.CreatedTo} {
		if at != nil {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	for name, n := range map[string]*int64{"origin_partition": all.OriginPartition, "origin_offset": all.OriginOffset} {
		if n != nil {
			query.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if all.Suspicious != nil {
		query.Set("suspicious", strconv.FormatBool(*all.Suspicious))
	}
	if all.Status != nil {
		status := make([]string, 0, len(*all.Status))
		for _, one := range *all.Status {
			status = append(status, string(one))
		}
		query.Set("status", strings.Join(status, ","))
	}
	if all.Ids != nil {
		query.Set("ids", strings.Join(*all.Ids, ","))
	}
	if all.Headers != nil {
		addPairs(query, "header.", *all.Headers)
	}
	if all.Payload != nil {
		addPairs(query, "payload.", *all.Payload)
	}
	if all.Not != nil {
		addNegations(query, all.Not)
	}
	return filtersOf(query)
}

func addPairs(query url.Values, prefix string, values map[string]string) {
	for name, value := range values {
		query.Add(prefix+name, value)
	}
}

func addNegations(query url.Values, not *client.Negations) {
	for name, values := range map[string][]string{
		"error": not.Error, "class": not.Class, "key": not.Key, "consumer_group": not.ConsumerGroup, "group": not.Group,
		"trace_id": not.TraceID, "correlation_id": not.CorrelationID,
	} {
		for _, value := range values {
			query.Add("not."+name, value)
		}
	}
	for name, values := range map[string][]int64{"origin_partition": not.OriginPartition, "origin_offset": not.OriginOffset} {
		for _, n := range values {
			query.Add("not."+name, strconv.FormatInt(n, 10))
		}
	}
	for _, values := range not.Headers {
		addPairs(query, "not.header.", values)
	}
	for _, values := range not.Payload {
		addPairs(query, "not.payload.", values)
	}
}

// list is the page of the messages of a selection.
func (f filters) list(kind, topic string) string {
	query := f.query()
	path := "/topics/" + url.PathEscape(topic)
	if kind == "restore" {
		query.Set("topic", topic)
		path = "/archive"
	}
	return pageOf(path, query)
}
