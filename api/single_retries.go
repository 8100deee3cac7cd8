package api

import (
	"context"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type singleRetriesView struct {
	Retries    []singleRetryView    `json:"retries"`
	Pagination cursorPaginationView `json:"pagination"`
}

// singleRetryView is a request to retry one message. If the request has joined the retry of another request, it shows the state
// of that retry.
type singleRetryView struct {
	OperationID dlq.ID               `json:"operation_id"`
	MessageID   dlq.ID               `json:"message_id"`
	Topic       *string              `json:"topic"`
	Actor       string               `json:"actor"`
	Reason      *string              `json:"reason"`
	TargetTopic *string              `json:"target_topic"`
	State       dlq.SingleRetryState `json:"state"`
	Error       *string              `json:"error"`
	StartedAt   timestamp            `json:"started_at"`
	EndedAt     *timestamp           `json:"ended_at"`
	Joined      bool                 `json:"joined"`
	Workflow    workflowView         `json:"workflow"`
}

var singleRetryParameters = []string{"page_size", "cursor", "topic", "actor", "from", "to"}

func (s *Server) singleRetries(ctx context.Context, c *fiber.Ctx, q *query) error {
	wanted := q.operations(retryList)
	wanted.Subject, _ = q.one("actor")
	if err := q.err(); err != nil {
		return err
	}
	page, err := scan(ctx, s, true, func() (dlq.PageOf[dlq.SingleRetry], error) { return s.guard.SingleRetries(ctx, wanted) })
	if err != nil {
		return err
	}
	retries := views(page.Entries, s.viewSingleRetry)
	return reply(c, http.StatusOK, singleRetriesView{retries, pagination(retryList, wanted.PageSize, page.Next)})
}

func (s *Server) viewSingleRetry(r *dlq.SingleRetry) singleRetryView {
	end := r.End()
	return singleRetryView{
		OperationID: r.ID, MessageID: r.TargetID, Topic: optional(r.Topic), Actor: r.Subject, Reason: optional(r.Reason),
		TargetTopic: optional(r.TargetTopic()), State: end.State, Error: optional(end.Error),
		StartedAt: timestamp(r.At), EndedAt: optionalTime(&end.EndedAt), Joined: r.Joined,
		Workflow: workflowView{WorkflowID: r.WorkflowID, RunID: r.Run, URL: s.workflowURL(r.WorkflowID, r.Run)},
	}
}
