package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// plainLoop does the work of a bulk retry in a simple loop: with the same store, publisher
// and number of lanes, but without Temporal and without recovery after a crash.
func plainLoop(ctx context.Context, s timedStore, publisher activities.Publisher, topic string, lanes, messages int) error {
	bulk, err := s.CreateJob(ctx, nil, dlq.Job{
		ID: dlq.NewID(), WorkflowID: "retry-all-plain-loop",
		Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: topic}, Order: dlq.OrderNone}, Lanes: lanes,
	})
	if err == nil {
		bulk, err = s.CountJob(ctx, bulk.ID)
	}
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for number := range lanes {
		lane := dlq.Lane{Job: bulk.ID, Owner: bulk.Owner(), Spec: bulk.Spec, UpperBound: bulk.UpperBound, Number: number,
			Buckets: dlq.BucketRange{Last: dlq.Buckets - 1}}
		group.Go(func() error { return plainLane(groupCtx, s, publisher, lane) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	ended, err := s.EndJob(ctx, nil, bulk.ID, dlq.JobCompleted, "")
	if err == nil && ended.Counts.Retried != int64(messages) {
		err = fmt.Errorf("the plain loop sent %d of %d messages", ended.Counts.Retried, messages)
	}
	return err
}

func plainLane(ctx context.Context, s timedStore, publisher activities.Publisher, lane dlq.Lane) error {
	var outcomes []dlq.PageOutcome
	for {
		claim, _, err := s.NextPage(ctx, lane, outcomes, true)
		if err != nil || len(claim.Page) == 0 {
			return err
		}
		page := make([]dlq.Envelope, len(claim.Page))
		outcomes = make([]dlq.PageOutcome, len(claim.Page))
		for i := range page {
			page[i] = claim.Page[i].Envelope
		}
		for i, delivery := range publisher.Publish(ctx, page, lane.Spec.Order, nil) {
			if delivery.Err != nil {
				return delivery.Err
			}
			outcomes[i] = dlq.PageOutcome{Outcome: dlq.Outcome{ID: page[i].ID, Result: dlq.ResultDelivered}, RetryCount: page[i].RetryCount}
			outcomes[i].Acknowledgement = delivery.Acknowledgement
		}
	}
}

// starters is how many workflows are started concurrently. Further starts would only wait for the
// connection.
const starters = 64

// oneByOne retries every message of a topic with its own workflow. It starts the workflows as fast as it
// can. For the end it polls the table, which costs the server less than a wait for each workflow.
func (e *engine) oneByOne(ctx context.Context, db *database, topic string) (messages int, took time.Duration, err error) {
	var ids [][16]byte
	err = db.pool.QueryRow(ctx, "SELECT array_agg(id) FROM dlq.dlq_messages WHERE dlq_topic = $1 AND status = 'PENDING'", topic).Scan(&ids)
	if err != nil {
		return 0, 0, err
	}
	executions := make([]workflows.Execution, len(ids))
	started := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(starters)
	for i, id := range ids {
		group.Go(func() (err error) {
			executions[i], err = e.client.StartRetryMessage(groupCtx, nil, &dlq.Message{}, workflows.RetryMessageInput{MessageID: dlq.ID(id)})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	for left := 1; left > 0; {
		err := db.pool.QueryRow(ctx,
			"SELECT count(*) FROM dlq.dlq_messages WHERE dlq_topic = $1 AND status IN ('PENDING', 'RETRYING')", topic).Scan(&left)
		if err != nil {
			return 0, 0, err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
	took = time.Since(started)
	// This loop waits until all workflows have ended. The next run has messages with the same ids, and its
	// retries would join a running workflow.
	for _, execution := range executions {
		if _, err := e.client.AwaitRetryMessage(ctx, execution); err != nil {
			return 0, 0, err
		}
	}
	return len(ids), took, nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
