package console

import (
	"errors"
	"net/http"

	"dlqmanager/client"
)

// problemData is the page that is shown in place of one that cannot be.
type problemData struct {
	Status int
	// Help says what to do next.
	Help, Reason string
	RequestID    string
	// Again is the page to try again; empty for a form that was sent.
	Again string
	// IsUnknown is set if the address leads to no page.
	IsUnknown bool
}

func (v *visit) problemTitle(status int) string {
	switch {
	case status == http.StatusNotFound:
		return v.text("Not found")
	case status == http.StatusForbidden:
		return v.text("Not allowed")
	case status == http.StatusNotImplemented:
		return v.text("Needs a database")
	case status == http.StatusTooManyRequests:
		return v.text("Too many requests")
	case status >= http.StatusInternalServerError:
		return v.text("Not available")
	default:
		return v.text("Not possible")
	}
}

func problemOf(v *visit, status int, err error) problemData {
	p := problemData{Status: status, Reason: v.explain(err)}
	var refused *client.APIError
	if errors.As(err, &refused) {
		p.RequestID = refused.RequestID
	}
	if p.RequestID == "" {
		p.RequestID = v.Header.Get("X-Request-Id")
	}
	if v.Method == http.MethodGet {
		p.Again = v.URL.RequestURI()
	}
	switch {
	case status == http.StatusNotFound:
		p.Help = v.text("It may have been deleted or archived, or your rights do not include its topic.")
	case status == http.StatusForbidden:
		p.Help = v.text("The page “My access” shows what you may do. An administrator of the manager can give you more.")
	case status == http.StatusTooManyRequests:
		p.Help = v.text("Wait a moment and try again.")
	case status == http.StatusNotImplemented:
		p.Help, p.Again = v.text("This server only serves to try the manager out: its messages end with it."), ""
	case status >= http.StatusInternalServerError:
		p.Help = v.text("No message is lost. Try again in a moment; if it stays so, /readyz of the server names the part that is away.")
	}
	return p
}
