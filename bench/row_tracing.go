package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
)

// measureTracing compares bulk retries with and without tracing in the worker.
func (b *bench) measureTracing(ctx context.Context) error {
	if err := b.template(ctx, "bulk", seedTopic{name: bulkTopic, pending: b.messages}, seedTopic{name: singleTopic, pending: b.single}); err != nil {
		return err
	}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer collector.Close()
	on := []string{"DLQ_TRACING_ENDPOINT=" + collector.URL, "DLQ_TRACING_PROTOCOL=http/protobuf"}
	var off, some, all spread
	for run := range b.runs {
		b.step("tracing, run %d of %d", run+1, b.runs)
		for _, side := range []struct {
			to  *spread
			env []string
		}{{&off, nil}, {&some, append(on[:2:2], "DLQ_TRACING_SAMPLE_RATIO=0.01")}, {&all, on}} {
			_, speed, err := b.memoryOf(ctx, "bulk", bulkTopic, b.messages, side.env...)
			if err != nil {
				return err
			}
			*side.to = append(*side.to, speed)
		}
	}
	title := "bulk retry with tracing, of which the collector gets "
	b.add(row{number: 23, label: "bulk retry, traces at 1 % vs none", title: title + "1 %; baseline: without tracing",
		ours: some.show(perSecond), base: off.show(perSecond), judged: some.over(off), goal: goal{atLeast: 0.97},
		notes: []string{"a separate worker process; the collector is in this process, and discards what it gets"}})
	b.add(row{number: 23, label: "bulk retry, all traces vs none", title: title + "all; baseline: without tracing",
		ours: all.show(perSecond), base: off.show(perSecond), judged: all.over(off), goal: goal{atLeast: 0.9}})
	return nil
}
