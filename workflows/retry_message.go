package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// RetryMessage sends a dead letter back to its original topic, or to the target in the input. The
// steps mark the message RETRYING, republish and finalize. The workflow owns the message from the
// first step to the last, also across crashes.
//
// RetryMessage fails when the message cannot be claimed: the message does not exist, is not
// retryable, or is owned by another workflow. A failed delivery is a result, not an error.
//
// A cancellation takes effect after the running step. Before the publish, a cancellation releases the
// message, and the retry is not counted. If the running step is the publish, its result
// decides the outcome.
func RetryMessage(ctx workflow.Context, in RetryMessageInput) (RetryMessageResult, error) {
	var steps *activities.Retry
	step := activities.RetryInput{MessageID: in.MessageID, Owner: ownerOf(ctx), OperationID: in.OperationID, TargetTopic: in.TargetTopic}

	workflow.SetCurrentDetails(ctx, "Claiming the message.")
	var claimed dlq.Claim
	err := storeStep(ctx, "mark RETRYING", steps.MarkRetrying, step, &claimed)
	if err != nil && ctx.Err() != nil && !isRefusal(err) {
		// The store may have committed the claim nevertheless.
		if _, err := finalize(ctx, step.Owner, released(in.MessageID)); err != nil && typeOf(err) != activities.TypeNotFound {
			return RetryMessageResult{}, err
		}
		workflow.SetCurrentDetails(ctx, "Cancelled before it was published.")
		return RetryMessageResult{}, ctx.Err()
	}
	if err != nil {
		workflow.SetCurrentDetails(ctx, "Not retried: "+markdown(reasonOf(err)))
		return RetryMessageResult{}, err
	}

	target := cmp.Or(in.TargetTopic, claimed.OriginalTopic) // as far as the workflow knows
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Republishing to **%s**, retry %d of %d.", markdown(target), claimed.RetryCount, claimed.MaxRetries))
	published, publishErr := republish(ctx, step, target)
	outcome := outcomeOf(in.MessageID, publishErr)
	outcome.Acknowledgement = published.At
	final, err := finalize(ctx, step.Owner, outcome)
	if err != nil {
		return RetryMessageResult{}, err
	}

	workflow.SetCurrentDetails(ctx, endDetails(target, final, outcome, published))
	if temporal.IsCanceledError(publishErr) {
		return RetryMessageResult{}, publishErr
	}
	return RetryMessageResult{
		MessageID: in.MessageID, Status: final.Status,
		RetryCount: final.RetryCount, MaxRetries: final.MaxRetries,
		Published: published.Published, Error: outcome.Error, Category: outcome.Category,
	}, nil
}

// finalize records the outcome, even when the workflow was cancelled, so that no message
// remains RETRYING.
func finalize(ctx workflow.Context, owner dlq.Owner, outcome dlq.Outcome) (final activities.Finalized, err error) {
	var steps *activities.Retry
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	err = storeStep(ctx, "finalize: "+string(outcome.Result), steps.Finalize, activities.FinalizeInput{Owner: owner, Outcome: outcome}, &final)
	return final, err
}

// storeStep runs a step that only uses the database. The first try is a local
// activity, which Temporal does not schedule. If the local activity fails, for example because the database does not answer
// in time, the step becomes an ordinary activity, which Temporal retries without end. A cancellation waits for the running
// attempt, so that no claim commits after the message was released.
func storeStep(ctx workflow.Context, summary string, step, in, out any) error {
	if ctx.Err() == nil {
		local, _ := workflow.NewDisconnectedContext(ctx)
		local = workflow.WithLocalActivityOptions(local, localOptions(summary))
		err := workflow.ExecuteLocalActivity(local, step, in).Get(local, out)
		if err == nil || isRefusal(err) {
			return err
		}
	}
	ctx = workflow.WithWaitForCancellation(storeOptions(ctx, summary), true)
	return workflow.ExecuteActivity(ctx, step, in).Get(ctx, out)
}

