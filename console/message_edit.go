package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"

	"dlqmanager/client"
)

const (
	// maxEdit is the size of the largest value for a form, in bytes. As base64 it is below the default limit of a request. Larger
	// values are edited as files, with dlqctl.
	maxEdit        = 512 << 10
	maxEditHeaders = 200
	// newHeaders is how many empty lines the form has for new headers.
	newHeaders = 3
)

// editData is the form that edits a message, and the changes that it would make.
type editData struct {
	*client.MessageDetail

	Form editForm

	// Problem says why the message was not sent. Notice says why the changes have to be reviewed again.
	Problem, Notice string
	// TooLarge says why the message cannot be edited here.
	TooLarge string
	// HasCR is set if a form would change the value's line ends.
	HasCR bool
	// CanText tells whether the value can be edited as text, IsSchema whether a schema has decoded it to JSON.
	CanText, IsSchema bool
	// CanJSON tells whether the value can be edited as JSON with indents.
	CanJSON bool
	// Diffs are the changes to review; empty before the review.
	Diffs    []partDiff
	Commands []command
}

// partDiff is the change of a part of a message.
type partDiff struct {
	Name  string
	Lines []diffLine
	IsCut bool
}

// editForm shows the form with the message as it is.
func (v *visit) editForm() (*answer, error) {
	got, err := v.api.GetMessage(v.Context(), v.PathValue("id"), nil)
	if err != nil {
		return nil, err
	}
	m := &got.Value
	d := v.editDataOf(m)
	if len(valueOf(m.MaskedPaths)) > 0 {
		d.TooLarge = v.text("Parts of it are hidden from you.")
	}
	d.Form = newEditForm(m, v.URL.Query().Get("as"))
	return show("edit", v.text("Edit and retry"), d)
}

func (v *visit) editDataOf(m *client.MessageDetail) *editData {
	d := &editData{MessageDetail: m, CanText: true, IsSchema: hasSchema(m)}
	if m.Value != nil {
		d.CanText = isPlain(m.Value.Base64)
		d.CanJSON = d.CanText && isJSON(m.Value.Base64)
		d.HasCR = d.CanText && unixLines(string(m.Value.Base64)) != string(m.Value.Base64)
		if m.Value.Size > maxEdit {
			d.TooLarge = v.text("The value has more than %s, which is too much for a form. Edit it as a file with dlqctl.", v.language.bytes(maxEdit))
		}
	}
	if len(m.Headers) > maxEditHeaders {
		d.TooLarge = v.text("The message has more headers than a form can hold (%d). Use the API.", maxEditHeaders)
	}
	file := shell("dlqctl", "messages", "get", m.ID, "--jq") + ` '.value.base64' | tr -d '"' | base64 -d > value && ` +
		shell("dlqctl", "messages", "retry", m.ID, "--value", "value")
	d.Commands = []command{{"command-file", "dlqctl", file}}
	return d
}

// edit shows the changes of a form, and sends the message after the person has reviewed them. Each refusal shows the form with its text.
func (v *visit) edit() (*answer, error) {
	id := v.PathValue("id")
	var got *client.Answer[client.MessageDetail]
	err := v.identify()
	if err == nil {
		got, err = v.api.GetMessage(v.Context(), id, nil)
	}
	if err != nil {
		return v.editAgain(&editData{MessageDetail: &client.MessageDetail{ID: id}, CanText: true, Form: v.readEditForm()}, err)
	}
	m := &got.Value
	d := v.editDataOf(m)
	d.Form = v.readEditForm()
	request, diffs, err := v.changes(m, &d.Form)
	if err != nil {
		return v.editAgain(d, err)
	}
	if now := seenState(m); now != d.Form.Seen {
		text := v.text("The message has changed since you saw it: it is %s now, retries used: %d of %d. Nothing was done.",
			m.Status, m.RetryCount, m.MaxRetries)
		d.Form.Seen = now // the next attempt acts on the state that this page shows
		if m.ReplacedBy != nil {
			text += " " + v.text("Its edited copy was sent in its place:") + " " + *m.ReplacedBy
		}
		return v.editAgain(d, conflict(text))
	}
	if reason := v.whyNotSent(m); reason != "" {
		return v.editAgain(d, conflict(reason))
	}
	d.Diffs = diffs
	seen := d.Form.Reviewed
	d.Form.Reviewed = fingerprintOf(request)
	if v.PostFormValue("step") != "send" || seen != d.Form.Reviewed {
		if v.PostFormValue("step") == "send" {
			d.Notice = v.text("The text has changed since the review. Look at the changes again, then send them.")
		}
		return show("edit", v.text("Edit and retry"), d)
	}
	sent, err := v.api.RetryMessage(v.Context(), id, &client.RetryMessageParams{Prefer: new("wait=1")}, request)
	if err != nil {
		return v.editAgain(d, err)
	}
	return v.retried(sent)
}

