package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
	"dlqmanager/kafka"
	"dlqmanager/webhook"
)

func TestReceiptsArePrintedOnceAndRefusedForGood(t *testing.T) {
	t.Parallel()
	ctx, brokers := testContext(t), startBroker(t)
	secret, err := ReceiptsSecret(t.TempDir())
	require.NoError(t, err)
	again, err := ReceiptsSecret(filepath.Dir(secret))
	require.NoError(t, err)
	require.Equal(t, secret, again)
	o := Options{Brokers: brokers, ReceiptsAddress: "x", ReceiptsSecret: secret}
	o.setDefaults()
	_, err = o.prepare(ctx)
	require.NoError(t, err)
	client, err := o.client()
	require.NoError(t, err)
	defer client.Close()
	service, err := o.openReceipts(ctx, client, 1001, func(string, ...any) {})
	require.NoError(t, err)
	server := httptest.NewServer(service)
	defer server.Close()
	letters := readAll(ctx, t, brokers, receiptLetters, receiptsDLQ)
	require.Len(t, letters, receiptLetters)

	publish := func(secrets string, e dlq.Envelope) error {
		publisher, err := webhook.New(webhook.Options{
			Endpoints:       map[string]webhook.Endpoint{"shop": {URL: server.URL, Timeout: 5 * time.Second, Concurrency: 1, SecretsFile: secrets}},
			AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Metrics: kafka.NewPublishMetrics(nil),
			Original: func(ctx context.Context, e *dlq.Envelope) (dlq.Record, error) { return kafka.Original(ctx, e, nil) },
		}, zap.NewNop())
		require.NoError(t, err)
		return publisher.Publish(ctx, []dlq.Envelope{e}, dlq.OrderKey, nil)[0].Err
	}
	receipt := func(value string) dlq.Envelope {
		return dlq.Envelope{ID: dlq.NewID(), TargetTopic: "http:shop", OriginalTopic: Receipts, Record: dlq.Record{Value: []byte(value)}}
	}
	good := receipt(`{"order":1,"cents":5}`)
	require.NoError(t, publish(secret, good))
	require.NoError(t, publish(secret, good), "it is known by its idempotency key")
	require.Len(t, service.printed, 1)
	require.ErrorContains(t, publish(secret, receipt(`{"order":2}`)), "489: a receipt needs an amount")
	warming := receipt(`{"order":5,"cents":5}`)
	require.ErrorContains(t, publish(secret, warming), "503")
	require.NoError(t, publish(secret, warming))
	wrong := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(wrong, []byte("another"), 0o600))
	require.ErrorContains(t, publish(wrong, good), "489: the signature is wrong")
	response, err := http.Post(server.URL, "application/json", strings.NewReader(`{"order":1,"cents":5}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 489, response.StatusCode)
}
