package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// SearchAttributes are the search attributes of workflows, all of the type Keyword. A namespace without these attributes is
// not an error.
var SearchAttributes = []string{"DlqTopic", "DlqGroup", "DlqActor"}

var (
	topicAttribute = temporal.NewSearchAttributeKeyKeyword(SearchAttributes[0])
	groupAttribute = temporal.NewSearchAttributeKeyKeyword(SearchAttributes[1])
	actorAttribute = temporal.NewSearchAttributeKeyKeyword(SearchAttributes[2])
)

// maxAttribute, in characters, is far below the server's limit for the value of a search attribute.
const maxAttribute = 250

// attributePause is how long the attributes are left out after the namespace did not know them.
const attributePause = time.Minute

// subject is the subject of a workflow, for the Temporal Web UI.
type subject struct {
	topic string // its dead-letter topic, or the original topic of a job
	group dlq.ID
	// page is the address of the message or the job in the console, and path is its path in the API. reason is the
	// operator's reason.
	page, path, reason string
}

// describe gives the workflow search attributes, and details with links to the console and the API.
func (c *Client) describe(asked *dlq.Operation, options *client.StartWorkflowOptions, s *subject) {
	var updates []temporal.SearchAttributeUpdate
	var details []string
	add := func(key temporal.SearchAttributeKeyKeyword, value, detail string) {
		if value != "" {
			updates = append(updates, key.ValueSet(fmt.Sprintf("%.*s", maxAttribute, value))) // its first characters
			details = append(details, detail)
		}
	}
	// link leads to a page of the console, or to the API if there is no console.
	link := func(text, page, path string) string {
		if page == "" && c.options.PublicURL != "" {
			page = strings.TrimSuffix(c.options.PublicURL, "/") + path
		}
		if page == "" {
			return text
		}
		return "[" + text + "](" + page + ")"
	}
	if s.page != "" {
		details = append(details, link("In the console", s.page, ""))
	}
	if c.options.PublicURL != "" {
		details = append(details, link("In the API", "", s.path))
	}
	add(topicAttribute, s.topic, link("Topic", c.options.Pages.Topic(s.topic), "/api/v1/groups?topic="+s.topic)+" "+markdown(s.topic))
	if !s.group.IsZero() {
		add(groupAttribute, s.group.String(), link("Group", c.options.Pages.Group(s.group), "/api/v1/groups/"+s.group.String())+" "+s.group.String())
	}
	if asked != nil {
		add(actorAttribute, asked.Subject, "asked for by "+markdown(asked.Subject))
	}
	options.TypedSearchAttributes = temporal.NewSearchAttributes(updates...)
	options.StaticDetails = strings.Join(details, " · ")
	if s.reason != "" {
		options.StaticDetails += "\n\nReason: " + markdown(s.reason)
	}
}

// execute starts a workflow, without its search attributes while the namespace does not know
// them.
func (c *Client) execute(ctx context.Context, options client.StartWorkflowOptions, workflowType string, in any) (client.WorkflowRun, error) {
	plain := options
	plain.TypedSearchAttributes = temporal.SearchAttributes{}
	if time.Since(time.Unix(0, c.attributesMissed.Load())) <= attributePause {
		return c.temporal.ExecuteWorkflow(ctx, plain, workflowType, in)
	}
	run, err := c.temporal.ExecuteWorkflow(ctx, options, workflowType, in)
	if !isUnknownAttribute(err) {
		return run, err
	}
	c.attributesMissed.Store(time.Now().UnixNano())
	c.options.Log.Warn("the Temporal namespace does not know the search attributes; workflows start without them. Create them with: "+
		CreateSearchAttributes(c.options.Namespace), zap.Error(err))
	return c.temporal.ExecuteWorkflow(ctx, plain, workflowType, in)
}

// CreateSearchAttributes is the command that creates the search attributes in a namespace.
func CreateSearchAttributes(namespace string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "temporal operator search-attribute create --namespace %s", namespace)
	for _, name := range SearchAttributes {
		b.WriteString(" --name " + name + " --type Keyword")
	}
	return b.String()
}

func isUnknownAttribute(err error) bool {
	invalid, ok := errors.AsType[*serviceerror.InvalidArgument](err)
	return ok && strings.Contains(strings.ToLower(invalid.Message), "search attribute")
}

// markdown escapes a foreign text within a line, so that the Temporal Web UI shows the text
// unchanged.
func markdown(text string) string {
	var b strings.Builder
	for _, c := range strings.Join(strings.Fields(text), " ") {
		if strings.ContainsRune("\\`*_{}[]()<>~&", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}
