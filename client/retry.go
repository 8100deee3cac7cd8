package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// firstDelay is the least time before a request is sent again, unless the server names a time. The delay doubles with each attempt.
const firstDelay = 200 * time.Millisecond

// safe tells whether a request may be sent twice: it changes nothing, or the server recognises it by its key, or it starts
// a plan, which can start only one job.
func (r *request) safe() bool {
	if r.method == http.MethodGet || r.header.Get("Idempotency-Key") != "" {
		return true
	}
	start, _ := r.body.(JobStart)
	planned, err := start.AsPlanStart()
	return err == nil && planned.Plan != ""
}

// deliver sends a request, and sends it again if that is safe and the failure may pass. If the server refuses the token, a
// request of any method is sent once more with a new token: the server has done nothing.
func (c *Client) deliver(ctx context.Context, r *request) (*received, error) {
	renewed := false
	for attempt := 0; ; attempt++ {
		token, err := c.token(ctx)
		if err != nil {
			return nil, err
		}
		response, err := c.once(ctx, r, token)
		if err == nil && response.StatusCode == http.StatusUnauthorized && !renewed && c.refuse(token) {
			renewed = true
			attempt--
			continue
		}
		delay, again := c.delay(r, attempt, response, err)
		if again && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !again {
			if attempt > 0 && err == nil {
				c.tell(r, nil)
			}
			return response, err
		}
		if err == nil {
			err = readError(response)
		}
		c.tell(r, err)
		if err := sleep(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// tell reports an outage during a poll to Config.Unreachable. nil reports the end of the outage.
func (c *Client) tell(r *request, outage error) {
	if r.isPoll && c.config.Unreachable != nil {
		c.config.Unreachable(outage)
	}
}

// delay returns how long to wait before the request is sent again, and whether that may help.
func (c *Client) delay(r *request, attempt int, response *received, err error) (time.Duration, bool) {
	if !r.isPoll && (attempt >= c.config.Retries || !r.safe()) {
		return 0, false
	}
	backoff := firstDelay<<min(attempt, 10) + rand.N(firstDelay) //nolint:gosec // it spreads clients in time and guards nothing
	if err != nil {
		_, isUntrusted := errors.AsType[*tls.CertificateVerificationError](err)
		return min(backoff, c.config.LongestDelay), !isUntrusted
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout:
	default:
		if !r.isKnown || !passing(response) {
			return 0, false
		}
	}
	if asked := retryAfter(response.Header, time.Now()); asked > 0 {
		return min(asked, c.config.LongestDelay), r.isPoll || asked <= c.config.LongestDelay
	}
	return min(backoff, c.config.LongestDelay), true
}

// passing tells whether an answer may be due to an outage or an upgrade. A proxy answers 404 itself while its server is away.
func passing(response *received) bool {
	return response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusNotFound && foreign(response) != nil
}

func (c *Client) token(ctx context.Context) (string, error) {
	if c.config.Token == nil {
		return "", nil
	}
	token, err := c.config.Token.Token(ctx)
	if err == nil && strings.ContainsFunc(token, unicode.IsControl) {
		err = errors.New("the token has a line break or another control character: give the token alone")
	}
	return token, err
}

func (c *Client) refuse(token string) bool {
	source, ok := c.config.Token.(Renewer)
	return ok && source.Refused(token)
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
