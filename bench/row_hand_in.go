package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/dlq"
)

// handInBatch is how many dead letters one request to the API hands in.
const handInBatch = 100

// measureHandIn compares an API that receives dead letters over HTTP with a worker that ingests
// the same messages from Kafka.
func (b *bench) measureHandIn(ctx context.Context) error {
	if err := b.template(ctx, "empty"); err != nil {
		return err
	}
	messages := b.messages / 2
	bodies, err := handInBodies(copies(b.samples, messages))
	if err != nil {
		return err
	}
	var ours, fromKafka spread
	for run := range b.runs {
		b.step("hand in, run %d of %d", run+1, b.runs)
		err := b.onCopy(ctx, "empty", func(db *database, k *broker) error {
			took, err := b.handIn(ctx, b.newSite(db, k, b.tuned), bodies)
			ours = append(ours, rate(messages, took))
			return err
		})
		if err != nil {
			return err
		}
		err = b.onCopy(ctx, "empty", func(db *database, k *broker) error {
			took, err := b.ingestFromKafka(ctx, b.newSite(db, k, b.tuned), messages)
			fromKafka = append(fromKafka, rate(messages, took))
			return err
		})
		if err != nil {
			return err
		}
		b.step("       ours %s, from Kafka %s", perSecond(ours[run]), perSecond(fromKafka[run]))
	}
	b.add(row{number: 21, label: "handed in over HTTP vs ingest from Kafka",
		title: "dead letters of 1 KB handed in over HTTP, batches of 100; baseline: a worker that ingests the same ones from Kafka",
		ours:  ours.show(perSecond), base: fromKafka.show(perSecond), judged: ours.over(fromKafka), goal: goal{atLeast: 0.5},
		notes: []string{"the API and the worker are the released programs; this process makes the requests, and has the broker"}})
	return nil
}

// ingestFromKafka lets a worker ingest messages from Kafka, and returns the time from its first
// transaction to its last.
func (b *bench) ingestFromKafka(ctx context.Context, s *site, messages int) (took time.Duration, err error) {
	if err := b.fill(ctx, s.broker, bulkTopic+".dlq", messages); err != nil {
		return 0, err
	}
	worker, err := b.start(ctx, s, "worker")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.kill()) }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for stored := 0; stored < messages; {
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return 0, worker.failed("it does not ingest all messages")
		}
		err := s.db.pool.QueryRow(ctx, "SELECT count(*), coalesce(max(created_at) - min(created_at), '0') FROM dlq.dlq_messages").Scan(&stored, &took)
		if err != nil {
			return 0, err
		}
	}
	return took, nil
}

// handInBodies are the bodies of the requests that hand in the messages.
func handInBodies(arrivals []dlq.Arrival) (bodies [][]byte, err error) {
	type letter struct {
		Value   json.RawMessage   `json:"value"`
		Key     string            `json:"key"`
		Headers map[string]string `json:"headers"`
		Error   map[string]string `json:"error"`
	}
	for from := 0; from < len(arrivals); from += handInBatch {
		var letters []letter
		for i := from; i < min(from+handInBatch, len(arrivals)); i++ {
			a := &arrivals[i]
			l := letter{Value: a.Record.Value, Key: string(a.Record.Key), Headers: map[string]string{}, Error: map[string]string{"message": a.ErrorMessage}}
			for _, h := range a.Record.Headers {
				l.Headers[h.Key] = string(h.Value)
			}
			letters = append(letters, l)
		}
		body, err := json.Marshal(map[string]any{"messages": letters})
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// handIn sends the requests over as many connections as there are lanes.
func (b *bench) handIn(ctx context.Context, s *site, bodies [][]byte) (took time.Duration, err error) {
	api, err := b.start(ctx, s, "api", "DLQ_SERVER_RATE_LIMIT=0")
	if err != nil {
		return 0, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: b.lanes}}
	started := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for lane := range b.lanes {
		group.Go(func() error {
			for i := lane; i < len(bodies); i += b.lanes {
				if err := post(groupCtx, client, api.base+"/api/v1/dlq/orders.dlq/messages", bodies[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	took = time.Since(started)
	client.CloseIdleConnections()
	if killErr := api.kill(); err == nil {
		err = killErr
	}
	return took, err
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s answered %d: %s", url, response.StatusCode, answer)
	}
	return err
}
