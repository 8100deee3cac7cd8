package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"dlqmanager/client"
)

// planPage is a plan before its job is started.
type planPage struct {
	client.RetryPlan

	// Title says what the job would do.
	Title     string
	Selection []string
	// Again is the form that makes this plan again. List is the page of the selected messages.
	Again, List string
	Bar         bar
	ByStatus    []client.PlanCounts_Item
	Ramp        []string
	// Takes says how long the job would take; empty if unknown.
	Takes string
	// Button is the text of the button. It names the number of messages and the target. Question stands before it.
	Button, Question string
	MayStart         bool
	// Problem says why the start was refused. Differences are changes since the plan was made; Busy is the id of a conflicting job.
	Problem     string
	Differences []client.ErrorDetail
	Busy        string
	// Expired is set if the plan has expired. Then the API knows nothing else about the plan.
	Expired bool
	// Reason and Typed are the fields of the form.
	Reason, Typed string
}

// plan shows the plan of a job.
func (v *visit) plan() (*answer, error) {
	page, err := v.readPlan()
	if err != nil {
		return nil, err
	}
	return v.showPlan(page, http.StatusOK)
}

func (v *visit) showPlan(page *planPage, status int) (*answer, error) {
	return &answer{template: "plan", title: page.Title, data: page, status: status}, nil
}

// readPlan reads the plan of the address.
func (v *visit) readPlan() (*planPage, error) {
	answer, err := v.api.GetPlan(v.Context(), v.PathValue("id"), nil)
	if isCode(err, client.ErrorCodePlanExpired) {
		return v.expiredPlan(v.explain(err)), nil
	}
	if err != nil {
		return nil, err
	}
	plan, err := readAs[client.RetryPlan](answer.Value) // a RetryPlan has all fields of the other kinds
	if err != nil {
		return nil, err
	}
	return v.planPageOf(plan), nil
}

func (v *visit) planPageOf(plan client.RetryPlan) *planPage {
	kind, form := string(plan.Kind), formOfPlan(plan)
	p := &planPage{
		RetryPlan: plan, Title: v.word("plan", kind), Selection: v.selection(form.Selected), Again: form.path(), List: listOf(form.Selected, kind, plan.Topic),
		Button: v.planButton(plan), Question: v.word("question", kind), MayStart: v.mayStart(kind), Takes: v.takes(plan), Ramp: v.rampWords(plan.Ramp),
		Reason: valueOf(plan.RequestReason),
	}
	p.ByStatus = []client.PlanCounts_Item{
		{Name: "PENDING", Count: plan.ByStatus.PENDING}, {Name: "RETRYING", Count: plan.ByStatus.RETRYING},
		{Name: "DEAD", Count: plan.ByStatus.DEAD}, {Name: "RESOLVED", Count: plan.ByStatus.RESOLVED},
	}
	for i := range p.SkipReasons {
		p.SkipReasons[i].Name = v.word("skipped", p.SkipReasons[i].Name)
	}
	p.Bar = v.language.barOf(plan.Matched+plan.Skipped,
		barPart{Class: "c1", Name: v.wouldGo(kind), Count: plan.Matched}, barPart{Class: "c0", Name: v.text("left out"), Count: plan.Skipped})
	return p
}

// Typing tells whether the topic must be typed before the job is started. Only a delete cannot be undone.
func (p *planPage) Typing() bool { return p.Kind == "delete" }

