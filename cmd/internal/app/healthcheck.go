package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"dlqmanager/config"
)

// Health is the address at which a service answers /readyz.
type Health struct {
	Address string
	TLS     config.ServerTLS
}

// APIHealth is the address at which the API answers /readyz.
func APIHealth(c *config.Config) Health { return Health{c.Server.Address(), c.Server.TLS} }

// WorkerHealth is the address at which the worker answers /readyz.
func WorkerHealth(c *config.Config) Health { return Health{Address: c.Worker.MetricsAddress()} }

// URL is the local base URL of the service.
func (h Health) URL() string {
	host, port, _ := net.SplitHostPort(h.Address) // the configuration is valid
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if h.TLS.Configured() {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// ErrTokenNeeded is returned if the service runs, but its /readyz needs a token.
var ErrTokenNeeded = errors.New("/readyz needs a token; add readyz to auth.open")

// Check requests /readyz of the running service. Containers use it as their health check, since their image has no shell.
func (h Health) Check(ctx context.Context) error {
	transport := &http.Transport{DisableKeepAlives: true}
	if h.TLS.Configured() {
		var err error
		if transport.TLSClientConfig, err = h.TLS.HealthcheckConfig(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	request.Host = "localhost" // the host of the address may not be in server.allowed_hosts
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode == http.StatusUnauthorized {
		return ErrTokenNeeded
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", body)
	}
	return nil
}
