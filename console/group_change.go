package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"dlqmanager/client"
)

// changeGroup makes the change of a form, unless somebody else has decided about the cause since the page was made.
func (v *visit) changeGroup() (*answer, error) {
	id, path := v.PathValue("id"), "/groups/"+url.PathEscape(v.PathValue("id"))
	before, err := v.api.GetGroup(v.Context(), id, nil)
	if err != nil {
		return nil, err
	}
	if v.PostFormValue("seen") != seenOf(before.Value) {
		return v.groupAgain(v.changedMeanwhile(before.Value), http.StatusConflict)
	}
	if v.PostFormValue("do") == "fix" {
		return v.fixGroup(id, path)
	}
	change, text, err := v.groupChange(before.Value)
	if err == nil && change != nil {
		_, err = v.api.ChangeGroup(v.Context(), id, *change)
	}
	if err != nil {
		return v.groupRefused(err)
	}
	return v.done(path, text)
}

// groupChange reads a form. change is nil if no field was changed.
func (v *visit) groupChange(before client.Group) (change *client.GroupChange, text string, err error) {
	change = &client.GroupChange{Reason: v.field("reason")}
	switch v.PostFormValue("do") {
	case "hold":
		if change.Until, err = v.holdConditions(time.Now()); err != nil {
			return nil, "", err
		}
		change.State = new(client.GroupChangeState("held"))
		if owner := v.field("owner"); owner != nil && *owner != valueOf(before.Owner) {
			change.Owner = owner
		}
		return change, v.text("The cause is held: its alerts are quiet. It opens by itself when a condition is met."), nil
	case "open":
		change.State = new(client.GroupChangeState("open"))
		return change, v.text("The cause is open again: alerts tell of it."), nil
	case "notes":
		change.Owner, change.Ticket, change.Note = v.replaced("owner", before.Owner), v.replaced("ticket", before.Ticket), v.replaced("note", before.Note)
		if change.Owner == nil && change.Ticket == nil && change.Note == nil {
			return nil, v.text("Nothing was different, so nothing was changed."), nil
		}
		return change, v.text("Saved."), nil
	default:
		return nil, "", invalid(v.text("The form does not say what to do."))
	}
}

// replaced returns the new value of a field, and nil if the value is unchanged. An empty value removes the former value.
func (v *visit) replaced(name string, before *string) *string {
	now := strings.TrimSpace(valueOf(v.field(name)))
	if now == strings.TrimSpace(valueOf(before)) {
		return nil
	}
	return &now
}

// holdConditions reads when a hold ends.
func (v *visit) holdConditions(now time.Time) (*client.GroupChange_Until, error) {
	until := &client.GroupChange_Until{}
	if text := v.field("at"); text != nil {
		at, err := time.Parse("2006-01-02T15:04", (*text)[:min(len(*text), 16)])
		if err != nil {
			return nil, invalid(v.text("This is no time: %s", short(40, *text)))
		}
		until.At = &at
	} else if text := v.field("for"); text != nil {
		after, err := time.ParseDuration(*text)
		if err != nil {
			return nil, invalid(v.text("This is no time: %s", short(40, *text)))
		}
		at := now.Add(after).UTC().Truncate(time.Second)
		until.At = &at
	}
	for name, to := range map[string]**int64{"count": &until.Count, "rate": &until.Rate} {
		text := v.field(name)
		if text == nil {
			continue
		}
		number, err := strconv.ParseInt(strings.TrimSpace(*text), 10, 64)
		if err != nil || number < 1 {
			return nil, invalid(v.text("This is no number above 0: %s", short(40, *text)))
		}
		*to = &number
	}
	if until.At == nil && until.Count == nil && until.Rate == nil {
		return nil, invalid(v.text("A hold needs an end: a time, a number of messages, or both. Otherwise nobody would hear of the cause again."))
	}
	return until, nil
}

// marksShown limits how many marked topics, and how many unmarked topics, the notice about a fix names.
const marksShown = 5

func (v *visit) fixGroup(id, path string) (*answer, error) {
	request := &client.GroupFixRequest{Reason: v.field("reason"), Ticket: v.field("ticket")}
	answer, err := v.api.FixGroup(v.Context(), id, request)
	if err != nil {
		return v.groupRefused(err)
	}
	marks, unmarked := answer.Value.Marks, answer.Value.Unmarked
	says := []string{v.text("Marked as fixed. A record that is written from now on and fails in the same way opens the cause again.")}
	more := func(count int) {
		if count > marksShown {
			says = append(says, v.text("And more topics: %d.", count-marksShown))
		}
	}
	for _, mark := range marks[:min(len(marks), marksShown)] {
		says = append(says, v.text("The ends of %d partitions of %s are noted.", mark.Partitions, mark.Topic))
	}
	more(len(marks))
	for _, topic := range unmarked[:min(len(unmarked), marksShown)] {
		says = append(says, v.text("No end of %s could be noted (%s), so the time of writing decides there.", topic.Topic, short(200, topic.Reason)))
	}
	more(len(unmarked))
	return v.done(path, strings.Join(says, " "))
}

// groupRefused shows the page with the refused form and the reason.
func (v *visit) groupRefused(err error) (*answer, error) {
	var refused *client.APIError
	if !errors.As(err, &refused) || refused.Status == http.StatusUnauthorized {
		return nil, err
	}
	return v.groupAgain(v.explain(err), refused.Status)
}

func (v *visit) groupAgain(problem string, status int) (*answer, error) {
	page, err := v.groupPage(v.PostForm)
	if err != nil {
		return nil, err
	}
	v.flash = &flash{Kind: "refused", Text: problem}
	page.status = status
	return page, nil
}

// changedMeanwhile says who else has decided about the cause, and what, as far as that is known.
func (v *visit) changedMeanwhile(now client.Group) string {
	parts := []string{v.text("Nothing was changed: the cause has changed since you opened the page.")}
	if reason := v.reasonOfState(now.StateReason); reason != "" {
		parts = append(parts, reason)
	} else if history, _ := v.historyOf(v.Context(), now); len(history) > 0 {
		last := history[0]
		parts = append(parts, v.text("%s at %s UTC: %s.", last.By, last.At.UTC().Format("15:04:05"), strings.Join(last.What, ", ")))
	}
	parts = append(parts, v.text("This page is new now: send the form again if you still want to."))
	return strings.Join(parts, " ")
}
