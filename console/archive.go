package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"dlqmanager/client"
)

// archiveData is the page that finds archived messages.
type archiveData struct {
	Topic string
	// Topics are suggestions. The archive may know more of them.
	Topics []string
	// Fields are the values of the form, by the names of the API's filters.
	Fields map[string]string
	Chips  []chip
	// Clear is this page without filters.
	Clear string
	// Kept are the filters without a field, which the form sends along.
	Kept []filter
	// Messages are nil before a topic was chosen.
	Messages []client.ListedMessage
	Total    int64
	IsExact  bool
	// Refused is why the API does not take the filters; then there is no list.
	Refused string
	// Searched is how many messages were looked at, if more of them are left.
	Searched    int64
	First, Next string
	// RestoreAll is the page of the plan that restores everything that was found.
	RestoreAll string
}

// archiveFields are the filters that the form has a field for. The API's other filters are added by their names.
var archiveFields = []string{
	"status", "error", "class", "key", "group", "consumer_group", "trace_id", "correlation_id",
	"origin_partition", "origin_offset", "suspicious", "verified", "created_from", "created_to", "sort",
}

// archive finds archived messages. The parameters of the page are the API's.
func (v *visit) archive() (*answer, error) {
	asked := v.URL.Query()
	if clean := cleanFilters(asked); clean.Encode() != asked.Encode() {
		return goTo(pageOf("/archive", clean))
	}
	d := archiveData{Topic: asked.Get("topic"), Fields: map[string]string{}}
	err := v.together(func(ctx context.Context) error {
		topics, err := v.api.ListTopics(ctx, nil)
		if err == nil {
			for _, topic := range topics.Value.Topics {
				d.Topics = append(d.Topics, topic.DlqTopic)
			}
		}
		return nil // suggestions only
	}, func(ctx context.Context) error { return v.findArchived(ctx, asked, &d) })
	if err != nil {
		return nil, err
	}
	for _, name := range archiveFields {
		d.Fields[name] = asked.Get(name)
	}
	for _, name := range []string{"created_from", "created_to"} {
		d.Fields[name] = fieldTime(d.Fields[name])
	}
	for _, used := range usedFilters(asked, "topic") {
		d.Chips = append(d.Chips, chip{Text: used.words(v.language), Without: withoutFilter("/archive", asked, used), IsNot: used.Not()})
		if !slices.Contains(archiveFields, used.Name) {
			d.Kept = append(d.Kept, used)
		}
	}
	d.Clear = pageOf("/archive", url.Values{"topic": {d.Topic}})
	plan := without(asked, "cursor", "sort", "page_size")
	plan.Set("kind", "restore")
	d.RestoreAll = pageOf("/plans/new", plan)
	return show("archive", v.text("Archive"), d)
}

func (v *visit) findArchived(ctx context.Context, asked url.Values, d *archiveData) error {
	if d.Topic == "" {
		return nil
	}
	var filters []client.RequestOption
	for name, values := range asked {
		if name != "topic" {
			filters = append(filters, client.Query(name, values...))
		}
	}
	found, err := v.api.ListArchivedMessages(ctx, &client.ListArchivedMessagesParams{Topic: d.Topic}, filters...)
	if d.Refused = v.refusedFilters(err); err != nil {
		return unless(d.Refused, err)
	}
	d.Messages = slices.Clone(found.Value.Messages)
	if d.Messages == nil {
		d.Messages = []client.ListedMessage{}
	}
	page := found.Value.Pagination
	d.Total, d.IsExact = page.TotalCount, page.TotalCountExact
	if s := page.Searched; s != nil && !s.Complete {
		d.Searched, d.IsExact = s.Messages, false
	}
	d.First, d.Next = cursorPages("/archive", asked, page.NextCursor)
	return nil
}