// released is the outcome of a retry that was cancelled before the publish.
func released(id dlq.ID) dlq.Outcome {
	return dlq.Outcome{ID: id, Result: dlq.ResultReleased, Error: cancelledReason}
}

// isRefusal tells whether the store has refused a claim. Then nothing is claimed.
func isRefusal(err error) bool {
	return slices.Contains([]string{activities.TypeNotFound, activities.TypeNotRetryable, activities.TypeOwned}, typeOf(err))
}

// typeOf is the type of an activity's error, or empty.
func typeOf(err error) string {
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return application.Type()
	}
	return ""
}

// republish retries by the policy of the error's category. Temporal retries transient
// errors by the activity's retry policy. If the target throttles, republish itself retries,
// because that policy has other waits.
func republish(ctx workflow.Context, step activities.RetryInput, target string) (published activities.Republished, err error) {
	var steps *activities.Retry
	policy := activities.PolicyOf(dlq.CategoryRateLimit)
	for attempt := 1; ; attempt++ {
		err = workflow.ExecuteActivity(publishOptions(ctx, "republish to "+target), steps.Republish, step).Get(ctx, &published)
		if err == nil {
			return published, nil
		}
		category, retryAfter := categoryOf(err)
		if category != dlq.CategoryRateLimit || attempt >= policy.Attempts {
			return published, err
		}
		wait := policy.Wait(attempt, &dlq.DeliveryError{RetryAfter: retryAfter, Err: err})
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("Throttled by the target; next attempt in %s.", wait))
		pause := workflow.TimerOptions{Summary: "throttled by the target"}
		if err := workflow.NewTimerWithOptions(ctx, wait, pause).Get(ctx, nil); err != nil {
			return published, err
		}
	}
}

// categoryOf returns the category of an activity's error: empty when the error is
// nil or not a delivery error.
func categoryOf(err error) (category dlq.Category, retryAfter time.Duration) {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
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
		// Nothing was published, because a cancellation waits for a running publish.
		return released(id)
	}
	category, _ := categoryOf(err)
	if category == "" {
		// A crash or a timeout, not a refusal.
		category = dlq.CategoryTransient
	}
	return dlq.Outcome{ID: id, Result: category.Result(), Category: category, Error: reasonOf(err)}
}

const cancelledReason = "the retry was cancelled"

// reasonOf is the readable part of a Temporal error.
func reasonOf(err error) string {
	application, ok := errors.AsType[*temporal.ApplicationError](err)
	switch {
	case temporal.IsCanceledError(err):
		return cancelledReason
	case ok:
		return application.Message()
	case errors.As(err, new(*temporal.TimeoutError)):
		return "no answer in time: the worker crashed, or the target hangs"
	default:
		return err.Error()
	}
}

func endDetails(target string, final activities.Finalized, outcome dlq.Outcome, published activities.Republished) string {
	at := published.At
	if at != nil {
		target = cmp.Or(at.Topic, target) // only the publisher knows the routes
	}
	switch {
	case outcome.Result == dlq.ResultReleased:
		return fmt.Sprintf("**%s** again, cancelled before it was published: the retry does not count.", final.Status)
	case outcome.Result != dlq.ResultDelivered:
		return fmt.Sprintf("**%s** after retry %d of %d: %s", final.Status, final.RetryCount, final.MaxRetries, markdown(outcome.Error))
	case !published.Published:
		return fmt.Sprintf("**%s** without publishing: Kafka is not configured.", final.Status)
	case at != nil && at.Partition != dlq.AnyPartition:
		return fmt.Sprintf("**%s**: acknowledged by %s at offset %d.", final.Status,
			dlq.Target{Topic: markdown(target), Partition: at.Partition}, at.Offset)
	default:
		return fmt.Sprintf("**%s**: acknowledged by %s.", final.Status, markdown(target))
	}
}
