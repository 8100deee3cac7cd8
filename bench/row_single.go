package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// singleWarmUp is the number of untimed calls before the timed calls.
const singleWarmUp = 5

// singleServer is a Temporal server for single retries.
type singleServer struct {
	name string
	*temporal
	note string
	// rest is the pause before each call, so that the system is idle.
	rest time.Duration
}

// measureSingle retries messages one at a time, over REST with the released programs. The baseline has the
// same claim, publish and finalize, but no Temporal.
func (b *bench) measureSingle(ctx context.Context) error {
	need := 2 * b.runs * (b.calls + singleWarmUp)
	if err := b.template(ctx, "single", seedTopic{name: singleTopic, pending: need}); err != nil {
		return err
	}
	untuned, err := b.startTemporal(ctx, "default", false)
	if err != nil {
		return err
	}
	defer untuned.stop(ctx)
	for _, server := range []singleServer{
		{"tuned Temporal server", b.tuned,
			"the API and the worker are separate processes; the call waits for the result", 100 * time.Millisecond},
		// This server limits the rate of tasks. With a shorter rest, a retry would wait because of the
		// previous retry.
		{"default Temporal development server", untuned,
			"that server hands out 20 tasks a second, and one retry takes several", 300 * time.Millisecond},
	} {
		err := b.onCopy(ctx, "single", func(db *database, k *broker) error {
			return b.singleOn(ctx, b.newSite(db, k, server.temporal), server)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) singleOn(ctx context.Context, s *site, server singleServer) (err error) {
	for _, program := range []string{"worker", "api"} {
		p, startErr := b.start(ctx, s, program)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, p.kill()) }()
		if program == "api" {
			defer http.DefaultClient.CloseIdleConnections()
			err = b.singleRuns(ctx, s, p.base, server)
		}
	}
	return err
}

func (b *bench) singleRuns(ctx context.Context, s *site, base string, server singleServer) error {
	publisher, err := s.broker.publisher()
	if err != nil {
		return err
	}
	defer publisher.Close()
	var ids [][16]byte
	if err := s.db.pool.QueryRow(ctx, "SELECT array_agg(id) FROM dlq.dlq_messages WHERE status = 'PENDING'").Scan(&ids); err != nil {
		return err
	}
	var ours, direct, ratios spread
	for run := range b.runs {
		b.step("single retries, %s, run %d of %d", server.name, run+1, b.runs)
		var rest, steps spread
		for call := range b.calls + singleWarmUp {
			id := dlq.ID(ids[0])
			ours, err := timed(ctx, server.rest, func() error { return retryOverREST(ctx, base, id) })
			if err != nil {
				return err
			}
			id, ids = dlq.ID(ids[1]), ids[2:]
			direct, err := timed(ctx, server.rest, func() error { return retryDirectly(ctx, s.db, publisher, id) })
			if err != nil {
				return err
			}
			if call >= singleWarmUp {
				rest, steps = append(rest, ours), append(steps, direct)
			}
		}
		ours, direct = append(ours, rest...), append(direct, steps...)
		ratios = append(ratios, rest.median()/steps.median())
	}
	percentiles := func(s spread) string {
		return fmt.Sprintf("p50 %s, p99 %s", milliseconds(s.median()), milliseconds(s.quantile(0.99)))
	}
	b.add(row{number: 7, label: "single retry vs direct calls, " + server.name,
		title: "retry of one message over REST, " + server.name + "; baseline: the three steps called directly",
		ours:  percentiles(ours), base: percentiles(direct), judged: ratios, goal: goal{atMost: 15},
		notes: []string{fmt.Sprintf("%s: %s; %d calls of each kind, alternately, %s apart", server.name, server.note, len(ours), server.rest)}})
	return nil
}

// timed pauses, and then measures one call in milliseconds.
func timed(ctx context.Context, rest time.Duration, call func() error) (float64, error) {
	if err := pause(ctx, rest); err != nil {
		return 0, err
	}
	started := time.Now()
	err := call()
	return float64(time.Since(started).Microseconds()) / 1000, err
}

func retryOverREST(ctx context.Context, base string, id dlq.ID) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/v1/dlq/messages/"+id.String()+"/retry", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status dlq.Status `json:"status"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != dlq.StatusResolved {
		return fmt.Errorf("retry of %s: %s: %s", id, response.Status, body)
	}
	return nil
}

func retryDirectly(ctx context.Context, db *database, publisher activities.Publisher, id dlq.ID) error {
	owner := dlq.Owner{WorkflowID: "direct", Token: dlq.NewID().String()}
	if _, err := db.store.Claim(ctx, id, owner, dlq.ID{}); err != nil {
		return err
	}
	envelope, err := db.store.Envelope(ctx, id, owner)
	if err != nil {
		return err
	}
	if err := publisher.Publish(ctx, []dlq.Envelope{envelope}, dlq.OrderKey, nil)[0].Err; err != nil {
		return err
	}
	_, _, err = db.store.Finalize(ctx, owner, dlq.Outcome{ID: id, Result: dlq.ResultDelivered})
	return err
}
