package api

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

type operationsView struct {
	Operations []operationView      `json:"operations"`
	Pagination cursorPaginationView `json:"pagination"`
}

// operationView is one row of the audit.
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

// cursorPaginationView describes a page of a list that has cursors only.
type cursorPaginationView struct {
	PageSize   int     `json:"page_size"`
	HasNext    bool    `json:"has_next"`
	NextCursor *string `json:"next_cursor"`
}

func (s *Server) audit(ctx context.Context, c *fiber.Ctx, q *query) error {
	wanted := q.operations(operationCursorVersion)
	if err := q.err(); err != nil {
		return err
	}
	page, err := scan(ctx, s, func() (dlq.OperationPage, error) { return s.options.Database.Operations(ctx, wanted) })
	if err != nil {
		return err
	}
	view := operationsView{
		Operations: make([]operationView, 0, len(page.Operations)),
		Pagination: cursorPaginationView{PageSize: wanted.PageSize, HasNext: page.HasNext},
	}
	for i := range page.Operations {
		view.Operations = append(view.Operations, s.viewOperation(&page.Operations[i]))
	}
	if n := len(page.Operations); page.HasNext && n > 0 {
		next := encodeOperationCursor(operationCursorVersion, page.Operations[n-1].Cursor())
		view.Pagination.NextCursor = &next
	}
	return reply(c, http.StatusOK, view)
}

func (s *Server) viewOperation(o *dlq.Operation) operationView {
	view := operationView{
		ID: o.ID, At: timestamp(o.At), Subject: o.Subject, Method: o.Method, Address: o.Address, Action: o.Action,
		Topic: optionalText(o.Topic), Target: optionalText(string(o.Target)), TargetID: optionalID(o.TargetID),
		Reason: optionalText(o.Reason), RequestID: o.RequestID, Outcome: o.Outcome,
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

// operations reads the parameters of the audit, and of the list of single retries, which has fewer.
func (q *query) operations(cursorVersion byte) dlq.OperationQuery {
	wanted := dlq.OperationQuery{Topic: topicOf(q, "topic"), TargetID: idOf(q, "target_id", "target"),
		Outcome: wordOf(q, "outcome", dlq.OperationOutcomes), PageSize: q.integer("page_size", defaultPageSize, maxPageSize)}
	wanted.From, wanted.To = q.between()
	wanted.Subject, _ = q.one("subject")
	if action, given := q.one("action"); given {
		wanted.Action = dlq.Permission(action)
		if !slices.Contains(dlq.RoleAdmin.Permissions(), wanted.Action) {
			q.reject("action", "is not a permission, such as %s", dlq.PermMessageRetry)
		}
	}
	if cursor, given := q.one("cursor"); given {
		position, err := decodeOperationCursor(cursorVersion, cursor)
		if err != nil {
			q.reject("cursor", "%s", err.Error())
		}
		wanted.After = &position
	}
	return wanted
}

// operationsOf returns the operations that asked for the retries of messages, by the tokens
// of their owners.
func (s *Server) operationsOf(ctx context.Context, hops ...dlq.Hop) (map[string]dlq.ID, error) {
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
	if len(tokens) == 0 || s.options.Database == nil {
		return map[string]dlq.ID{}, nil
	}
	return s.options.Database.OperationsOf(ctx, messages, tokens)
}

// operationCursorVersion differs from cursorVersion, so that no list accepts the cursor of the
// other.
const (
	operationCursorVersion = 3
	jobCursorVersion       = 5
	retryCursorVersion     = 6
	operationCursorSize    = 25 // version, microseconds since 1970, id
)

func encodeOperationCursor(version byte, position dlq.OperationCursor) string {
	b := make([]byte, 1, operationCursorSize)
	b[0] = version
	b = binary.BigEndian.AppendUint64(b, uint64(position.At.UnixMicro()))
	return cursorEncoding.EncodeToString(append(b, position.ID[:]...))
}

func decodeOperationCursor(version byte, cursor string) (position dlq.OperationCursor, err error) {
	b, err := cursorEncoding.DecodeString(cursor) // which ignores line breaks
	if err != nil || len(b) != operationCursorSize || len(cursor) != cursorEncoding.EncodedLen(operationCursorSize) || b[0] != version {
		return dlq.OperationCursor{}, errCursor
	}
	position.At = time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:]))).UTC()
	copy(position.ID[:], b[9:])
	return position, nil
}
