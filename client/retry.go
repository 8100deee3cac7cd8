package client

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// firstDelay is the time before the first repetition, unless the server asks for another. It doubles each time.
const firstDelay = 200 * time.Millisecond

// safe tells whether a request may be sent twice: it changes nothing, or the server recognises it by its key.
func (r *request) safe() bool {
	return r.method == http.MethodGet || r.header.Get("Idempotency-Key") != ""
}

// deliver sends a request until it is answered. It is sent again if it is safe and the failure may pass. A refused
// token is replaced once, for every method: the server has then done nothing.
func (c *Client) deliver(ctx context.Context, r *request) (*http.Response, error) {
	renewed := false
	for attempt := 0; ; attempt++ {
		token, err := c.token(ctx)
		if err != nil {
			return nil, err
		}
		response, err := c.once(ctx, r, token)
		if err == nil && response.StatusCode == http.StatusUnauthorized && !renewed && c.refuse(token) {
			renewed = true
			discard(response)
			attempt--
			continue
		}
		delay, again := c.delay(attempt, response, err)
		if !again || !r.safe() || ctx.Err() != nil {
			return response, err
		}
		if response != nil {
			discard(response)
		}
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// delay returns how long to wait before the request is sent again, and whether that may help.
func (c *Client) delay(attempt int, response *http.Response, err error) (time.Duration, bool) {
	if attempt >= c.config.Retries {
		return 0, false
	}
	backoff := firstDelay<<min(attempt, 10) + rand.N(firstDelay) //nolint:gosec // it spreads clients in time and guards nothing
	if err != nil {
		return min(backoff, c.config.LongestDelay), true
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	if asked := retryAfter(response.Header, time.Now()); asked > 0 {
		return asked, asked <= c.config.LongestDelay
	}
	return min(backoff, c.config.LongestDelay), true
}

func (c *Client) token(ctx context.Context) (string, error) {
	if c.config.Token == nil {
		return "", nil
	}
	return c.config.Token.Token(ctx)
}

func (c *Client) refuse(token string) bool {
	source, ok := c.config.Token.(Renewer)
	return ok && source.Refused(token)
}

// discard lets the connection be used again.
func discard(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, maxErrorBody)
	_ = response.Body.Close()
}

func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
