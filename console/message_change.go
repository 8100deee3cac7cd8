package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"dlqmanager/client"
)

// seenState names the state of a message in a form. The form acts on this state only.
func seenState(m *client.MessageDetail) string {
	return fmt.Sprintf("%s %d %s", m.Status, m.RetryCount, m.UpdatedAt.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// describeActions says which buttons are off, and why.
func (v *visit) describeActions(d *messageData) {
	m := d.MessageDetail
	broken, busy, hidden := "", "", ""
	d.CanJoin = m.Status == client.StatusRETRYING && v.mayChange("retry")
	if m.HeadersError != nil {
		broken = v.text("Its headers cannot be read, so it cannot be sent.")
	}
	if m.Status == client.StatusRETRYING {
		busy = v.text("A retry is under way.")
	}
	if len(valueOf(m.MaskedPaths)) > 0 {
		hidden = v.text("Parts of it are hidden from you.")
	}
	d.CannotRetry = cmp.Or(v.whyNotAllowed("retry"), broken, busy, v.whyNotSent(m))
	d.CannotEdit = cmp.Or(d.CannotRetry, hidden)
	d.CannotDie = v.whyNotAllowed("dead")
	if m.Status == client.StatusRESOLVED || m.Status == client.StatusDEAD {
		d.CannotDie = cmp.Or(d.CannotDie, v.text("It has ended already."))
	}
	d.CannotRevive = v.whyNotAllowed("revive")
	if m.Status != client.StatusDEAD {
		d.CannotRevive = cmp.Or(d.CannotRevive, v.text("Only a DEAD message can be revived."))
	}
	d.CannotDelete = cmp.Or(v.whyNotAllowed("delete"), busy)
}

// mayChange tells whether the user may do an action with a single message, at least on some topics.
func (v *visit) mayChange(action string) bool {
	switch action {
	case "delete":
		return v.may(http.MethodDelete, "/api/v1/dlq/messages/:id")
	case "restore":
		return v.may(http.MethodPost, "/api/v1/archive/messages/:id/restore")
	default:
		return v.may(http.MethodPost, "/api/v1/dlq/messages/:id/"+action)
	}
}

func (v *visit) whyNotAllowed(action string) string {
	if v.mayChange(action) {
		return ""
	}
	return v.text("You may not do this. An administrator of the manager can give you %s.", "dlq:message:"+action)
}

func (v *visit) whyNotSent(m *client.MessageDetail) string {
	switch {
	case m.ReplacedBy != nil:
		return v.text("An edited copy was sent in its place. Retry that one.")
	case m.Status == client.StatusRESOLVED:
		return v.text("It has ended already.")
	case m.Status == client.StatusDEAD:
		return v.text("It is DEAD. Revive it first.")
	case m.RetryCount >= m.MaxRetries:
		return v.text("All its retries are used up.")
	default:
		return ""
	}
}

// unchanged refuses to act on a message that has changed since the form was shown. So a second click, the back button or a
// colleague's click does not repeat an action.
func (v *visit) unchanged(id string) (*client.MessageDetail, error) {
	got, err := v.api.GetMessage(v.Context(), id, nil)
	if err != nil {
		return nil, err
	}
	m := &got.Value
	if now := seenState(m); now != v.PostFormValue("seen") {
		return m, conflict(v.text("The message has changed since you saw it: it is %s now, retries used: %d of %d. Nothing was done.",
			m.Status, m.RetryCount, m.MaxRetries))
	}
	return m, nil
}

func (v *visit) retryMessage() (*answer, error) {
	id := v.PathValue("id")
	if _, err := v.unchanged(id); err != nil {
		return v.refused(messagePath(id), err)
	}
	return v.sendMessage(id, client.RetryRequest{Reason: v.field("reason"), TargetTopic: v.field("target_topic")})
}

// sendMessage starts a retry and waits up to a second, so that the next page shows the outcome of most retries.
func (v *visit) sendMessage(id string, request client.RetryRequest) (*answer, error) {
	got, err := v.api.RetryMessage(v.Context(), id, &client.RetryMessageParams{Prefer: new("wait=1")}, &request)
	if err != nil {
		return v.refused(messagePath(id), err)
	}
	return v.retried(got)
}

// retried leads to the page of the message that was sent. An edited message is sent as a copy with its own page.
func (v *visit) retried(got *client.Answer[client.Retry]) (*answer, error) {
	retry := got.Value
	path := messagePath(retry.ID)
	switch {
	case got.Status == http.StatusAccepted:
		return v.done(path, v.text("The message is being sent. This page shows what becomes of it."))
	case retry.Error != nil:
		return v.refusedAs(path, v.text("The message was not delivered: %s", *retry.Error))
	case retry.Published != nil && !*retry.Published:
		return v.done(path, retry.Message)
	default:
		return v.done(path, v.text("The message was delivered. Below is whether the consumer got past it."))
	}
}

func (v *visit) markDead() (*answer, error) {
	id := v.PathValue("id")
	_, err := v.unchanged(id)
	if err == nil {
		_, err = v.api.MarkMessageDead(v.Context(), id, &client.ReasonRequest{Reason: v.field("reason")})
	}
	return v.changed(messagePath(id), v.text("The message is DEAD. It is not sent again unless somebody revives it."), err)
}

func (v *visit) reviveMessage() (*answer, error) {
	id := v.PathValue("id")
	_, err := v.unchanged(id)
	if err == nil {
		_, err = v.api.ReviveMessage(v.Context(), id, &client.ReasonRequest{Reason: v.field("reason")})
	}
	return v.changed(messagePath(id), v.text("The message is PENDING again, with no retry used."), err)
}

// reveal shows the hidden parts to this user for ten minutes.
func (v *visit) reveal() (*answer, error) {
	_, err := v.api.UnmaskMessage(v.Context(), v.PathValue("id"), client.UnmaskRequest{Reason: valueOf(v.field("reason"))})
	return v.changed(v.messageHere(), v.text("You see the whole message for ten minutes. The audit has your reason."), err)
}

func (v *visit) deleteMessage() (*answer, error) {
	id := v.PathValue("id")
	m, err := v.unchanged(id)
	if err == nil {
		_, err = v.api.DeleteMessage(v.Context(), id, &client.DeleteMessageParams{Reason: v.field("reason")})
	}
	if err != nil {
		return v.refused(messagePath(id), err)
	}
	return v.done("/topics/"+url.PathEscape(m.DlqTopic), v.text("The message %s was deleted.", id))
}