// refusedFilters is why the API does not take the filters of a list; empty for other errors. The form shows it.
func (v *visit) refusedFilters(err error) string {
	if refused, ok := errors.AsType[*client.APIError](err); ok && refused.Status == http.StatusBadRequest {
		return v.explain(err)
	}
	return ""
}

// unless returns the error, but nil if the page says it.
func unless(said string, err error) error {
	if said != "" {
		return nil
	}
	return err
}

// restore brings one archived message back, and leads to the new message.
func (v *visit) restore() (*answer, error) {
	id := v.PathValue("id")
	restored, err := v.api.RestoreMessage(v.Context(), id, &client.RestoreMessageJSONRequestBody{Reason: v.field("reason")})
	if err != nil {
		return v.refused("/archive/"+url.PathEscape(id), err)
	}
	return v.done("/messages/"+url.PathEscape(restored.Value.ID),
		v.text("Restored from the archive. The message waits here until somebody retries it; nothing has been sent."))
}

// runArchive starts a run of the archive.
func (v *visit) runArchive() (*answer, error) {
	_, err := v.api.RunArchive(v.Context(), &client.RunArchiveJSONRequestBody{Reason: v.field("reason")})
	return v.changed("/archive", v.text("The archive runs now, unless a run is active. The audit shows the counts when the run has ended."), err)
}

// cleanFilters leaves out empty fields, writes times as the API reads them, and takes a filter that was added by its
// name. So the address of the page has the filters that are in use, and nothing else.
func cleanFilters(asked url.Values) url.Values {
	clean := url.Values{}
	for name, values := range asked {
		for _, value := range values {
			if value = strings.TrimSpace(value); value != "" && name != "filter" && name != "value" {
				clean.Add(name, apiTime(name, value))
			}
		}
	}
	if name, value := strings.TrimSpace(asked.Get("filter")), asked.Get("value"); name != "" && value != "" {
		clean.Add(name, value)
		clean.Del("cursor")
	}
	return clean
}

// apiTime writes the value of a field for a time, which is in UTC, as the API reads it.
func apiTime(name, value string) string {
	if !slices.Contains([]string{"created_from", "created_to", "from", "to"}, name) {
		return value
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err := time.Parse(layout, value); err == nil {
			return at.Format(time.RFC3339)
		}
	}
	return value
}

// fieldTime writes a time of the API for the field of a form.
func fieldTime(value string) string {
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05")
}

// usedFilters are the parameters of a list that filter it, but those that have the names.
func usedFilters(asked url.Values, names ...string) filters {
	var used filters
	for name, values := range without(asked, append(names, "cursor", "sort", "page_size", "page")...) {
		for _, value := range values {
			used = append(used, filter{name, value})
		}
	}
	slices.SortFunc(used, func(a, b filter) int { return strings.Compare(a.Name+"="+a.Value, b.Name+"="+b.Value) })
	return used
}

// withoutFilter is a list without one of its filters.
func withoutFilter(path string, asked url.Values, used filter) string {
	rest := without(asked, "cursor")
	rest[used.Name] = slices.DeleteFunc(rest[used.Name], func(value string) bool { return value == used.Value })
	return pageOf(path, rest)
}

// cursorPages are the paths of the first page, unless it is shown, and of the next one, if there is one.
func cursorPages(path string, asked url.Values, next *string) (first, after string) {
	if asked.Get("cursor") != "" {
		first = pageOf(path, without(asked, "cursor"))
	}
	if next != nil {
		more := without(asked, "page")
		more.Set("cursor", *next)
		after = pageOf(path, more)
	}
	return first, after
}

// without is a copy of the parameters of a page that lacks some of them.
func without(asked url.Values, names ...string) url.Values {
	rest := url.Values{}
	for name, values := range asked {
		if !slices.Contains(names, name) {
			rest[name] = slices.Clone(values)
		}
	}
	return rest
}

// pageOf is the path of a page with its parameters.
func pageOf(path string, asked url.Values) string {
	if query := asked.Encode(); query != "" {
		return path + "?" + query
	}
	return path
}
