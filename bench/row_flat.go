package main

import (
	"context"
	"fmt"
	"time"

	"dlqmanager/dlq"
	"dlqmanager/workflows"
)

// measureFlat measures operations whose time must not grow with the table: the start of a job, reads of
// groups, and the summary of all topics, which the metrics use too. A job of another topic runs meanwhile.
// The operations are compared with the same operations on a small table with the same topics.
func (b *bench) measureFlat(ctx context.Context) (err error) {
	large, err := b.largeTable(ctx)
	if err != nil {
		return err
	}
	if err := b.template(ctx, "flat", b.topicsWith(b.few)...); err != nil {
		return err
	}
	// Earlier rows may have left changes of counts, which the sweeper adds up every 20 s.
	if err := large.store.FoldCounts(ctx); err != nil {
		return err
	}
	if err := large.exec(ctx, "VACUUM dlq.dlq_count_batches"); err != nil {
		return err
	}
	return b.onCopy(ctx, "flat", func(small *database, _ *broker) error {
		for _, call := range []struct {
			row  int
			name string
			do   func(context.Context, *database) error
		}{
			{14, "summary of all topics", func(ctx context.Context, db *database) error {
				_, err := db.store.Topics(ctx)
				return err
			}},
			{14, "start of a job beside a running one", func(ctx context.Context, db *database) error {
				return startAndEnd(ctx, db, storedTopic+".dlq")
			}},
			{19, "list of 10,000 groups, the newest causes first", listGroups(dlq.GroupsByFirstSeen)},
			{19, "list of 10,000 groups, the most PENDING messages first", listGroups(dlq.GroupsByPending)},
			{19, "one of 10,000 groups", readGroup},
		} {
			if !b.wants(call.row) {
				continue
			}
			if err := b.flatRow(ctx, call.row, call.name, call.do, large, small); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) flatRow(ctx context.Context, number int, name string, call func(context.Context, *database) error, large, small *database) error {
	var many, few spread
	for run := range b.runs {
		b.step("%s, run %d of %d", name, run+1, b.runs)
		var inMany, inFew spread
		for range b.calls {
			for db, times := range map[*database]*spread{large: &inMany, small: &inFew} {
				took, err := besideAJob(ctx, db, call)
				if err != nil {
					return err
				}
				*times = append(*times, took)
			}
		}
		many, few = append(many, inMany.median()), append(few, inFew.median())
		b.step("       %s and %s", milliseconds(many[run]), milliseconds(few[run]))
	}
	b.add(row{number: number, label: name + ", large table vs small",
		title: fmt.Sprintf("%s with %s messages of the topic; baseline: with %s", name, count(float64(b.stored)), count(float64(b.few))),
		ours:  many.show(milliseconds), base: few.show(milliseconds), judged: many.over(few), goal: goal{atMost: 2}})
	return nil
}

// besideAJob returns the time of a call in milliseconds, while a job of another topic runs.
func besideAJob(ctx context.Context, db *database, call func(context.Context, *database) error) (took float64, err error) {
	other, err := createBulk(ctx, db, fewTopic+".dlq")
	if err != nil {
		return 0, err
	}
	started := time.Now()
	err = call(ctx, db)
	took = float64(time.Since(started).Microseconds()) / 1000
	if err == nil {
		_, err = db.store.EndJob(ctx, nil, other, dlq.JobCancelled, "")
	}
	return took, err
}

// manyGroups is how many groups the messages of the large topic form.
const manyGroups = 10_000

func listGroups(sort dlq.GroupSort) func(context.Context, *database) error {
	return func(ctx context.Context, db *database) error {
		page, err := db.store.Groups(ctx, dlq.GroupQuery{Topic: storedTopic + ".dlq", Sort: sort, PageSize: listSize})
		if err == nil && len(page.Entries) != listSize {
			err = fmt.Errorf("%d groups", len(page.Entries))
		}
		return err
	}
}

func readGroup(ctx context.Context, db *database) error {
	page, err := db.store.Groups(ctx, dlq.GroupQuery{Topic: storedTopic + ".dlq", PageSize: 1})
	if err != nil || len(page.Entries) != 1 {
		return fmt.Errorf("%d groups, %w", len(page.Entries), err)
	}
	_, err = db.store.Group(ctx, page.Entries[0].ID, "")
	return err
}

func startAndEnd(ctx context.Context, db *database, topic string) error {
	id, err := createBulk(ctx, db, topic)
	if err == nil {
		_, err = db.store.EndJob(ctx, nil, id, dlq.JobCancelled, "")
	}
	return err
}

func createBulk(ctx context.Context, db *database, topic string) (dlq.ID, error) {
	id := dlq.NewID()
	created, err := db.store.CreateJob(ctx, nil, dlq.Job{ID: id, WorkflowID: workflows.JobWorkflowID(dlq.KindRetry, id), Lanes: 4,
		Spec: dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: topic}, Order: dlq.OrderKey}})
	if err == nil && created.ID != id {
		err = fmt.Errorf("job %s blocks the new one", created.ID)
	}
	return id, err
}
