package console

import (
	"encoding/json"
	"strings"

	"dlqmanager/client"
)

// messageList is a list of messages with the filters that choose them.
type messageList struct {
	filterForm

	Messages   []client.ListedMessage
	Pagination client.MessageList_Pagination
}

// passedOn passes the parameters of a page to the API, except own, which only the page has. It passes unknown parameters too.
// The API refuses them, so a misspelt filter does not select everything.
func (v *visit) passedOn(list listing, own string) client.RequestOption {
	passed := without(list.Asked, own)
	for name, values := range v.URL.Query() {
		if !isFilter(name) && name != "sort" && name != "cursor" && name != own {
			passed[name] = values
		}
	}
	return client.Queries(passed)
}

// fill takes the messages of an answer, or the reason why the API has refused the filters.
func (v *visit) fill(list *messageList, found *client.Answer[client.MessageList], err error) error {
	list.Refused, err = v.refusedFilters(err)
	if found != nil {
		list.Messages, list.Pagination = found.Value.Messages, found.Value.Pagination
		list.listing = list.turned(v.URL.Query(), list.Pagination.NextCursor)
	}
	return err
}

// matching says how many messages match. A list stops counting at a limit; a plan counts all matching messages.
func (v *visit) matching(page client.MessageList_Pagination) string {
	count := page.TotalCount
	switch {
	case page.TotalCountExact:
		return v.text("%d messages match.", count)
	case page.Searched != nil:
		return v.text("%d messages on this page match. A plan counts all of them.", count)
	default:
		return v.text("More than %d messages match. A plan counts all of them.", count)
	}
}

// preview is the beginning of a payload in one line; empty if there is no payload.
func preview(payload json.RawMessage) string {
	if string(payload) == "null" {
		return ""
	}
	return short(previewSize, strings.Join(strings.Fields(string(payload[:min(len(payload), 4*previewSize)])), " "))
}
