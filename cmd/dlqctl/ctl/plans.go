package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"dlqmanager/client"
)

// kinds are the kinds of jobs.
var kinds = []string{"retry", "revive", "dead", "delete", "restore"}

// planFlags are the flags of a plan: its filters, the fields of its job, and the fields of the ramp.
type planFlags struct {
	filters, job, ramp *pflag.FlagSet
	reason             *string
}

func (s *session) planFlags(cmd *cobra.Command, retry bool) planFlags {
	f := planFlags{filters: s.addFilters(cmd), job: newFlags(), ramp: newFlags()}
	f.reason = reasonFlag(f.job)
	if !retry {
		cmd.Flags().AddFlagSet(f.job)
		return f
	}
	f.job.Int64("rate", 0, "messages a second at most; 0 for no limit")
	f.job.String("target-topic", "", "topic to send to instead of the original one")
	f.job.String("order", "", "key keeps the order of each key (default), none is faster")
	f.job.Bool("include-suspicious", false, "send also the messages whose headers are suspicious")
	f.ramp.Int64Slice("ramp", nil, "begin with so many messages, then wait and look whether they came back, such as 1,10,100")
	f.ramp.String("ramp-wait", "", "how long a step of the ramp waits, such as 30s")
	f.ramp.String("ramp-confirm", "", "verified: a step of the ramp also waits until consumers got past its messages")
	f.ramp.Float64("max-came-back", 0, "share of messages that may come back before the ramp pauses the job, such as 0.05")
	cmd.Flags().AddFlagSet(f.job)
	cmd.Flags().AddFlagSet(f.ramp)
	s.complete(cmd, "order", fixed("key", "none"))
	s.complete(cmd, "ramp-confirm", fixed("verified"))
	s.complete(cmd, "target-topic", completeTopics)
	return f
}

// request makes the body of a plan.
func (f planFlags) request(kind, topic string) (request client.JobRequest, err error) {
	parameters, err := parametersOf(f.filters, f.job, f.ramp)
	if err != nil {
		return request, err
	}
	body := client.PlanBody(parameters)
	if body["ramp"] != nil && !parameters.Has("ramp.steps") {
		return request, usageError{errors.New("--ramp-wait, --ramp-confirm and --max-came-back need --ramp, such as --ramp 1,10,100")}
	}
	body["kind"], body["topic"] = kind, topic
	return as[client.JobRequest](body)
}

func (s *session) planCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan KIND TOPIC", Short: "Show which messages a job would take, and change nothing", Args: argumentsOf("plan KIND TOPIC"),
		Long: `Makes a plan: the server counts the messages that match and freezes the choice. "dlqctl apply PLAN" starts the job.
Messages that arrive later are not in the plan. If a message of the plan was sent, changed or deleted, the plan is refused.

KIND is retry, revive, dead, delete or restore. Without filters the plan takes the whole topic.`,
		Example: `  dlqctl plan retry orders.dlq.v1 --group 8f2cc0a3-5784-8865-a08b-a01afce8da16 --ramp 1,10,100
  dlqctl plan delete orders.dlq.v1 --created-to 2026-01-01T00:00:00Z
  dlqctl plan retry orders.dlq.v1 --not key=42 -o json`,
	}
	f := s.planFlags(cmd, true)
	cmd.ValidArgsFunction = s.arguments(fixed(kinds...), completeTopics)
	cmd.RunE = s.showing(planView, func(cmd *cobra.Command, args []string, p *printer) error {
		if !slices.Contains(kinds, args[0]) {
			return usageError{fmt.Errorf("%q is no kind of job; the kinds are %s", args[0], strings.Join(kinds, ", "))}
		}
		request, err := f.request(args[0], args[1])
		if err != nil {
			return err
		}
		plan, answer, err := planOf(body(s.client.CreatePlan(cmd.Context(), request)))
		if err != nil {
			return err
		}
		if s.people() {
			if err := showPlan(s.out, plan); err != nil {
				return err
			}
			s.note("Nothing was changed. Start it with: dlqctl apply " + plan.ID)
			return nil
		}
		return p.one(cmd.Context(), answer)
	})
	return cmd
}

