package main

import (
	"context"
	"fmt"
	"time"

	"dlqmanager/dlq"
)

// listSize is the default page size of the API.
const listSize = 20

// measureLists compares lists of the large table with the first page of its messages. As in
// the API, every list also counts its total.
func (b *bench) measureLists(ctx context.Context) error {
	large, err := b.largeTable(ctx)
	if err != nil {
		return err
	}
	topic := dlq.Filter{Topic: storedTopic + ".dlq"}
	first := dlq.ListQuery{Filter: topic, Page: 1, PageSize: listSize}
	newest, err := large.store.List(ctx, first)
	if err != nil || len(newest.Messages) == 0 {
		return fmt.Errorf("the first page: %d messages, %w", len(newest.Messages), err)
	}
	last := newest.Messages[0].Keyset()
	all := b.stored + b.stored/20
	back := func(messages int) dlq.Keyset {
		return dlq.Keyset{CreatedAt: last.CreatedAt.Add(-time.Duration(messages) * time.Millisecond), Seq: last.Seq - int64(messages)}
	}
	near, middle := back(all-3*listSize), back(all/2).CreatedAt
	with := func(change func(*dlq.ListQuery)) dlq.ListQuery {
		q := first
		change(&q)
		return q
	}
	yes := true
	lists := []struct {
		name  string
		query dlq.ListQuery
	}{
		{"page at the end, by cursor", with(func(q *dlq.ListQuery) { q.After = &near })},
		{"oldest first", with(func(q *dlq.ListQuery) { q.OldestFirst = true })},
		{"one status", with(func(q *dlq.ListQuery) { q.Statuses = []dlq.Status{dlq.StatusDead} })},
		{"one status that no message has", with(func(q *dlq.ListQuery) { q.Statuses = []dlq.Status{dlq.StatusResolved} })},
		{"created in the older half", with(func(q *dlq.ListQuery) { q.CreatedTo = middle })},
		{"one key, of " + count(float64(all/sampleCount/rareEvery)) + " messages", with(func(q *dlq.ListQuery) { q.Key = b.samples[rareSample].Record.Key })},
		{"one key, of " + count(float64(all/sampleCount)) + " messages", with(func(q *dlq.ListQuery) { q.Key = b.samples[rareSample-1].Record.Key })},
		{"one group, of " + count(float64(all/manyGroups)) + " messages", with(func(q *dlq.ListQuery) { q.Group = newest.Messages[0].GroupID })},
		{"text that nobody has", with(func(q *dlq.ListQuery) { q.ErrorContains = "no message has this" })},
		{"one class, of " + count(float64(all/sampleCount)) + " messages", with(func(q *dlq.ListQuery) { q.Class = "CardExpiredException" })},
		{"one consumer group, of " + count(float64(all/sampleCount)) + " messages", with(func(q *dlq.ListQuery) { q.ConsumerGroup = rareConsumer })},
		{"one origin partition and offset", with(func(q *dlq.ListQuery) { q.OriginPartition, q.OriginOffset = new(int32), new(int64) })},
		{"one trace id", with(func(q *dlq.ListQuery) { q.TraceID = fmt.Sprintf("%032x", 7) })},
		{"one correlation id, of 3 messages", with(func(q *dlq.ListQuery) { q.CorrelationID = "order-7" })},
		{"suspicious, which no message is", with(func(q *dlq.ListQuery) { q.Suspicious = &yes })},
		{"one tenant header in twenty", with(func(q *dlq.ListQuery) { q.Headers = map[string]string{"tenant": "tenant-7"} })},
		{"part of the error, one message in ten", with(func(q *dlq.ListQuery) { q.ErrorContains = rareError })},
	}
	times, base := make([]spread, len(lists)), make([]spread, len(lists))
	for run := range b.runs {
		b.step("lists, run %d of %d", run+1, b.runs)
		for i, list := range lists {
			ours, page, err := listAlternately(ctx, large, list.query, first, b.calls)
			if err != nil {
				return err
			}
			times[i], base[i] = append(times[i], ours), append(base[i], page)
		}
	}
	for i, list := range lists {
		b.add(row{number: 9, label: "list: " + list.name,
			title: "list of " + count(float64(b.stored)) + " messages: " + list.name + "; baseline: its first page",
			ours:  times[i].show(milliseconds), base: base[i].show(milliseconds), judged: times[i].over(base[i]), goal: goal{atMost: 2}})
	}
	nobody := with(func(q *dlq.ListQuery) { q.Headers = map[string]string{"tenant": "nobody"} })
	var searched, looked spread
	for range b.runs {
		took, _, err := listAlternately(ctx, large, nobody, first, 1)
		if err != nil {
			return err
		}
		page, err := large.store.List(ctx, nobody)
		if err != nil {
			return err
		}
		searched, looked = append(searched, took), append(looked, float64(page.Searched.Messages))
	}
	b.add(row{number: 9, label: "list: a header that nobody has",
		title: "one request for a header that nobody has, among " + count(float64(b.stored)) + " messages",
		ours:  searched.show(milliseconds), judged: searched, format: milliseconds, goal: goal{atMost: 500},
		notes: []string{"it looks at " + looked.show(count) + " messages"}})
	return nil
}

// listAlternately times two lists, call by call, and returns the p50 of each in
// milliseconds.
func listAlternately(ctx context.Context, db *database, query, baseline dlq.ListQuery, calls int) (ours, base float64, err error) {
	var a, b spread
	for range calls {
		for _, side := range []struct {
			query dlq.ListQuery
			times *spread
		}{{query, &a}, {baseline, &b}} {
			started := time.Now()
			if _, err := db.store.List(ctx, side.query); err != nil {
				return 0, 0, err
			}
			*side.times = append(*side.times, float64(time.Since(started).Microseconds())/1000)
		}
	}
	return a.median(), b.median(), nil
}
