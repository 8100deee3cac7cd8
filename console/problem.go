package console

import (
	"cmp"
	"errors"
	"net/http"

	"dlqmanager/client"
)

// problemData is the page that is shown if a page cannot be shown.
type problemData struct {
	Status int
	// Help says what to do next.
	Help, Reason string
	RequestID    string
	// Again is the page to try again; empty after a form.
	Again string
	// IsUnknown is set if the address leads to no page.
	IsUnknown bool
}

// problem shows why a page cannot be shown.
func (v *visit) problem(status int, err error) *answer {
	p := problemData{Status: status, Reason: v.explain(err), RequestID: v.Header.Get("X-Request-Id")}
	if refused, ok := errors.AsType[*client.APIError](err); ok {
		p.RequestID = cmp.Or(refused.RequestID, p.RequestID)
	}
	if v.Method == http.MethodGet {
		p.Again = v.URL.RequestURI()
	}
	title := v.text("Not possible")
	switch {
	case status == http.StatusNotFound:
		title, p.Help = v.text("Not found"), v.text("It may have been deleted or archived, or your rights do not include its topic.")
	case status == http.StatusForbidden:
		title = v.text("Not allowed")
		p.Help = v.text("The page “My access” shows what you may do. An administrator of the manager can give you more.")
	case status == http.StatusTooManyRequests:
		title, p.Help = v.text("Too many requests"), v.text("Wait a moment and try again.")
	case status == http.StatusNotImplemented:
		title, p.Help = v.text("Needs a database"), v.text("This server only serves to try the manager out: its messages end with it.")
		p.Again = ""
	case status >= http.StatusInternalServerError:
		title = v.text("Not available")
		p.Help = v.text("No message is lost. Try again in a moment; if it stays so, /readyz of the server names the part that is away.")
	}
	return &answer{template: "problem", title: title, status: status, data: p}
}

// unknown answers an address that leads to no page.
func (v *visit) unknown() (*answer, error) {
	return &answer{template: "problem", title: v.text("Not found"), status: http.StatusNotFound, data: problemData{
		Status: http.StatusNotFound, Reason: v.text("There is no page at this address."), RequestID: v.Header.Get("X-Request-Id"), IsUnknown: true,
	}}, nil
}
