package api

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// topicRetry is a retry-all without a database. It is no job: this process retries the messages one after the other, each by
// its own workflow. The retry ends when the server drains. A message that fails does not block later messages of its key.
type topicRetry struct {
	// within limits the retry to the topics of its principal.
	topic, within string
	messages      []dlq.Message
	// ended is closed at the end of the retry, after err is set.
	ended chan struct{}
	err   error

	mu       sync.Mutex
	progress dlq.Job // state and counts only
	isUnsent bool    // a message was resolved without being published
}

// retryTopic answers retry-all without a database.
func (s *Server) retryTopic(ctx context.Context, c *fiber.Ctx, topic string) error {
	run, err := s.startTopicRetry(ctx, topic)
	if err != nil {
		return err
	}
	wait := func(ctx context.Context, run *topicRetry) (struct{}, error) { return struct{}{}, run.wait(ctx) }
	_, ended, err := await(s, c, s.waitTime(c), run, wait)
	if err != nil && s.draining.Err() == nil {
		return err
	}
	now := run.now()
	now.ended = ended
	return s.replyRetryAll(c, &now, topic, "/api/v1/dlq/"+topic)
}

// startTopicRetry starts the retry of a topic, or joins the running retry of that topic. Only one retry runs at a time. A new
// retry takes the messages that are stored now.
func (s *Server) startTopicRetry(ctx context.Context, topic string) (*topicRetry, error) {
	a := accessOf(ctx)
	if err := a.require(topic); err != nil {
		return nil, err
	}
	s.topicRetryMu.Lock()
	defer s.topicRetryMu.Unlock()
	if running := s.topicRetry; running != nil {
		select {
		case <-running.ended:
		default:
			if running.topic != topic || running.within != a.withinRoute() {
				return nil, conflict("another retry-all is running, and without a database one runs at a time; wait for its end", nil)
			}
			return running, nil
		}
	}
	run := &topicRetry{topic: topic, within: a.withinRoute(), ended: make(chan struct{}), progress: dlq.Job{State: dlq.JobRunning}}
	if err := s.findRetryable(ctx, run); err != nil {
		return nil, err
	}
	s.topicRetry = run
	go func() {
		defer close(run.ended)
		if run.err = s.runTopicRetry(s.draining, run); run.err != nil && s.draining.Err() == nil {
			s.options.Logger.Warn("a retry-all has stopped; the same request continues it", zap.String("topic", topic), zap.Error(run.err))
		}
	}()
	return run, nil
}

// findRetryable lists the messages to retry, in the order of arrival. Like a bulk retry, it leaves out suspicious messages, and
// messages with an original topic that the sender may not choose.
func (s *Server) findRetryable(ctx context.Context, run *topicRetry) error {
	query := dlq.ListQuery{Filter: dlq.Filter{Topic: run.topic, Statuses: []dlq.Status{dlq.StatusPending}}, PageSize: 100, OldestFirst: true}
	for {
		page, err := s.guard.List(ctx, query)
		if err != nil {
			return err
		}
		for i := range page.Messages {
			m := page.Messages[i]
			m.Payload = nil // the list of messages may be long
			isForeign := run.within != "" && !s.options.Topics.MaySend(m.DLQTopic, m.OriginalTopic, false)
			if m.IsRetryable() && !m.Suspicious && !isForeign {
				run.messages = append(run.messages, m)
			}
		}
		if !page.HasNext {
			run.progress.Matched = int64(len(run.messages))
			return nil
		}
		last := page.Messages[len(page.Messages)-1].Keyset()
		query.After = &last
	}
}

// runTopicRetry retries the messages, and counts their errors. It returns an error when a service is unavailable.
func (s *Server) runTopicRetry(ctx context.Context, run *topicRetry) error {
	for i := range run.messages {
		m := &run.messages[i]
		execution, err := s.retries.StartRetryMessage(ctx, nil, m, workflows.RetryMessageInput{MessageID: m.ID})
		var result workflows.RetryMessageResult
		if err == nil {
			result, err = s.retries.AwaitRetryMessage(ctx, execution)
		}
		if err := run.count(result, err); err != nil {
			return fmt.Errorf("retry of message %s: %w", m.ID, err)
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.progress.State = dlq.JobCompleted
	return nil
}

// count counts the result of one retry. It returns the error if it does not concern the message.
func (r *topicRetry) count(result workflows.RetryMessageResult, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := &r.progress.Counts
	_, isRefused := errors.AsType[*dlq.NotRetryableError](err)
	_, isOwned := errors.AsType[*dlq.OwnedError](err)
	switch {
	case isRefused, isOwned, errors.Is(err, dlq.ErrNotFound):
		counts.Skipped++
	case errors.Is(err, workflows.ErrStopped):
		counts.Failed++
	case err != nil:
		return err
	case result.Error == "" && result.Status == dlq.StatusResolved:
		counts.Retried++
		r.isUnsent = r.isUnsent || !result.Published
	case result.Status == dlq.StatusDead:
		counts.Dead++
	default:
		counts.Failed++
	}
	return nil
}

// now is the state of the retry, in the form of a job's state.
func (r *topicRetry) now() jobRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := jobRun{job: r.progress}
	if r.progress.State == dlq.JobCompleted {
		run.published = new(!r.isUnsent)
	}
	return run
}

func (r *topicRetry) wait(ctx context.Context) error {
	select {
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
