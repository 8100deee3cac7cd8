package dlq

import (
	"net/url"
	"strings"
)

// Pages is the address of the console, such as https://dlq.example.com. Its methods return the addresses of the console's
// pages. An empty Pages makes empty addresses.
type Pages string

// Message is the page of a message.
func (p Pages) Message(id ID) string { return p.page("messages", id.String()) }

// Archived is the page of an archived message.
func (p Pages) Archived(id ID) string { return p.page("archive", id.String()) }

// Group is the page of a group.
func (p Pages) Group(id ID) string { return p.page("groups", id.String()) }

// Job is the page of a job.
func (p Pages) Job(id ID) string { return p.page("jobs", id.String()) }

// Topic is the page of a dead-letter topic or of an original topic.
func (p Pages) Topic(name string) string { return p.page("topics", name) }

func (p Pages) page(kind, name string) string {
	if p == "" {
		return ""
	}
	return strings.TrimRight(string(p), "/") + "/" + kind + "/" + url.PathEscape(name)
}
