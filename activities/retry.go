package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// RetryStore has the methods of the store that the retry of a message calls.
type RetryStore interface {
	// Claim makes a PENDING message RETRYING and counts the retry. A second claim by the
	// same owner returns the same message and is not counted. The first claim records that the owner acts for the
	// operation, unless the operation's id is zero. The errors are *dlq.NotRetryableError, *dlq.OwnedError and
	// dlq.ErrNotFound.
	Claim(ctx context.Context, id dlq.ID, owner dlq.Owner, operation dlq.ID) (dlq.Claim, error)
	// Claimed returns the owner's existing claim, or the errors of Claim.
	Claimed(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error)
	// Envelope reads the message of a claim, or returns the errors of Claim.
	Envelope(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error)
	// Finalize ends a claim, and reports whether this call has ended the claim. When the owner has lost the claim, Finalize
	// records only a delivery. It returns the current message in any case.
	Finalize(ctx context.Context, owner dlq.Owner, outcome dlq.Outcome) (m dlq.Message, ended bool, err error)
	// Release ends every claim of an owner whose workflow is gone, as a failed retry.
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
}

// Publisher sends messages back to their original topics.
type Publisher interface {
	// Publish sends the messages in this order and waits for all acknowledgements. Publish
	// sends nothing to closed targets. The deliveries are in the order of the envelopes.
	// The error of a delivery is nil, dlq.ErrTargetClosed or a *dlq.DeliveryError. Unless the order is dlq.OrderNone, the
	// error is a *dlq.BlockedError when an earlier message of the same topic and key was not delivered.
	Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery
}

// Owners tells whether the workflow that owns a message is still running.
type Owners interface {
	IsRunning(ctx context.Context, owner dlq.Owner) (bool, error)
}

// Retry holds the steps of the retry of a message.
type Retry struct {
	Store RetryStore
	// Publisher is nil when Kafka is not configured. Then messages are resolved without
	// being sent, and the answer and the log say so.
	Publisher Publisher
	// Memory bounds the messages that are in memory at once.
	Memory  *Memory
	Owners  Owners
	Metrics *Metrics
	Log     *zap.Logger
}

// RetryInput names the message and its workflow.
type RetryInput struct {
	MessageID dlq.ID    `json:"message_id"`
	Owner     dlq.Owner `json:"owner"`
	// OperationID is the row of the audit for the request; zero if there is none.
	OperationID dlq.ID `json:"operation_id,omitzero"`
	// TargetTopic is where the message goes; empty unless the operator has named a target.
	TargetTopic string `json:"target_topic,omitempty"`
}

// MarkRetrying claims the message for the workflow. Before that, MarkRetrying releases the claim of a
// workflow that was terminated.
func (a *Retry) MarkRetrying(ctx context.Context, in RetryInput) (dlq.Claim, error) {
	if err := checkOwner(ctx, in.Owner); err != nil {
		return dlq.Claim{}, err
	}
	claim, err := a.Store.Claim(ctx, in.MessageID, in.Owner, in.OperationID)
	if owned, ok := errors.AsType[*dlq.OwnedError](err); ok {
		if err = a.releaseIfGone(ctx, owned); err == nil {
			claim, err = a.Store.Claim(ctx, in.MessageID, in.Owner, in.OperationID)
		}
	}
	return claim, toTemporal(err)
}

// checkOwner refuses an owner that is not the workflow of the activity: otherwise anybody could write a
// workflow that claims and finalizes for another workflow.
func checkOwner(ctx context.Context, owner dlq.Owner) error {
	if activity.IsActivity(ctx) && activity.GetInfo(ctx).WorkflowExecution.ID != owner.WorkflowID {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("the owner is workflow %q, which this is not", owner.WorkflowID), TypeInvalid, nil)
	}
	return nil
}

// releaseIfGone releases the claims of an owner that is not running, and returns owned when the owner is running.
func (a *Retry) releaseIfGone(ctx context.Context, owned *dlq.OwnedError) error {
	running, err := a.Owners.IsRunning(ctx, owned.Owner)
	if err != nil {
		return fmt.Errorf("is workflow %s still running: %w", owned.Owner.WorkflowID, err)
	}
	if running {
		return owned
	}
	_, err = a.Store.Release(ctx, owned.Owner, OrphanReason)
	return err
}

