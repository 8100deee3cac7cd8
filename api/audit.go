package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type operationsView struct {
	Operations []operationView      `json:"operations"`
	Pagination cursorPaginationView `json:"pagination"`
}

type operationView struct {
	ID        dlq.ID               `json:"id"`
	At        timestamp            `json:"at"`
	Subject   string               `json:"subject"`
	Method    string               `json:"method"`
	Address   string               `json:"address"`
	Action    dlq.Permission       `json:"action"`
	Topic     *string              `json:"topic"`
	Target    *string              `json:"target"`
	TargetID  *dlq.ID              `json:"target_id"`
	Reason    *string              `json:"reason"`
	RequestID string               `json:"request_id"`
	Workflow  *workflowView        `json:"workflow"`
	Outcome   dlq.OperationOutcome `json:"outcome"`
	Detail    json.RawMessage      `json:"detail"`
}

func (s *Server) audit(ctx context.Context, c *fiber.Ctx, q *query) error {
	wanted := q.operations(auditList)
	if err := q.err(); err != nil {
		return err
	}
	page, err := scan(ctx, s, true, func() (dlq.PageOf[dlq.Operation], error) { return s.guard.Operations(ctx, wanted) })
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, operationsView{views(page.Entries, s.viewOperation), pagination(auditList, wanted.PageSize, page.Next)})
}

func (s *Server) viewOperation(o *dlq.Operation) operationView {
	view := operationView{
		ID: o.ID, At: timestamp(o.At), Subject: o.Subject, Method: o.Method, Address: o.Address, Action: o.Action,
		Topic: optional(o.Topic), Target: optional(string(o.Target)), TargetID: optional(o.TargetID),
		Reason: optional(o.Reason), RequestID: o.RequestID, Outcome: o.Outcome,
	}
	if o.WorkflowID != "" {
		view.Workflow = &workflowView{WorkflowID: o.WorkflowID, URL: s.workflowURL(o.WorkflowID, "")}
	}
	if len(o.Detail) > 0 { // encoding an empty RawMessage fails
		view.Detail = o.Detail
	}
	return view
}

var auditParameters = []string{"page_size", "cursor", "subject", "action", "topic", "target_id", "outcome", "from", "to"}

// operations reads the parameters of the audit. The list of single retries has some of these parameters.
func (q *query) operations(list string) dlq.OperationQuery {
	wanted := dlq.OperationQuery{Topic: q.topicName(), TargetID: q.id("target_id", "target"),
		Outcome: wordOf(q.body, "outcome", dlq.OperationOutcomes), PageSize: q.number("page_size", defaultPageSize, maxPageSize)}
	wanted.From, wanted.To = q.between()
	wanted.Subject, _ = q.one("subject")
	if action, given := q.one("action"); given {
		wanted.Action = dlq.Permission(action)
		if !slices.Contains(dlq.RoleAdmin.Permissions(), wanted.Action) {
			q.reject("action", "is not a permission, such as %s", dlq.PermMessageRetry)
		}
	}
	wanted.After = cursorOf[dlq.Place](q, list)
	return wanted
}

// operationsOf returns the operations that asked for the retries of messages. The keys are the tokens of the retries' owners.
func (s *Server) operationsOf(ctx context.Context, hops []dlq.Hop) (map[string]dlq.ID, error) {
	var messages []dlq.ID
	var tokens []string
	for i := range hops {
		messages = append(messages, hops[i].ID)
		tokens = append(tokens, hops[i].Owner.Token)
		for _, a := range hops[i].Attempts {
			tokens = append(tokens, a.Owner.Token)
		}
	}
	tokens = slices.DeleteFunc(tokens, func(token string) bool { return token == "" })
	if len(tokens) == 0 || !s.guard.hasDatabase() {
		return map[string]dlq.ID{}, nil
	}
	return s.guard.OperationsOf(ctx, messages, tokens)
}
