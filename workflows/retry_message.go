package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// RetryMessage sends one dead letter back to its original topic: it marks it
// RETRYING, republishes it and records how that ended. It owns the message from
// the first step to the last, whatever crashes in between.
//
// It fails only when there was nothing to retry: the message does not exist, is
// not retryable, or is owned by another workflow. A message that could not be
// delivered is a result.
//
// Cancelled before the message was published, it gives the message back as if it had
// never been claimed. A publish under way at that moment decides by its own answer, and
// so does one that begins before the workflow hears of it, which takes as long as a claim.
func RetryMessage(ctx workflow.Context, in RetryMessageInput) (RetryMessageResult, error) {
	var steps *activities.Retry
	step := activities.RetryInput{MessageID: in.MessageID, Owner: ownerOf(ctx)}

	workflow.SetCurrentDetails(ctx, "Claiming the message.")
	var claimed activities.Claimed
	err := storeStep(ctx, claimOptions, "mark RETRYING", steps.MarkRetrying, step, &claimed)
	if err != nil && ctx.Err() != nil && !isRefusal(err) {
		// The claim may have got through all the same.
		if _, err := finalize(ctx, step.Owner, returned(in.MessageID)); err != nil && typeOf(err) != activities.TypeNotFound {
			return RetryMessageResult{}, err
		}
		workflow.SetCurrentDetails(ctx, "Cancelled before it was published.")
		return RetryMessageResult{}, ctx.Err()
	}
	if err != nil {
		workflow.SetCurrentDetails(ctx, "Not retried: "+reasonOf(err))
		return RetryMessageResult{}, err
	}

	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Republishing to **%s**, retry %d of %d.",
		claimed.OriginalTopic, claimed.RetryCount, claimed.MaxRetries))
	published, publishErr := republish(ctx, step, claimed)
	outcome := outcomeOf(in.MessageID, publishErr)
	final, err := finalize(ctx, step.Owner, outcome)
	if err != nil {
		return RetryMessageResult{}, err
	}

	workflow.SetCurrentDetails(ctx, endDetails(claimed, final, outcome, published))
	if temporal.IsCanceledError(publishErr) {
		return RetryMessageResult{}, publishErr
	}
	return RetryMessageResult{
		MessageID: in.MessageID, Status: final.Status,
		RetryCount: final.RetryCount, MaxRetries: final.MaxRetries,
		Published: published, Error: outcome.Error, Category: outcome.Category,
	}, nil
}

// finalize records how the retry ended, even when the workflow was cancelled, so that
// no message is left RETRYING.
func finalize(ctx workflow.Context, owner dlq.Owner, outcome dlq.Outcome) (final activities.Finalized, err error) {
	var steps *activities.Retry
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	err = storeStep(ctx, storeOptions, "finalize: "+string(outcome.Result), steps.Finalize, activities.FinalizeInput{Owner: owner, Outcome: outcome}, &final)
	return final, err
}

// storeStep carries out a step that only touches the database. It is tried once as a part
// of the workflow's own task, which spares Temporal the scheduling of an activity. When
// the database does not answer soon, it becomes an activity of its own, which Temporal
// repeats for as long as it takes. A cancellation does not interrupt the first attempt.
func storeStep(ctx workflow.Context, options func(workflow.Context, string) workflow.Context, summary string, step, in, out any) error {
	if workflow.GetVersion(ctx, localSteps, workflow.DefaultVersion, 1) == 1 && ctx.Err() == nil {
		local, _ := workflow.NewDisconnectedContext(ctx)
		local = workflow.WithLocalActivityOptions(local, localOptions(summary))
		err := workflow.ExecuteLocalActivity(local, step, in).Get(local, out)
		if err == nil || isRefusal(err) {
			return err
		}
	}
	ctx = options(ctx, summary)
	return workflow.ExecuteActivity(ctx, step, in).Get(ctx, out)
}

// localSteps marks the retries whose steps are tried in the workflow's own task.
const localSteps = "local-steps"

