package main

import (
	"context"
	"fmt"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// plainChanges are the statements of a plain loop that makes the same change as a bulk change.
// A statement changes up to 1,000 messages. The loop ends when a statement changes none.
var plainChanges = map[dlq.JobKind]string{
	dlq.KindRevive: `
		UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0, updated_at = now()
		WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE dlq_topic = 'orders.dlq' AND status = 'DEAD' LIMIT 1000)`,
	dlq.KindDead: `
		UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now()
		WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE dlq_topic = 'orders.dlq' AND status = 'PENDING' LIMIT 1000)`,
	dlq.KindDelete: `
		WITH gone AS (
			DELETE FROM dlq.dlq_messages
			WHERE id IN (SELECT id FROM dlq.dlq_messages WHERE dlq_topic = 'orders.dlq' AND status <> 'RETRYING' LIMIT 1000)
			RETURNING id
		), bodies AS (
			DELETE FROM dlq.dlq_message_bodies WHERE message_id IN (SELECT id FROM gone)
		)
		SELECT FROM gone`,
}

// measureChanges compares bulk changes with a plain loop.
func (b *bench) measureChanges(ctx context.Context) error {
	for name, topic := range map[string]seedTopic{
		"bulk": {name: bulkTopic, pending: b.messages}, "dead": {name: bulkTopic, dead: b.messages},
	} {
		if err := b.template(ctx, name, topic); err != nil {
			return err
		}
	}
	for _, action := range dlq.JobKinds {
		if plainChanges[action] == "" {
			continue // a restore reads the archive, which is empty in this database
		}
		template := "bulk"
		if action == dlq.KindRevive {
			template = "dead"
		}
		var ours, plain spread
		for run := range b.runs {
			b.step("bulk change %s, run %d of %d", action, run+1, b.runs)
			for result, measure := range map[*spread]func(context.Context, *database, dlq.JobKind) (time.Duration, error){
				&ours: b.bulkChange, &plain: b.plainChange,
			} {
				err := b.onCopy(ctx, template, func(db *database, _ *broker) error {
					took, err := measure(ctx, db, action)
					*result = append(*result, rate(b.messages, took))
					return err
				})
				if err != nil {
					return err
				}
			}
			b.step("       ours %s, plain loop %s", perSecond(ours[run]), perSecond(plain[run]))
		}
		b.add(row{number: 17, label: fmt.Sprintf("bulk change %s vs a plain loop", action),
			title: fmt.Sprintf("bulk change %s of %s messages; baseline: a plain loop of statements that change 1,000 messages each",
				action, count(float64(b.messages))),
			ours: ours.show(perSecond), base: plain.show(perSecond), judged: ours.over(plain), goal: goal{atLeast: 1}})
	}
	return nil
}

// bulkChange runs a bulk change of the topic and waits for its end, like a caller of the
// REST API.
func (b *bench) bulkChange(ctx context.Context, db *database, action dlq.JobKind) (time.Duration, error) {
	e, err := b.startEngine(b.tuned, db, nil)
	if err != nil {
		return 0, err
	}
	defer e.stop()
	started := time.Now()
	id := dlq.NewID()
	job, err := db.store.CreateJob(ctx, nil, dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(action, id),
		Spec: dlq.JobSpec{Kind: action, Filter: dlq.Filter{Topic: bulkTopic + ".dlq"}}})
	if err == nil {
		_, err = e.client.StartJob(ctx, nil, job)
	}
	if err == nil {
		var result workflows.JobResult
		result, err = e.client.AwaitJob(ctx, job)
		job = result.Job
	}
	if err == nil && job.Counts.Changed != int64(b.messages) {
		err = fmt.Errorf("%d of %d messages were changed", job.Counts.Changed, b.messages)
	}
	return time.Since(started), err
}

// plainChange runs the plain loop.
func (b *bench) plainChange(ctx context.Context, db *database, action dlq.JobKind) (time.Duration, error) {
	started := time.Now()
	changed := int64(0)
	for {
		result, err := db.pool.Exec(ctx, plainChanges[action])
		if err != nil {
			return 0, err
		}
		if result.RowsAffected() == 0 {
			break
		}
		changed += result.RowsAffected()
	}
	if changed != int64(b.messages) {
		return 0, fmt.Errorf("the plain loop changed %d of %d messages", changed, b.messages)
	}
	return time.Since(started), nil
}
