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

// auditData is the page of the audit: it shows who asked for which change, and why.
type auditData struct {
	listing

	Operations []client.Operation
}

// audit shows the operations, the newest first. The page and the API have the same parameters.
func (v *visit) audit() (*answer, error) {
	asked := v.URL.Query()
	if clean := cleanFilters(asked); clean.Encode() != asked.Encode() {
		return goTo(pageOf("/audit", clean))
	}
	d := auditData{listing: listing{Path: "/audit", Asked: asked}}
	found, err := v.api.ListOperations(v.Context(), nil, client.Queries(asked))
	if d.Refused, err = v.refusedFilters(err); err != nil {
		return nil, err
	}
	if found != nil {
		d.Operations = found.Value.Operations
		d.listing = d.turned(asked, found.Value.Pagination.NextCursor)
	}
	return showFiltered("audit", v.text("Audit"), d, d.Refused)
}

// Time writes the time of a filter in the format of a form's field.
func (d auditData) Time(name string) string {
	at, err := time.Parse(time.RFC3339, d.Asked.Get(name))
	if err != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05")
}

// Actions are the names of the actions that the audit records.
func (auditData) Actions() []string { return slices.Sorted(maps.Keys(wordings["action"])) }

// Page is the page of the target of an operation; empty if the target has no page.
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

// Indented writes the detail of an operation, such as its filter, its counts or its error, with indents. It keeps all digits of numbers.
// The text is empty if there is no detail.
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

// cleanFilters leaves out empty fields. A form has times in UTC, and cleanFilters writes the times in the format of the API.
// So the address of the page has only the filters that are in use.
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

// Chips are the filters in use, with the names that the API gives them.
func (d auditData) Chips() []chip {
	names := slices.Sorted(maps.Keys(without(d.Asked, "cursor", "page_size")))
	return d.chips(names, func(name, value string) string { return name + ": " + value })
}