// people tells whether people read the output, and not programs.
func (s *session) people() bool {
	return (s.flags.output == formatTable || s.flags.output == formatWide) && s.flags.jq == "" && len(s.flags.fields) == 0
}

var planView = view{noun: "plans", sample: client.RetryPlan{}, more: []any{client.ChangePlan{}}, columns: []column{
	{"ID", "id"}, {"KIND", "kind"}, {"TOPIC", "topic"}, {"MATCHED", "matched"}, {"SKIPPED", "skipped"}, {"EXPIRES", "expires_at"},
}}

// planOf reads an answer that has a plan of any kind. A RetryPlan has the fields of all kinds.
func planOf(answer []byte, failed error) (plan client.RetryPlan, body []byte, err error) {
	if failed != nil {
		return plan, nil, failed
	}
	err = json.Unmarshal(answer, &plan)
	if err == nil && (plan.ID == "" || plan.Kind == "" || plan.Topic == "") {
		err = errors.New("it has no id, kind or topic")
	}
	if err != nil {
		return plan, nil, fmt.Errorf("the answer is no plan: %w", err)
	}
	return plan, answer, nil
}

// showPlan writes a plan for people.
func showPlan(to io.Writer, plan client.RetryPlan) error {
	var text strings.Builder
	fmt.Fprintf(&text, "Plan %s, valid until %s\n\n", plan.ID, plan.ExpiresAt.Local().Format(time.RFC3339))
	fmt.Fprintf(&text, "%s  %s  %s\n", plan.Kind, plan.Topic, messages(plan.Matched))
	if plan.Skipped > 0 {
		fmt.Fprintf(&text, "  %s left out\n", messages(plan.Skipped))
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&text, "\n%s\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	counted := func(c client.PlanCounts_Item) string {
		return fmt.Sprintf("%10s  %s", thousands(c.Count), oneLine(c.Name))
	}
	section("left out because", mapped(plan.SkipReasons, counted))
	section("to topic", mapped(plan.ByTargetTopic, counted))
	section("by cause", mapped(plan.ByGroup, func(c client.PlanGroups_Item) string {
		return fmt.Sprintf("%10s  %-36s  %s", thousands(c.Count), valueOf(c.ID), oneLine(c.Title))
	}))
	if plan.MoreGroups > 0 {
		fmt.Fprintf(&text, "  and %s more causes\n", thousands(plan.MoreGroups))
	}
	section("some of them", mapped(plan.Sample, func(m client.ListedMessage) string { return m.ID + "  " + oneLine(m.ErrorMessage) }))
	_, err := fmt.Fprint(to, printable(text.String()), "\n")
	return err
}

func messages(n int64) string {
	if n == 1 {
		return "1 message"
	}
	return thousands(n) + " messages"
}

// thousands writes a number with commas.
func thousands(n int64) string { return message.NewPrinter(language.English).Sprintf("%d", n) }

