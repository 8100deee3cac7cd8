package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"dlqmanager/dlq"
)

// measureConsole measures the first view of pages of the console, with the large table and its 10,000 groups. The time from
// the request to the last byte includes all calls of the API that the page makes.
func (b *bench) measureConsole(ctx context.Context) (err error) {
	large, err := b.largeTable(ctx)
	if err != nil {
		return err
	}
	k, err := startBroker(ctx, storedTopic)
	if err != nil {
		return err
	}
	defer k.stop(ctx)
	api, err := b.start(ctx, b.newSite(large, k, b.tuned), "api")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.kill()) }()
	groups, err := large.store.Groups(ctx, dlq.GroupQuery{Topic: storedTopic + ".dlq", Sort: dlq.GroupsByPending, PageSize: 1})
	if err != nil || len(groups.Entries) != 1 {
		return fmt.Errorf("%d groups, %w", len(groups.Entries), err)
	}
	messages, err := large.store.List(ctx, dlq.ListQuery{Filter: dlq.Filter{Topic: storedTopic + ".dlq"}, PageSize: 1})
	if err != nil || len(messages.Messages) != 1 {
		return fmt.Errorf("%d messages, %w", len(messages.Messages), err)
	}
	for _, page := range []struct{ name, path string }{
		{"overview", "/"}, {"topic", "/topics/" + storedTopic + ".dlq"}, {"causes", "/groups"}, {"cause", "/groups/" + groups.Entries[0].ID.String()},
		{"message", "/messages/" + messages.Messages[0].ID.String()}, {"jobs", "/jobs"},
	} {
		var times spread
		for run := range b.runs {
			b.step("console: %s, run %d of %d", page.name, run+1, b.runs)
			var of spread
			for range b.calls {
				took, err := timed(ctx, 0, func() error { return openPage(ctx, api.base+page.path) })
				if err != nil {
					return err
				}
				of = append(of, took)
			}
			times = append(times, of.median())
		}
		b.add(row{number: 25, label: "console: " + page.name, ours: times.show(milliseconds), judged: times, format: milliseconds, goal: goal{atMost: 100},
			title: fmt.Sprintf("first view of the console's page %s, with %s messages and %s groups", page.name, count(float64(b.stored)), count(manyGroups))})
	}
	return nil
}

func openPage(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, response.Body); response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %d", address, response.StatusCode)
	}
	return errors.Join(err, response.Body.Close())
}
