package api

import (
	"maps"
	"slices"
	"sync"
	"time"

	"dlqmanager/dlq"
)

// The first refused request of a sender is recorded at once. Further requests with the same route and answer are counted for
// refusalWindow, and then recorded as one row: nobody can delete rows for a month. maxRefusals bounds the memory. A metric
// counts the requests that exceed it.
const (
	refusalWindow = time.Minute
	maxRefusals   = 10_000
)

// refusal has the values that requests must have in common to be counted together.
type refusal struct {
	client, route, code string
	outcome             dlq.OperationOutcome
}

// repeated counts the refused requests that followed the first refused request.
type repeated struct {
	last  dlq.Operation
	count int
	end   *time.Timer
}

// refusals has the refused requests of the last refusalWindow.
type refusals struct {
	window time.Duration
	record func(dlq.Operation)

	mu   sync.Mutex
	open map[refusal]*repeated
}

func newRefusals(window time.Duration, record func(dlq.Operation)) *refusals {
	return &refusals{window: window, record: record, open: map[refusal]*repeated{}}
}

// add counts a refused request. If isFirst is set, the caller must record the request. Otherwise isCounted tells whether a
// later row includes it.
func (r *refusals) add(key refusal, o dlq.Operation) (isFirst, isCounted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.open[key]; known != nil {
		known.last, known.count = o, known.count+1
		return false, true
	}
	if len(r.open) >= maxRefusals {
		return false, false
	}
	r.open[key] = &repeated{end: time.AfterFunc(r.window, func() { r.close(key) })}
	return true, true
}

// close ends the window of a refusal, and records the count.
func (r *refusals) close(key refusal) {
	r.mu.Lock()
	ended := r.open[key]
	delete(r.open, key)
	r.mu.Unlock()
	if ended == nil {
		return
	}
	ended.end.Stop()
	if ended.count > 0 {
		o := ended.last
		o.TargetID, o.Topic, o.Reason = dlq.ID{}, "", "" // these may differ between the requests
		describe(&o, map[string]any{"code": key.code, "count": ended.count})
		r.record(o)
	}
}

func (r *refusals) flush() {
	r.mu.Lock()
	keys := slices.Collect(maps.Keys(r.open))
	r.mu.Unlock()
	for _, key := range keys {
		r.close(key)
	}
}
