package api

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// encode writes v as a line of JSON. It does not escape HTML characters: answers are not embedded
// in pages, and operators read error messages.
func encode(out io.Writer, v any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// reply writes v as JSON.
func reply(c *fiber.Ctx, status int, v any) error {
	var body bytes.Buffer
	if err := encode(&body, v); err != nil {
		return err
	}
	c.Status(status).Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	c.Response().SetBodyRaw(bytes.TrimSuffix(body.Bytes(), []byte("\n")))
	settle(c, body.Len())
	return nil
}

// timestamp is a time in the documented form: UTC with milliseconds and a numeric
// offset.
type timestamp time.Time

// RFC 3339 has years of four digits. Rows that were written by hand may hold other years or infinity. Such times are shown as
// firstTime or lastTime.
var (
	firstTime = time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, time.December, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC)
)

func (t timestamp) MarshalText() ([]byte, error) {
	at := time.Time(t).UTC()
	switch {
	case at.Before(firstTime):
		at = firstTime
	case at.After(lastTime):
		at = lastTime
	}
	return at.AppendFormat(nil, "2006-01-02T15:04:05.000-07:00"), nil
}

// optionalTime is null for nil and for the zero time.
func optionalTime(t *time.Time) *timestamp {
	if t == nil || t.IsZero() {
		return nil
	}
	ts := timestamp(*t)
	return &ts
}

// optional is null for the zero value, such as an empty string.
func optional[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// views converts a list for an answer. The result is never nil, so JSON has [] and not null.
func views[T, V any](list []T, view func(*T) V) []V {
	shown := make([]V, len(list))
	for i := range list {
		shown[i] = view(&list[i])
	}
	return shown
}

// messageFields are the fields of a message in their documented order.
type messageFields struct {
	ID            dlq.ID          `json:"id"`
	OriginalTopic string          `json:"original_topic"`
	ErrorMessage  string          `json:"error_message"`
	RetryCount    int             `json:"retry_count"`
	MaxRetries    int             `json:"max_retries"`
	Payload       json.RawMessage `json:"payload"`
	Status        dlq.Status      `json:"status"`
	CreatedAt     timestamp       `json:"created_at"`
	UpdatedAt     timestamp       `json:"updated_at"`
	LastRetryAt   *timestamp      `json:"last_retry_at"`
	// PayloadOmitted and PayloadSize are absent unless a list leaves out the payload.
	PayloadOmitted bool `json:"payload_omitted,omitempty"`
	PayloadSize    int  `json:"payload_size,omitempty"`
	// Masked and MaskedPaths are absent unless parts are hidden.
	Masked      bool     `json:"masked,omitempty"`
	MaskedPaths []string `json:"masked_paths,omitempty"`
}

func fieldsOf(m *dlq.Message) messageFields {
	fields := messageFields{
		ID: m.ID, OriginalTopic: m.OriginalTopic, ErrorMessage: m.ErrorMessage,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Status: m.Status,
		CreatedAt: timestamp(m.CreatedAt), UpdatedAt: timestamp(m.UpdatedAt), LastRetryAt: optionalTime(m.LastRetryAt),
	}
	fields.PayloadOmitted, fields.PayloadSize = m.OmittedPayload > 0, m.OmittedPayload
	fields.Masked, fields.MaskedPaths = m.Masked != nil, m.Masked
	if len(m.Payload) > 0 { // encoding an empty RawMessage fails
		fields.Payload = m.Payload
	}
	return fields
}

// bytesView shows arbitrary bytes. A null in Kafka is null in JSON. It differs from an empty value, {"base64":"","size":0}.
type bytesView struct {
	Base64 []byte `json:"base64"`
	Size   int    `json:"size"`
}

func viewBytes(b []byte) *bytesView {
	if b == nil {
		return nil
	}
	return &bytesView{Base64: b, Size: len(b)}
}

// workflowView names a workflow and links to it if the Web UI's address is configured.
type workflowView struct {
	WorkflowID string `json:"workflow_id"`
	// RunID is set for a single retry, and JobID for a job. The workflow id of a job has only one run.
	RunID string  `json:"run_id,omitempty"`
	JobID *dlq.ID `json:"job_id,omitempty"`
	URL   string  `json:"url,omitempty"`
}

func (s *Server) viewWorkflow(owner dlq.Owner) *workflowView {
	if owner.IsZero() {
		return nil
	}
	if id, err := dlq.ParseID(owner.Token); err == nil && workflows.IsJob(owner) {
		return &workflowView{WorkflowID: owner.WorkflowID, JobID: &id, URL: s.workflowURL(owner.WorkflowID, "")}
	}
	return &workflowView{WorkflowID: owner.WorkflowID, RunID: owner.Token, URL: s.workflowURL(owner.WorkflowID, owner.Token)}
}

// workflowURL is the address of a run in the Temporal Web UI. Without a run, it is the address of the workflow. It is empty if
// the Web UI's address is not configured.
func (s *Server) workflowURL(workflowID, runID string) string {
	if s.options.TemporalUI == "" {
		return ""
	}
	address := strings.TrimSuffix(s.options.TemporalUI, "/") + "/namespaces/" + url.PathEscape(s.options.TemporalNamespace) +
		"/workflows/" + url.PathEscape(workflowID)
	if runID != "" {
		address += "/" + url.PathEscape(runID) + "/history"
	}
	return address
}