// OrphanReason is the error of a retry whose workflow was terminated before the retry ended.
const OrphanReason = "the workflow that retried it was terminated"

// RepublishPreparation bounds the time before the publish: waiting for memory, and reading
// the message.
const RepublishPreparation = 20 * time.Second

// Republished is the result of Republish.
type Republished struct {
	// Published is false when Kafka is not configured.
	Published bool `json:"published"`
	// At is where the target has the message; nil when unknown.
	At *dlq.Acknowledgement `json:"at,omitempty"`
}

// Republish sends the claimed message to its original topic, or to RetryInput.TargetTopic. Republish
// checks the claim first, and so does not send a message that an operator has marked DEAD
// meanwhile.
func (a *Retry) Republish(ctx context.Context, in RetryInput) (Republished, error) {
	envelope, release, err := a.prepare(ctx, in)
	if err != nil {
		return Republished{}, toTemporal(err)
	}
	defer release()
	delivery := dlq.Delivery{Unsent: true}
	if a.Publisher != nil {
		envelope.TargetTopic, envelope.Token = in.TargetTopic, in.Owner.Token
		end := startPublish(ctx, &envelope)
		delivery = a.Publisher.Publish(ctx, []dlq.Envelope{envelope}, dlq.OrderKey, nil)[0]
		end(delivery.Err)
	}
	if delivery.Unsent {
		logger(ctx, a.Log).Warn("kafka is not configured: resolving without publishing", zap.Stringer("message_id", in.MessageID))
		return Republished{}, nil
	}
	if delivery.Err != nil {
		return Republished{}, toTemporal(delivery.Err)
	}
	return Republished{Published: true, At: delivery.Acknowledgement}, nil
}

func (a *Retry) prepare(ctx context.Context, in RetryInput) (envelope dlq.Envelope, release func(), err error) {
	if err := checkOwner(ctx, in.Owner); err != nil {
		return dlq.Envelope{}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, RepublishPreparation)
	defer cancel()
	claim, err := a.Store.Claimed(ctx, in.MessageID, in.Owner)
	if err != nil {
		return dlq.Envelope{}, nil, err
	}
	if release, err = a.Memory.acquire(ctx, claim.Size); err != nil {
		return dlq.Envelope{}, nil, fmt.Errorf("this worker has no memory left for a message of %d bytes: %w", claim.Size, err)
	}
	// Envelope checks the claim again, since the wait for memory may have been long.
	if envelope, err = a.Store.Envelope(ctx, in.MessageID, in.Owner); err != nil {
		release()
	}
	return envelope, release, err
}

// FinalizeInput is the owner of the claim, and the outcome of the retry.
type FinalizeInput struct {
	Owner   dlq.Owner   `json:"owner"`
	Outcome dlq.Outcome `json:"outcome"`
}

// Finalized is the state of the message after Finalize.
type Finalized struct {
	Status     dlq.Status `json:"status"`
	RetryCount int        `json:"retry_count"`
	MaxRetries int        `json:"max_retries"`
}

// Finalize records how the retry ended.
func (a *Retry) Finalize(ctx context.Context, in FinalizeInput) (Finalized, error) {
	if err := checkOwner(ctx, in.Owner); err != nil {
		return Finalized{}, err
	}
	message, ended, err := a.Store.Finalize(ctx, in.Owner, in.Outcome)
	if err == nil && ended { // else an earlier call has counted and logged the end
		a.Metrics.retried(in.Outcome.Result, in.Outcome.Category, 1)
		logger(ctx, a.Log).Info("retry finished", zap.Stringer("message_id", message.ID),
			zap.String("topic", message.OriginalTopic), zap.String("result", string(in.Outcome.Result)),
			zap.String("status", string(message.Status)), zap.String("error", in.Outcome.Error))
	}
	return Finalized{Status: message.Status, RetryCount: message.RetryCount, MaxRetries: message.MaxRetries}, toTemporal(err)
}
