package console

import (
	"context"
	"encoding/json"
	"time"

	"dlqmanager/client"
)

// decision is an operation of the audit on a cause.
type decision struct {
	At time.Time
	By string
	// State is the state that the operation has set; empty if it has set no state.
	State string
	// What are sentences about the change. Reason is the note of the person who made it.
	What   []string
	Reason string
}

// historyOf reads the newest decisions about a cause. missing says why they could not be read.
func (v *visit) historyOf(ctx context.Context, g client.Group) (decisions []decision, missing string) {
	if !v.may("GET", "/api/v1/audit") {
		return nil, v.text("You may not read the audit, so who has decided what is not shown.")
	}
	params := client.ListOperationsParams{TargetID: &g.ID, Outcome: new(client.OperationOutcomeDone), PageSize: new(int64(20))}
	answer, err := v.api.ListOperations(ctx, &params)
	if err != nil {
		return nil, v.explain(err)
	}
	for _, operation := range answer.Value.Operations {
		decisions = append(decisions, v.decisionOf(operation))
	}
	return decisions, ""
}

func (v *visit) decisionOf(operation client.Operation) decision {
	d := decision{At: operation.At, By: operation.Subject, Reason: valueOf(operation.Reason)}
	var detail struct {
		State  string  `json:"state"`
		Owner  *string `json:"owner"`
		Ticket *string `json:"ticket"`
		Note   *string `json:"note"`
	}
	if err := json.Unmarshal(operation.Detail, &detail); err != nil {
		return d // another version of the server writes other details
	}
	d.State = detail.State
	if d.State != "" {
		d.What = append(d.What, v.word("decision", d.State))
	}
	changes := []struct {
		value        *string
		set, removed string
	}{
		{detail.Owner, v.text("Owner: %s", short(200, valueOf(detail.Owner))), v.text("Owner removed")},
		{detail.Ticket, v.text("Ticket: %s", short(200, valueOf(detail.Ticket))), v.text("Ticket removed")},
		{detail.Note, v.text("Note: %s", short(200, valueOf(detail.Note))), v.text("Note removed")},
	}
	for _, change := range changes {
		switch {
		case change.value == nil:
		case *change.value == "":
			d.What = append(d.What, change.removed)
		default:
			d.What = append(d.What, change.set)
		}
	}
	return d
}

// topicsOfJobs bounds the topics of a cause whose jobs are read, and jobsOfTopic bounds the jobs for each of the two
// names of a topic.
const (
	topicsOfJobs = 5
	jobsOfTopic  = 50
)

// jobsOf reads the newest jobs of the topics of a cause. jobs are the jobs whose filters name the cause. other is the number
// of all other jobs, which may have sent messages of the cause too. The API cannot filter jobs by cause.
func (v *visit) jobsOf(ctx context.Context, g client.Group) (jobs []job, other int, missing string) {
	seen := map[string]bool{}
	for _, topic := range g.Topics[:min(len(g.Topics), topicsOfJobs)] {
		for _, name := range []string{topic.DlqTopic, topic.OriginalTopic} {
			if name == "" || seen[name] {
				continue
			}
			seen[name] = true
			answer, err := v.api.ListJobs(ctx, &client.ListJobsParams{Topic: &name, PageSize: new(int64(jobsOfTopic))})
			if err != nil {
				return nil, 0, v.explain(err)
			}
			for _, answered := range answer.Value.Jobs {
				one, err := readAs[job](answered)
				if err != nil {
					return nil, 0, v.explain(err)
				}
				if valueOf(one.Filters.Group) == g.ID {
					jobs = append(jobs, one)
				} else {
					other++
				}
			}
		}
	}
	return jobs, other, ""
}
