package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"dlqmanager/activities"
	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/webhook"
)

// endpointConcurrency is the default of an endpoint's concurrency in the configuration.
const endpointConcurrency = 16

// measureEndpoint measures a bulk retry whose target is an HTTP endpoint. The baseline is a loop that only
// sends.
func (b *bench) measureEndpoint(ctx context.Context) error {
	if err := b.template(ctx, "endpoint", seedTopic{name: bulkTopic, pending: b.few}); err != nil {
		return err
	}
	var ours, loop spread
	for run := range b.runs {
		b.step("endpoint, run %d of %d", run+1, b.runs)
		server, address, err := startEndpoint(ctx)
		if err != nil {
			return err
		}
		err = b.onCopy(ctx, "endpoint", func(db *database, _ *broker) error { return b.endpointOurs(ctx, &ours, db, address) })
		if err == nil {
			runtime.GC()
			err = b.endpointLoop(ctx, &loop, address)
		}
		if err = errors.Join(err, server.Close()); err != nil {
			return err
		}
	}
	b.add(row{number: 22, label: "bulk retry to an HTTP endpoint that takes 5 ms",
		title: fmt.Sprintf("bulk retry of %s messages to an HTTP endpoint that takes 5 ms, %d requests at once; baseline: a loop over messages "+
			"in memory that only sends, with as many requests at once", count(float64(b.few)), endpointConcurrency),
		ours: ours.show(perSecond), base: loop.show(perSecond), judged: ours.over(loop), goal: goal{atLeast: 0.8}})
	return nil
}

// startEndpoint starts an endpoint that takes 5 ms for each request.
func startEndpoint(ctx context.Context) (*http.Server, string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(5 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = server.Serve(listener) }()
	return server, "http://" + listener.Addr().String(), nil
}

func (b *bench) endpointOurs(ctx context.Context, rates *spread, db *database, address string) error {
	folder, err := os.MkdirTemp("", "dlq-bench-endpoint-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	secrets := filepath.Join(folder, "secrets")
	if err := os.WriteFile(secrets, []byte("a secret of the benchmark"), 0o600); err != nil {
		return err
	}
	publisher, err := webhook.New(webhook.Options{
		Endpoints:       map[string]webhook.Endpoint{"shop": {URL: address, Timeout: 10 * time.Second, Concurrency: endpointConcurrency, SecretsFile: secrets}},
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Metrics: kafka.NewPublishMetrics(prometheus.NewRegistry()),
		Original: func(ctx context.Context, e *dlq.Envelope) (dlq.Record, error) { return kafka.Original(ctx, e, nil) },
	}, zap.NewNop())
	if err != nil {
		return err
	}
	defer publisher.Close()
	topics, err := dlq.NewTopics([]string{"*.dlq"}, nil)
	if err != nil {
		return err
	}
	targets, err := dlq.NewTargets(topics, map[string]string{bulkTopic: dlq.EndpointTarget("shop")}, nil, []string{"shop"})
	if err != nil {
		return err
	}
	e, err := b.startEngine(b.tuned, db, &activities.Router{Targets: targets, HTTP: publisher})
	if err != nil {
		return err
	}
	defer e.stop()
	j, err := e.retryAll(ctx, bulkTopic+".dlq", b.lanes, b.few)
	if err != nil {
		return err
	}
	*rates = append(*rates, rate(b.few, j.took))
	b.step("       ours %s, %s", perSecond((*rates)[len(*rates)-1]), e.timings.shares(b.lanes, j.took))
	return nil
}

// endpointLoop only sends the values of the samples.
func (b *bench) endpointLoop(ctx context.Context, rates *spread, address string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: endpointConcurrency, MaxConnsPerHost: endpointConcurrency, DisableCompression: true}}
	defer client.CloseIdleConnections()
	arrivals := copies(b.samples, b.few)
	started := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(endpointConcurrency)
	for i := range arrivals {
		group.Go(func() error {
			request, err := http.NewRequestWithContext(groupCtx, http.MethodPost, address, bytes.NewReader(arrivals[i].Record.Value))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != http.StatusNoContent {
				return fmt.Errorf("the endpoint answered %s", response.Status)
			}
			_, err = io.Copy(io.Discard, response.Body)
			return err
		})
	}
	err := group.Wait()
	*rates = append(*rates, rate(b.few, time.Since(started)))
	b.step("       loop %s", perSecond((*rates)[len(*rates)-1]))
	return err
}
