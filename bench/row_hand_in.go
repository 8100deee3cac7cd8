package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/dlq"
)

// handInBatch is how many dead letters a request hands in.
const handInBatch = 100

// measureHandIn compares the API that takes dead letters over HTTP with the ingest of the same
// messages, without the time in which the ingest reads them from Kafka.
func (b *bench) measureHandIn(ctx context.Context) error {
	if err := b.template(ctx, "empty"); err != nil {
		return err
	}
	messages := b.messages / 2
	arrivals := copies(b.samples, messages)
	bodies, err := handInBodies(arrivals)
	if err != nil {
		return err
	}
	var ours, ingest spread
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
		took, err := b.ingestOnce(ctx, arrivals, ingestBatch, storeArrivals)
		if err != nil {
			return err
		}
		ingest = append(ingest, rate(messages, took))
	}
	b.add(row{number: 21, label: "handed in over HTTP vs ingest",
		title: "dead letters of 1 KB handed in over HTTP, batches of 100; baseline: the ingest of the same ones in batches of 500, without reading Kafka",
		ours:  ours.show(perSecond), base: ingest.show(perSecond), judged: ours.over(ingest), goal: goal{atLeast: 0.5},
		notes: []string{"both use as many connections as there are lanes; the API is the released program, and this process makes the requests"}})
	return nil
}

// handInBodies are the requests for the messages.
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