// returned is the outcome of a retry that was cancelled before it published.
func returned(id dlq.ID) dlq.Outcome {
	return dlq.Outcome{ID: id, Result: dlq.ResultReleased, Error: cancelledReason}
}

// isRefusal is true of a claim that the store refused: it claimed nothing.
func isRefusal(err error) bool {
	switch typeOf(err) {
	case activities.TypeNotFound, activities.TypeNotRetryable, activities.TypeOwned:
		return true
	default:
		return false
	}
}

// typeOf is the type that an activity gave to its error; empty when it gave none.
func typeOf(err error) string {
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		return application.Type()
	}
	return ""
}

// republish tries as often as the category of each failure allows. Temporal
// counts the attempts of transient errors; those of a throttled target are
// counted here, since their pause is another one.
func republish(ctx workflow.Context, step activities.RetryInput, claimed activities.Claimed) (published bool, err error) {
	var steps *activities.Retry
	policy := activities.PolicyOf(dlq.CategoryRateLimit)
	for attempt := 1; ; attempt++ {
		err = workflow.ExecuteActivity(publishOptions(ctx, "republish to "+claimed.OriginalTopic), steps.Republish, step).
			Get(ctx, &published)
		category, retryAfter := categoryOf(err)
		if category != dlq.CategoryRateLimit || attempt >= policy.Attempts {
			return published, err
		}
		wait := policy.Wait(attempt, &dlq.DeliveryError{RetryAfter: retryAfter, Err: err})
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("Throttled by the target; trying again in %s.", wait))
		pause := workflow.TimerOptions{Summary: "throttled by the target"}
		if err := workflow.NewTimerWithOptions(ctx, wait, pause).Get(ctx, nil); err != nil {
			return false, err
		}
	}
}

// categoryOf reads the category that an activity gave to its error; empty when
// it is nil or not a delivery error.
func categoryOf(err error) (category dlq.Category, retryAfter time.Duration) {
	var application *temporal.ApplicationError
	if !errors.As(err, &application) {
		return "", 0
	}
	switch category := dlq.Category(application.Type()); category {
	case dlq.CategoryTransient, dlq.CategoryRateLimit, dlq.CategoryAuth, dlq.CategoryBadData:
		_ = application.Details(&retryAfter)
		return category, retryAfter
	default:
		return "", 0
	}
}

func outcomeOf(id dlq.ID, err error) dlq.Outcome {
	if err == nil {
		return dlq.Outcome{ID: id, Result: dlq.ResultDelivered}
	}
	if temporal.IsCanceledError(err) {
		// No attempt was under way, since a cancellation waits for the one that is.
		return returned(id)
	}
	category, _ := categoryOf(err)
	if category == "" {
		// Not a refusal but a crash or a timeout.
		category = dlq.CategoryTransient
	}
	return dlq.Outcome{ID: id, Result: category.Result(), Category: category, Error: reasonOf(err)}
}

const cancelledReason = "the retry was cancelled"

// reasonOf is the part of a Temporal error that a person wants to read.
func reasonOf(err error) string {
	var application *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case temporal.IsCanceledError(err):
		return cancelledReason
	case errors.As(err, &application):
		return application.Message()
	case errors.As(err, &timeout):
		return "no answer in time: the worker crashed, or the target hangs"
	default:
		return err.Error()
	}
}

func endDetails(claimed activities.Claimed, final activities.Finalized, outcome dlq.Outcome, published bool) string {
	switch {
	case outcome.Result == dlq.ResultReleased:
		return fmt.Sprintf("**%s** again, cancelled before it was published: the retry does not count.", final.Status)
	case outcome.Result != dlq.ResultDelivered:
		return fmt.Sprintf("**%s** after retry %d of %d: %s", final.Status, final.RetryCount, final.MaxRetries, outcome.Error)
	case !published:
		return fmt.Sprintf("**%s** without publishing: Kafka is not configured.", final.Status)
	default:
		return fmt.Sprintf("**%s**: acknowledged by %s.", final.Status, claimed.OriginalTopic)
	}
}
