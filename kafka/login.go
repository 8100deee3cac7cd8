package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dlqmanager/dlq"
)

// loginPatience is how long a call waits for a password that the brokers accept. A password is changed in
// the brokers first and then in its file, or in the reverse order. Not every broker learns of the change at
// once. The client library reads the file for every new connection. For a produce or metadata request, it
// repeats a refused login as long as a record may wait. It does not repeat the login for other requests,
// such as the request for a producer id. loginPatience is shorter than the timeout of readiness checks, so
// that a check reports the refusal.
const loginPatience = 1500 * time.Millisecond

// Pauses between two logins.
const (
	firstLoginPause   = 25 * time.Millisecond
	longestLoginPause = 400 * time.Millisecond
)

// untilLoggedIn repeats a call while a broker refuses the login. If the context ends meanwhile,
// untilLoggedIn returns the refusal.
func untilLoggedIn(ctx context.Context, do func() error) error {
	began := time.Now()
	refusal := do()
	for pause := firstLoginPause; isRefusedLogin(refusal) && time.Since(began)+pause <= loginPatience; pause = min(2*pause, longestLoginPause) {
		if sleep(ctx, pause); ctx.Err() != nil {
			return refusal
		}
		err := do()
		if err != nil && ctx.Err() != nil {
			return refusal
		}
		refusal = err
	}
	return refusal
}

func isRefusedLogin(err error) bool {
	if blocked, ok := errors.AsType[*dlq.BlockedError](err); ok {
		err = blocked.Cause
	}
	return errors.Is(err, kerr.SaslAuthenticationFailed)
}

// sendAll sends the messages, and sends a message again if a broker refused the login. But once a produce
// request had no answer, nothing is sent again. The client repeats such a request itself. If a broker
// refuses the login of the repetition, the message fails with that refusal, although the broker may have
// written the first request. A message that is sent again has another producer id, so the broker would write
// it twice. The unanswered request may belong to another call: the client does not tell whose messages a
// request had.
func (d *dispatch) sendAll(ctx context.Context) {
	next, unanswered := d.send, d.publisher.unanswered.produced.Load()
	_ = untilLoggedIn(ctx, func() error { // each message keeps its own error
		send := next
		next = d.sendRefused
		refusal := send(ctx)
		if d.publisher.unanswered.produced.Load() != unanswered {
			return nil
		}
		return refusal
	})
}

// unansweredRequests is a hook that counts the produce requests that were sent, at least in
// part, and had no answer.
type unansweredRequests struct {
	produced atomic.Int64
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (u *unansweredRequests) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, request kgo.BrokerE2E) {
	if key == kmsg.Produce.Int16() && request.BytesWritten > 0 && request.Err() != nil {
		u.produced.Add(1)
	}
}

// sendRefused sends the messages whose login was refused, one at a time, so that a key's messages stay in
// order. It stops at the next refusal.
func (d *dispatch) sendRefused(ctx context.Context) error {
	for i := range d.sends {
		s := &d.sends[i]
		if !isRefusedLogin(s.err) {
			continue
		}
		s.err, d.fetchErr = nil, nil
		d.sendUnbatched(ctx, i)
		if isRefusedLogin(s.err) {
			break
		}
	}
	return d.refusedLogin()
}

// refusedLogin is the error of the first message whose login was refused.
func (d *dispatch) refusedLogin() error {
	for i := range d.sends {
		if err := d.sends[i].err; isRefusedLogin(err) {
			return err
		}
	}
	return nil
}