// changeCommand makes the command for a kind of job, such as retry. The command makes a plan, asks the person, and starts the
// job.
func (s *session) changeCommand(kind, short, which string) *cobra.Command {
	cmd := &cobra.Command{
		Use: kind + " TOPIC", Short: short, Args: argumentsOf(kind + " TOPIC"),
		Long: fmt.Sprintf(`%s. It makes a plan of the messages that are %s and match the filters, shows the plan, asks, and starts the job.
A whole topic needs --all. The job is a workflow: it goes on when dlqctl ends. "dlqctl jobs" watches and steers it.`, short, which),
		Example: fmt.Sprintf(`  dlqctl %s orders.dlq.v1 --group 8f2cc0a3-5784-8865-a08b-a01afce8da16 --reason "the bug is fixed"
  dlqctl %s orders.dlq.v1 --all --yes --follow`, kind, kind),
	}
	f := s.planFlags(cmd, kind == "retry")
	follow := followFlag(cmd)
	all := cmd.Flags().Bool("all", false, "take every message of the topic")
	cmd.ValidArgsFunction = s.arguments(completeTopics)
	cmd.RunE = s.showing(jobsView.one(), func(cmd *cobra.Command, args []string, p *printer) error {
		chosen, err := parametersOf(f.filters)
		if err != nil {
			return err
		}
		chosen.Del("status") // a filter by status alone may select the whole topic
		if len(chosen) == 0 && !*all {
			return usageError{errors.New("choose messages with a filter such as --group or --error, or the whole topic with --all")}
		}
		if len(chosen) > 0 && *all {
			return usageError{errors.New("--all takes the whole topic and goes with no filter but --status")}
		}
		request, err := f.request(kind, args[0])
		if err != nil {
			return err
		}
		plan, _, err := planOf(body(s.client.CreatePlan(cmd.Context(), request)))
		if err != nil {
			return err
		}
		if plan.Matched == 0 {
			s.note(fmt.Sprintf("No message of %s matches, so there is nothing to do.", plan.Topic))
			return nil
		}
		if s.people() || !s.flags.yes {
			if err := showPlan(s.Stderr, plan); err != nil { // not to the standard output, which shows only the job
				return err
			}
		}
		return s.start(cmd.Context(), plan, given(*f.reason), *follow, p)
	})
	return cmd
}

func followFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("follow", "f", false, "follow the job until it ends; the exit code tells how")
}

func (s *session) applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply PLAN", Short: "Start the job of a plan", Args: argumentsOf("apply PLAN"),
		Long: `Starts the job of a plan, which has the same id. A second start joins the first. Exit code 5: the plan does not hold any more,
since messages were sent, changed or deleted, or since it has expired; the error names each number that differs.`,
		Example: `  dlqctl apply 01a214f0-f92f-7000-a46f-36ccec5081f3 --reason "the bug is fixed" --follow
  dlqctl apply 01a214f0-f92f-7000-a46f-36ccec5081f3 --yes -o name`,
	}
	reason, follow := reasonFlag(cmd.Flags()), followFlag(cmd)
	cmd.RunE = s.showing(jobsView.one(), func(cmd *cobra.Command, args []string, p *printer) error {
		plan, _, err := planOf(body(s.client.GetPlan(cmd.Context(), named(args)[0], nil)))
		if err != nil {
			return err
		}
		return s.start(cmd.Context(), plan, given(*reason), *follow, p)
	})
	return cmd
}

// start asks the person, and starts the job of a plan.
func (s *session) start(ctx context.Context, plan client.RetryPlan, reason *string, follow bool, p *printer) error {
	question := fmt.Sprintf("%s %s of %s?", strings.ToUpper(string(plan.Kind[:1]))+string(plan.Kind[1:]), messages(plan.Matched), plan.Topic)
	if err := s.confirm(ctx, question, plan.Topic); err != nil {
		return err
	}
	var start client.JobStart
	if err := start.FromPlanStart(client.PlanStart{Plan: plan.ID, Reason: reason}); err != nil {
		return err
	}
	answer, err := s.client.CreateJob(ctx, &client.CreateJobParams{Prefer: new("respond-async")}, start)
	if err != nil {
		return s.doubt(err, oneJob.show, plan.ID)
	}
	if follow {
		return s.follow(ctx, plan.ID, p)
	}
	if s.people() {
		s.note("The job runs. Watch it with: dlqctl jobs watch " + plan.ID)
	}
	return p.one(ctx, answer.Body)
}

// one is the view for an answer that is one record.
func (v view) one() view {
	v.list = ""
	return v
}