// editAgain shows the form with its text and the reason why it was not sent.
func (v *visit) editAgain(d *editData, err error) (*answer, error) {
	d.Problem, d.Diffs, d.Form.Reviewed = v.explain(err), nil, ""
	status := statusOf(err)
	if errors.Is(err, client.ErrSignIn) {
		status = http.StatusUnauthorized
	}
	if status == http.StatusUnauthorized && v.console.options.SignIn != SignInNone {
		d.Problem = v.text("Your session is over. Sign in on another tab, then send this form again.")
	}
	return &answer{template: "edit", title: v.text("Edit and retry"), data: d, status: status}, nil
}

// changes compares the form with the message. The request has only the changed parts, so all other bytes stay exact.
func (v *visit) changes(m *client.MessageDetail, form *editForm) (*client.RetryRequest, []partDiff, error) {
	request := &client.RetryRequest{Reason: optional(form.Reason), TargetTopic: optional(form.Target)}
	var diffs []partDiff
	if err := v.changedValue(m, form, request, &diffs); err != nil {
		return nil, nil, err
	}
	old := contentOf(m.Key)
	key, err := v.bytesOf(v.text("Key"), form.KeyForm, form.Key, old)
	if err != nil {
		return nil, nil, err
	}
	if !same(old, key) {
		if key == nil {
			request.Key = &client.OrNull[string]{}
		} else {
			request.KeyBase64 = key
		}
		diffs = append(diffs, diffOf(v.text("Key"), readable(old), readable(key)))
	}
	headers, err := v.headersOf(m, form)
	if err != nil {
		return nil, nil, err
	}
	if !sameHeaders(m.Headers, headers) {
		if request.Headers, err = headersRequest(headers); err != nil {
			return nil, nil, err
		}
		diffs = append(diffs, diffOf(v.text("Headers"), readableHeaders(m.Headers), readableHeaders(headers)))
	}
	if len(diffs) == 0 && request.TargetTopic == nil {
		return nil, nil, invalid(v.text("Nothing is changed yet. To send the message as it is, use the button Retry on its page."))
	}
	return request, diffs, nil
}

func (v *visit) changedValue(m *client.MessageDetail, form *editForm, request *client.RetryRequest, diffs *[]partDiff) error {
	old := contentOf(m.Value)
	if form.ValueForm == formSchema {
		if !json.Valid([]byte(form.Value)) {
			return invalid(v.text("%s: this is no JSON. To send it as it is, choose text.", v.text("Value")))
		}
		before := indentJSON(m.Payload)
		if form.Value != before {
			request.Value = json.RawMessage(form.Value)
			*diffs = append(*diffs, diffOf(v.text("Value"), before, form.Value))
		}
		return nil
	}
	value, err := v.bytesOf(v.text("Value"), form.ValueForm, form.Value, old)
	if err != nil || same(old, value) {
		return err
	}
	if value == nil {
		request.Value = json.RawMessage("null")
	} else {
		request.ValueBase64 = value
	}
	before, after := readable(old), readable(value)
	if before == after { // the values differ only in the white space of JSON
		before, after = withMarks(old), withMarks(value)
	}
	*diffs = append(*diffs, diffOf(v.text("Value"), before, after))
	return nil
}

func invalid(text string) error {
	return &client.APIError{Status: http.StatusBadRequest, Message: text}
}

// fingerprintOf returns equal texts for equal contents. So a form can tell whether its content was reviewed, and whether a
// state has changed.
func fingerprintOf(shown any) string {
	content, err := json.Marshal(shown)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(content)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
