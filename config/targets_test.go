package config_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/config"
)

func TestEndpointsHaveDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
targets:
  routes: {"billing.*": "http:shop", orders: orders.retry}
  allowed: ["*.retry.*", "http:shop"]
  endpoints:
    shop: {url: "https://shop.example/in?token=s3cret"}
    ledger: {url: "http://10.0.0.7", timeout: 3s, concurrency: 2, secrets_file: /s, token_file: /t}
  allowed_networks: [10.0.0.0/8]
`)
	require.NoError(t, err)
	shop := c.Targets.Endpoints["shop"]
	require.Equal(t, 10*time.Second, shop.Timeout.Std())
	require.Equal(t, 16, shop.Concurrency)
	shown, err := json.Marshal(c.Redacted()["targets"])
	require.NoError(t, err)
	require.Contains(t, string(shown), `"url":"https://shop.example/in"`, "without the query")
	require.Len(t, c.Targets.Networks(), 1)

	c, err = config.Load("", []string{"DLQ_TARGETS_ENDPOINTS=shop=https://shop.example/in?a=b"})
	require.NoError(t, err)
	require.Equal(t, "https://shop.example/in?a=b", c.Targets.Endpoints["shop"].URL)
	require.Equal(t, 16, c.Targets.Endpoints["shop"].Concurrency)
}

func TestWrongTargetsStopTheStart(t *testing.T) {
	t.Parallel()
	for section, problem := range map[string]string{
		"{routes: {orders: __state}, allowed: [__stat*]}":                    `targets.routes: the target "__state" of "orders" is an internal topic`,
		"routes: {orders: orders.dlq}":                                       `targets.routes: the target "orders.dlq" of "orders" is a dead-letter topic`,
		"routes: {orders: 'http:shop'}":                                      "is not an endpoint of targets.endpoints",
		"allowed: ['a b']":                                                   "targets.allowed[0]: must be a topic name",
		"allowed_networks: [10.0.0.1]":                                       "targets.allowed_networks[0]: must be a network",
		"allowed_networks: [10.0.0.1/8]":                                     "targets.allowed_networks[0]: must be a network",
		"endpoints: [a]":                                                     "must be a section of keys and values, not a list",
		"endpoints: {shop: {}}":                                              "targets.endpoints.shop.url: is required",
		"endpoints: {Shop: {url: 'https://a'}}":                              "the name of an endpoint",
		"endpoints: {shop: {url: 'ftp://a'}}":                                "must be an http or https URL",
		"endpoints: {shop: {url: 'https://a#b'}}":                            "without a fragment",
		"endpoints: {shop: {url: 'https://a:b@c'}}":                          "must not contain a user or password",
		"endpoints: {shop: {url: 'https://a', timeout: 1h}}":                 "targets.endpoints.shop.timeout: must be at most 15s",
		"endpoints: {shop: {url: 'https://a', concurrency: 0}}":              "targets.endpoints.shop.concurrency: must be 1 to 1000",
		"endpoints: {shop: {url: 'https://a', timeout: 0s, retry: 1}}":       "targets.endpoints.shop.retry: unknown key",
		"endpoints: {shop: {url: 'https://a'}, shop: {url: 'https://a'}}":    "is set twice",
		"endpoints: {shop: {url: 'https://a', secrets_file: {a: /secrets}}}": "must be text",
	} {
		_, err := load(t, "targets:\n  "+section+"\n")
		require.ErrorContains(t, err, problem, section)
	}
}
