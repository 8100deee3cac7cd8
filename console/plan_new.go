package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"dlqmanager/client"
)

// planNewPage is the form of a plan.
type planNewPage struct {
	*planForm

	// Selection says in words which messages are selected. List is their page.
	Selection []string
	List      string
	// Problem explains the refusal of a plan. Problems explain single fields, by the names of the API.
	Problem  string
	Problems map[string]string
	// Refused is set if no plan can be made from this address.
	Refused bool
	// MayStart tells whether the user may start such a job. The plan alone needs fewer rights.
	MayStart bool
}

// newPlan shows the form of a plan for the selection in the address.
func (v *visit) newPlan() (*answer, error) {
	form, problem := v.planFormOf(v.URL.Query())
	page := v.planPage(form)
	page.Problem, page.Refused = problem, problem != ""
	if form.Topic == "" {
		page.Problem, page.Refused = v.text("Choose the messages first, on the page of a topic or of a cause."), true
	}
	a, err := show("plan_new", v.word("plan", form.Kind), page)
	if page.Refused {
		a.status = http.StatusBadRequest
	}
	return a, err
}

func (v *visit) planPage(form planForm) planNewPage {
	return planNewPage{
		planForm: &form, Selection: v.selection(form.Selected), List: listOf(form.Selected, form.Kind, form.Topic),
		Problems: map[string]string{}, MayStart: v.mayStart(form.Kind),
	}
}

// createPlan makes the plan and leads to its page. It sends and changes no messages.
func (v *visit) createPlan() (*answer, error) {
	if err := v.ParseForm(); err != nil {
		return nil, err
	}
	form, problem := v.planFormOf(v.PostForm)
	if err := v.identify(); err != nil {
		// The sign-in leads back to the form with the entered fields.
		if next := form.path(); isStatus(err, http.StatusUnauthorized) && len(next) <= longestMemory {
			return goTo("/sign-in?" + url.Values{"next": {next}}.Encode())
		}
		return nil, err
	}
	page := v.planPage(form)
	again := func(status int) (*answer, error) {
		return &answer{template: "plan_new", title: v.word("plan", form.Kind), data: page, status: status}, nil
	}
	if problem != "" {
		page.Problem, page.Refused = problem, true
		return again(http.StatusBadRequest)
	}
	if form.IsWhole() && !form.Whole {
		page.Problem = v.text("Mark that you mean every message of the topic.")
		return again(http.StatusBadRequest)
	}
	request, err := form.request()
	if err != nil {
		return nil, err
	}
	made, err := v.api.CreatePlan(v.Context(), request)
	var refused *client.APIError
	if errors.As(err, &refused) && refused.Status != http.StatusUnauthorized {
		page.Problem = refused.Message
		var others []string
		for _, detail := range refused.Details {
			if slices.Contains(planFields, detail.Field) {
				page.Problems[detail.Field] = detail.Message
			} else {
				others = append(others, detail.Field+": "+detail.Message)
			}
		}
		if len(others) > 0 {
			page.Problem += " (" + strings.Join(others, "; ") + ")"
		}
		return again(refused.Status)
	}
	if err != nil {
		return nil, err
	}
	plan, err := readAs[client.RetryPlan](made.Value)
	if err != nil {
		return nil, err
	}
	return goTo("/plans/" + plan.ID + form.memory())
}

// planFields are the fields of the API whose problems the form shows beside them.
var planFields = []string{"target_topic", "order", "rate_limit", "ramp", "ramp.steps", "ramp.wait", "ramp.max_came_back", "ramp.confirm",
	"include_suspicious", "reason"}

// longestMemory bounds an address, since browsers and proxies refuse long addresses.
const longestMemory = 1800

// memory writes the form for the address of its plan, so that an expired plan can be made again. It is empty for a long form.
func (f *planForm) memory() string {
	if text := f.values().Encode(); len(text) <= longestMemory {
		return "?" + text
	}
	return ""
}

// selection says in words which messages are selected.
func (v *visit) selection(selected url.Values) []string {
	words := make([]string, 0, len(selected))
	for _, name := range filterNames(selected) {
		for _, value := range selected[name] {
			words = append(words, filter{name, value}.words(v.language))
		}
	}
	return words
}

// mayStart tells whether the user may start a job of a kind, at least on some topics. A job needs the right to jobs, and the
// right to the same action on a single message.
func (v *visit) mayStart(kind string) bool {
	return v.may(http.MethodPost, "/api/v1/jobs") && v.mayChange(kind)
}