// formOfPlan is the form that makes the same plan again.
func formOfPlan(plan client.RetryPlan) *planForm {
	f := &planForm{
		Kind: string(plan.Kind), Topic: plan.Topic, Selected: filtersFrom(plan.Filters), Reason: valueOf(plan.RequestReason), Target: valueOf(plan.TargetTopic),
		Ramp: rampNone, Steps: firstSteps, Wait: firstWait, CameBack: firstCameBack, Suspicious: plan.IncludeSuspicious != nil && *plan.IncludeSuspicious,
	}
	f.Whole = f.IsWhole()
	if f.Kind != "retry" {
		f.Ramp = rampSteps
		return f
	}
	if plan.Order == "none" {
		f.Order = "none"
	}
	if plan.RateLimit > 0 {
		f.Rate = strconv.FormatInt(plan.RateLimit, 10)
	}
	if ramp := plan.Ramp; ramp != nil {
		steps := make([]string, 0, len(ramp.Steps))
		for _, step := range ramp.Steps {
			steps = append(steps, strconv.FormatInt(step, 10))
		}
		f.Ramp, f.Steps, f.Wait = rampSteps, strings.Join(steps, ", "), valueOf(ramp.Wait)
		if ramp.MaxCameBack != nil {
			f.CameBack = strconv.FormatFloat(*ramp.MaxCameBack*100, 'g', 6, 64)
		}
		f.Confirm = ramp.Confirm != nil
	}
	return f
}

// expiredPlan is the page of a plan that the API no longer has. The form of the plan is in the address of its page, or in a
// field of the posted form.
func (v *visit) expiredPlan(problem string) *planPage {
	p := &planPage{Expired: true, Problem: problem, Title: v.text("This plan has expired")}
	if form, bad := v.planFormOf(v.URL.Query()); bad == "" && form.Topic != "" {
		p.Again, p.Selection, p.Topic = form.path(), v.selection(form.Selected), form.Topic
	}
	if again := v.PostFormValue("again"); strings.HasPrefix(ownPath(again, ""), "/plans/new?") {
		p.Again = again
	}
	return p
}

// startPlan starts the job of a plan. The job has the id of the plan, so a second click, tab or operator finds the same job.
func (v *visit) startPlan() (*answer, error) {
	page, err := v.readPlan()
	if err != nil {
		return nil, err
	}
	path := "/jobs/" + url.PathEscape(v.PathValue("id"))
	if page.Expired {
		return v.showPlan(page, http.StatusConflict)
	}
	page.Reason, page.Typed = valueOf(v.field("reason")), v.PostFormValue("typed")
	if page.JobID == nil && page.Typing() && strings.TrimSpace(page.Typed) != page.Topic {
		page.Problem = v.text("Nothing was deleted: type the name of the topic, %s, to confirm.", page.Topic)
		return v.showPlan(page, http.StatusBadRequest)
	}
	var start client.JobStart
	if err := start.FromPlanStart(client.PlanStart{Plan: page.ID, Reason: v.field("reason")}); err != nil {
		return nil, err
	}
	if _, err = v.api.CreateJob(v.Context(), &client.CreateJobParams{Prefer: new("respond-async")}, start); err == nil {
		if page.JobID != nil { // the request has only made sure that the job's workflow was started
			return v.done(path, v.text("The job of this plan was started before. Nothing was started twice."))
		}
		return v.done(path, v.text("The job runs. It goes on when you close this page."))
	}
	var refused *client.APIError
	if !errors.As(err, &refused) || refused.Status == http.StatusUnauthorized {
		return nil, err
	}
	if isCode(err, client.ErrorCodePlanExpired) {
		return v.showPlan(v.expiredPlan(v.explain(err)), http.StatusConflict)
	}
	page.Problem = refused.Message
	for _, detail := range refused.Details {
		if detail.Field == "job_id" {
			page.Busy = detail.Message
		} else {
			page.Differences = append(page.Differences, detail)
		}
	}
	return v.showPlan(page, refused.Status)
}

func isCode(err error, code client.ErrorCode) bool { return err != nil && client.CodeOf(err) == code }

// Changed tells whether the messages differ from the plan. Then only a new plan can be started.
func (p *planPage) Changed() bool { return len(p.Differences) > 0 }

// CanStart tells whether the button is on.
func (p *planPage) CanStart() bool { return p.Matched > 0 && p.MayStart && !p.Changed() }
