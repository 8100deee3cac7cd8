package console

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"dlqmanager/client"
)

// auditData is the page that shows who changed what and why.
type auditData struct {
	Fields      map[string]string
	Chips       []chip
	Operations  []operationRow
	Actions     []action
	Outcomes    []outcome
	First, Next string
	// Refused is why the API does not take the filters; then there is no list.
	Refused string
}

// operationRow is a row of the audit as the page shows it.
type operationRow struct {
	client.Operation

	What    string
	Outcome outcome
	// Page is the page of the message, the job or the group; empty if the target has none.
	Page string
	// Details is the filter, the counts or the error, as JSON on several lines; empty if there is nothing.
	Details string
	// Same are the pages with the operations of the same person, of the same kind and on the same target.
	SameSubject, SameAction, SameTarget string
}

type action struct{ Name, Text string }

// outcome is what became of an operation: by icon, word and colour.
type outcome struct {
	Name client.OperationOutcome
	// Icon names a picture and a colour of the layout.
	Icon, Text, Help string
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
	if found == nil {
		found = &client.Answer[client.OperationList]{}
	}
	d := auditData{Refused: refused, Fields: map[string]string{}, Actions: v.actions(), Outcomes: v.outcomes()}
	for _, name := range []string{"subject", "action", "topic", "target_id", "outcome", "from", "to"} {
		d.Fields[name] = asked.Get(name)
	}
	for _, used := range usedFilters(asked) {
		d.Chips = append(d.Chips, chip{Text: used.Name + ": " + used.Value, Without: withoutFilter(asked, used)})
	}
	d.Fields["from"], d.Fields["to"] = fieldTime(d.Fields["from"]), fieldTime(d.Fields["to"])
	for _, operation := range found.Value.Operations {
		d.Operations = append(d.Operations, v.operationRow(operation, d.Actions, d.Outcomes, asked))
	}
	d.First, d.Next = cursorPages("/audit", asked, found.Value.Pagination.NextCursor)
	return showFiltered("audit", v.text("Audit"), d, refused)
}

func (v *visit) operationRow(o client.Operation, actions []action, outcomes []outcome, asked url.Values) operationRow {
	row := operationRow{Operation: o, Page: targetPage(&o), Details: indented(o.Detail), Outcome: outcome{Name: o.Outcome, Text: string(o.Outcome)}}
	if i := slices.IndexFunc(actions, func(a action) bool { return a.Name == o.Action }); i >= 0 {
		row.What = actions[i].Text
	}
	if i := slices.IndexFunc(outcomes, func(known outcome) bool { return known.Name == o.Outcome }); i >= 0 {
		row.Outcome = outcomes[i]
	}
	only := func(name, value string) string {
		more := without(asked, "cursor")
		more.Set(name, value)
		return pageOf("/audit", more)
	}
	row.SameSubject, row.SameAction = only("subject", o.Subject), only("action", o.Action)
	if o.TargetID != nil {
		row.SameTarget = only("target_id", *o.TargetID)
	}
	return row
}

// targetPage is the page of what an operation concerns.
func targetPage(o *client.Operation) string {
	if o.Target == nil {
		return ""
	}
	pages := map[string]string{"message": "/messages/", "job": "/jobs/", "group": "/groups/"}
	page, ok := pages[*o.Target]
	switch {
	case *o.Target == "archive":
		return "/archive"
	case ok && o.TargetID != nil:
		return page + url.PathEscape(*o.TargetID)
	default:
		return ""
	}
}

// indented writes the detail of an operation for people. Numbers stay as they are written.
func indented(detail json.RawMessage) string {
	if text := strings.TrimSpace(string(detail)); text == "" || text == "null" || text == "{}" {
		return ""
	}
	var out bytes.Buffer
	if json.Indent(&out, detail, "", "  ") != nil {
		return string(detail)
	}
	return out.String()
}

// actions are what the audit records, in words.
func (v *visit) actions() []action {
	return []action{
		{"dlq:message:retry", v.text("Retry a message")},
		{"dlq:message:dead", v.text("Mark a message dead")},
		{"dlq:message:revive", v.text("Revive or restore a message")},
		{"dlq:message:delete", v.text("Delete a message")},
		{"dlq:message:create", v.text("Hand in messages")},
		{"dlq:message:export", v.text("Export messages")},
		{"dlq:message:read", v.text("Read messages")},
		{"dlq:message:unmask", v.text("See hidden parts of a message")},
		{"dlq:job:create", v.text("Start a job")},
		{"dlq:job:control", v.text("Steer a job")},
		{"dlq:job:read", v.text("Read jobs")},
		{"dlq:group:update", v.text("Change a cause")},
		{"dlq:group:read", v.text("Read causes")},
		{"dlq:topic:read", v.text("Read topics")},
		{"dlq:archive:run", v.text("Run the archive")},
		{"dlq:audit:read", v.text("Read the audit")},
		{"dlq:metrics:read", v.text("Read metrics")},
		{"dlq:process:read", v.text("Look into the process")},
		{"dlq:process:update", v.text("Change the log level")},
	}
}

func (v *visit) outcomes() []outcome {
	return []outcome{
		{client.OperationOutcomeDone, "yes", v.text("Done"), v.text("The change was made. At the end of a job or an export, all of it is done.")},
		{client.OperationOutcomeAccepted, "waiting", v.text("Accepted"),
			v.text("A workflow makes the change, or the export has begun. Another row tells the end.")},
		{client.OperationOutcomeRefused, "no", v.text("Refused"), v.text("It was not allowed, or not possible. Nothing was changed.")},
		{client.OperationOutcomeFailed, "FAILED", v.text("Failed"), v.text("An error prevented it, or ended the job or the export.")},
		{client.OperationOutcomeCancelled, "CANCELLED", v.text("Cancelled"), v.text("Somebody cancelled the job, or the reader of the export has gone.")},
		{client.OperationOutcomeUnknown, "warning", v.text("Not known"),
			v.text("An error hides whether a workflow makes the change. The message or the job shows it.")},
	}
}

// cleanFilters leaves out empty fields, and writes times as the API reads them. So the address of the page has the filters
// that are in use, and nothing else.
func cleanFilters(asked url.Values) url.Values {
	clean := url.Values{}
	for name, values := range asked {
		for _, value := range values {
			if value = strings.TrimSpace(value); value != "" {
				clean.Add(name, apiTime(name, value))
			}
		}
	}
	return clean
}

// apiTime writes the value of a field for a time, which is in UTC, as the API reads it.
func apiTime(name, value string) string {
	if !slices.Contains([]string{"from", "to"}, name) {
		return value
	}
	if at, ok := typedTime(value); ok {
		return at.Format(time.RFC3339Nano)
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

// usedFilters are the parameters of the audit that filter it.
func usedFilters(asked url.Values) filters {
	var used filters
	for name, values := range without(asked, "cursor", "page_size") {
		for _, value := range values {
			used = append(used, filter{name, value})
		}
	}
	slices.SortFunc(used, func(a, b filter) int { return strings.Compare(a.Name+"="+a.Value, b.Name+"="+b.Value) })
	return used
}

// withoutFilter is the audit without one of its filters.
func withoutFilter(asked url.Values, used filter) string {
	rest := without(asked, "cursor")
	rest[used.Name] = slices.DeleteFunc(rest[used.Name], func(value string) bool { return value == used.Value })
	return pageOf("/audit", rest)
}
