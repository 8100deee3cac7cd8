package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// RetryStore is what the retry of one message needs of the store.
type RetryStore interface {
	// Claim makes a PENDING message RETRYING and counts the retry. The same
	// owner may claim again and gets the same message, not counted twice.
	// It returns *dlq.NotRetryableError, *dlq.OwnedError or dlq.ErrNotFound.
	Claim(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error)
	// Claimed returns the claim that the owner has, and claims nothing. The errors are
	// those of Claim.
	Claimed(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Claim, error)
	// Envelope reads what the owner of a claim has to send. The errors are those of Claim.
	Envelope(ctx context.Context, id dlq.ID, owner dlq.Owner) (dlq.Envelope, error)
	// Finalize ends a claim, and tells whether it did. When the owner no longer holds the
	// message it changes nothing and returns the message as it is.
	Finalize(ctx context.Context, owner dlq.Owner, outcome dlq.Outcome) (m dlq.Message, ended bool, err error)
	// Release ends every claim of an owner that is gone, as failed retries.
	Release(ctx context.Context, owner dlq.Owner, reason string) (int64, error)
}

// Publisher sends messages back to their original topics.
type Publisher interface {
	// Publish sends in the order given and waits for all acknowledgements. Nothing goes
	// to targets that are closed. The deliveries are aligned with the envelopes; the
	// error of each is nil, dlq.ErrTargetClosed, a *dlq.DeliveryError, or, unless the
	// order is dlq.OrderNone, a *dlq.BlockedError where an earlier message of its topic
	// and key was not delivered.
	Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery
}

// Owners tells whether the workflow that owns a message still lives.
type Owners interface {
	IsRunning(ctx context.Context, owner dlq.Owner) (bool, error)
}

// Retry holds the steps of the retry of one message.
type Retry struct {
	Store RetryStore
	// Publisher is nil when Kafka is not configured: messages are then
	// resolved without being sent, which is said in the answer and the log.
	Publisher Publisher
	// Memory bounds the messages that are held at once.
	Memory  *Memory
	Owners  Owners
	Metrics *Metrics
	Log     *zap.Logger
}

// RetryInput names the message and the workflow that retries it.
type RetryInput struct {
	MessageID dlq.ID    `json:"message_id"`
	Owner     dlq.Owner `json:"owner"`
}

// Claimed says what was claimed, for people who read the workflow.
type Claimed struct {
	OriginalTopic string `json:"original_topic"`
	RetryCount    int    `json:"retry_count"`
	MaxRetries    int    `json:"max_retries"`
}

// MarkRetrying claims the message for the workflow. A claim left behind by a
// workflow that was terminated is taken over.
func (a *Retry) MarkRetrying(ctx context.Context, in RetryInput) (Claimed, error) {
	claim, err := a.Store.Claim(ctx, in.MessageID, in.Owner)
	var owned *dlq.OwnedError
	if errors.As(err, &owned) {
		if err := a.releaseIfGone(ctx, owned); err != nil {
			return Claimed{}, toTemporal(err)
		}
		claim, err = a.Store.Claim(ctx, in.MessageID, in.Owner)
	}
	if err != nil {
		return Claimed{}, toTemporal(err)
	}
	return Claimed{OriginalTopic: claim.OriginalTopic, RetryCount: claim.RetryCount, MaxRetries: claim.MaxRetries}, nil
}

// releaseIfGone returns the *dlq.OwnedError when the owner lives.
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

// OrphanReason is recorded with a retry whose workflow ended without
// finalizing, because someone terminated it.
const OrphanReason = "the workflow that retried it was terminated"

// RepublishPreparation bounds what comes before the publish: reading the message, once
// there is memory for it.
const RepublishPreparation = 20 * time.Second

// Republish sends the claimed message to its original topic and reports whether
// it really was sent. The claim is checked again first, so a message that an
// operator has marked dead meanwhile is not sent.
func (a *Retry) Republish(ctx context.Context, in RetryInput) (bool, error) {
	envelope, give, err := a.prepare(ctx, in)
	if err != nil {
		return false, toTemporal(err)
	}
	defer give()
	if a.Publisher == nil {
		a.Log.Warn("kafka is not configured: resolving without publishing", zap.Stringer("message_id", in.MessageID))
		return false, nil
	}
	return true, toTemporal(a.Publisher.Publish(ctx, []dlq.Envelope{envelope}, dlq.OrderKey, nil)[0].Err)
}

func (a *Retry) prepare(ctx context.Context, in RetryInput) (envelope dlq.Envelope, give func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, RepublishPreparation)
	defer cancel()
	claim, err := a.Store.Claimed(ctx, in.MessageID, in.Owner)
	if err != nil {
		return dlq.Envelope{}, nil, err
	}
	if give, err = a.Memory.take(ctx, claim.Size); err != nil {
		return dlq.Envelope{}, nil, fmt.Errorf("this worker has no memory left for a message of %d bytes: %w", claim.Size, err)
	}
	// Once more: it may have taken long.
	if envelope, err = a.Store.Envelope(ctx, in.MessageID, in.Owner); err != nil {
		give()
	}
	return envelope, give, err
}

// FinalizeInput is how the retry ended.
type FinalizeInput struct {
	Owner   dlq.Owner   `json:"owner"`
	Outcome dlq.Outcome `json:"outcome"`
}

// Finalized is where the message stands afterwards.
type Finalized struct {
	Status     dlq.Status `json:"status"`
	RetryCount int        `json:"retry_count"`
	MaxRetries int        `json:"max_retries"`
}

// Finalize records how the retry ended.
func (a *Retry) Finalize(ctx context.Context, in FinalizeInput) (Finalized, error) {
	message, ended, err := a.Store.Finalize(ctx, in.Owner, in.Outcome)
	if err != nil {
		return Finalized{}, toTemporal(err)
	}
	if ended { // else it was told before
		a.Metrics.retried(in.Outcome)
		a.Log.Info("retry finished", zap.Stringer("message_id", message.ID), zap.String("workflow_id", in.Owner.WorkflowID),
			zap.String("topic", message.OriginalTopic), zap.String("result", string(in.Outcome.Result)),
			zap.String("status", string(message.Status)), zap.String("error", in.Outcome.Error))
	}
	return Finalized{Status: message.Status, RetryCount: message.RetryCount, MaxRetries: message.MaxRetries}, nil
}
