package console

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"dlqmanager/client"
)

// auditData is the page that shows who changed what and why.
type auditData struct {
	Asked       url.Values
	Operations  []client.Operation
	First, Next string
	// Refused is why the API does not take the filters; then there is no list.
	Refused string
}

// audit shows the operations, the newest first. The parameters of the page are the API's.
func (v *visit) audit() (*answer, error) {
	asked := v.URL.Query()
	if clean := cleanFilters(asked); clean.Encode() != asked.Encode() {
		return goTo(pageOf("/audit", clean))
	}
	filters := make([]client.RequestOption, 0, len(asked))
	for name, values := range asked {
		filters = append(filters, client.Query(name, values...))
	}
	found, err := v.api.ListOperations(v.Context(), nil, filters...)
	refused, err := v.refusedFilters(err)
	if err != nil {
		return nil, err
	}
	d := auditData{Asked: asked, Refused: refused}
	if found != nil {
		d.Operations = found.Value.Operations
		d.First, d.Next = cursorPages("/audit", asked, found.Value.Pagination.NextCursor)
	}
	return showFiltered("audit", v.text("Audit"), d, refused)
}

// Time is a filter that is a time, for the field of a form.
func (d auditData) Time(name string) string {
	at, err := time.Parse(time.RFC3339, d.Asked.Get(name))
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05")
}

// Only is this page with another filter, and no others of its name.
func (d auditData) Only(name, value string) string {
	more := without(d.Asked, "cursor")
	more.Set(name, value)
	return pageOf("/audit", more)
}

// Actions are the names of what the audit records.
func (auditData) Actions() []string { return slices.Sorted(maps.Keys(wordings["action"])) }

// Page is the page of what an operation concerns; empty if the target has none.
func (auditData) Page(o client.Operation) string {
	pages := map[string]string{"message": "/messages/", "job": "/jobs/", "group": "/groups/"}
	page, ok := pages[valueOf(o.Target)]
	switch {
	case valueOf(o.Target) == "archive":
		return "/archive"
	case ok && o.TargetID != nil:
		return page + url.PathEscape(*o.TargetID)
	default:
		return ""
	}
}

// Indented writes the detail of an operation, its filter, its counts or its error, for people; nothing if there is none. Numbers stay as
// they are written.
func (auditData) Indented(detail json.RawMessage) string {
	if text := strings.TrimSpace(string(detail)); text == "" || text == "null" || text == "{}" {
		return ""
	}
	var out bytes.Buffer
	if json.Indent(&out, detail, "", "  ") != nil {
		return string(detail)
	}
	return out.String()
}

// cleanFilters leaves out empty fields, and writes times, which are in UTC, as the API reads them. So the address of the page has the
// filters that are in use, and nothing else.
func cleanFilters(asked url.Values) url.Values {
	clean := url.Values{}
	for name, values := range asked {
		for _, value := range values {
			value = strings.TrimSpace(value)
			if at, ok := typedTime(value); ok && (name == "from" || name == "to") {
				value = at.Format(time.RFC3339Nano)
			}
			if value != "" {
				clean.Add(name, value)
			}
		}
	}
	return clean
}

// Chips are the filters in use, each with the page without it.
func (d auditData) Chips() []chip {
	var chips []chip
	used := without(d.Asked, "cursor", "page_size")
	for _, name := range slices.Sorted(maps.Keys(used)) {
		for _, value := range slices.Sorted(slices.Values(used[name])) {
			rest := without(d.Asked, "cursor")
			rest[name] = slices.DeleteFunc(rest[name], func(other string) bool { return other == value })
			chips = append(chips, chip{Text: name + ": " + value, Without: pageOf("/audit", rest)})
		}
	}
	return chips
}
