// Package auth finds out who sends a request. Tokens and OIDC verify two kinds of bearer tokens. First tries both. Roles and
// permissions are in package dlq.
package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"dlqmanager/dlq"
)

// Authenticator verifies bearer tokens. The error wraps dlq.ErrUnauthenticated or dlq.ErrUnavailable. The sender may see its
// text.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (dlq.Principal, error)
}

// Reason is why a token was refused, as a label of a metric.
type Reason string

// The reasons why tokens are refused.
const (
	ReasonMissing     Reason = "missing"
	ReasonMalformed   Reason = "malformed"
	ReasonUnknown     Reason = "unknown"
	ReasonExpired     Reason = "expired"
	ReasonNotYetValid Reason = "not_yet_valid"
	ReasonIssuer      Reason = "issuer"
	ReasonAudience    Reason = "audience"
	ReasonSignature   Reason = "signature"
	ReasonUnavailable Reason = "unavailable"
)

// Reasons lists every reason.
var Reasons = []Reason{
	ReasonMissing, ReasonMalformed, ReasonUnknown, ReasonExpired, ReasonNotYetValid,
	ReasonIssuer, ReasonAudience, ReasonSignature, ReasonUnavailable,
}

// RefusedError refuses a token. It wraps dlq.ErrUnauthenticated.
type RefusedError struct {
	Reason Reason
	text   string
	// foreign is set if the token is of another kind, which another authenticator may accept.
	foreign bool
}

// Error may be shown to the sender.
func (e *RefusedError) Error() string { return e.text }

// Unwrap returns dlq.ErrUnauthenticated.
func (e *RefusedError) Unwrap() error { return dlq.ErrUnauthenticated }

func refuse(reason Reason, format string, args ...any) error {
	return &RefusedError{Reason: reason, text: fmt.Sprintf(format, args...)}
}

// maxToken is the longest token that is parsed, in bytes.
const maxToken = 8 << 10

// checkSize refuses an empty token, and a token that is too long. It runs before the token is parsed.
func checkSize(token string) error {
	switch {
	case token == "":
		return refuse(ReasonMissing, "a bearer token is required")
	case len(token) > maxToken:
		return refuse(ReasonMalformed, "the token is longer than %d bytes", maxToken)
	default:
		return nil
	}
}

// errForeign refuses a token of another kind.
func errForeign() error {
	return &RefusedError{Reason: ReasonMalformed, text: "this is not a token of a kind that is accepted here", foreign: true}
}

// First tries the authenticators in turn, and counts the failures. A token is of one kind only, so the first authenticator that
// knows this kind decides.
func First(registerer prometheus.Registerer, authenticators ...Authenticator) Authenticator {
	return &first{authenticators, newFailures(registerer)}
}

type first struct {
	authenticators []Authenticator
	failures       *prometheus.CounterVec
}

func (f *first) Authenticate(ctx context.Context, token string) (dlq.Principal, error) {
	principal, err := f.authenticate(ctx, token)
	if err != nil {
		reason := ReasonUnavailable
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			reason = refused.Reason
		}
		f.failures.WithLabelValues(string(reason)).Inc()
	}
	return principal, err
}

func (f *first) authenticate(ctx context.Context, token string) (principal dlq.Principal, err error) {
	if err := checkSize(token); err != nil {
		return dlq.Principal{}, err
	}
	err = errForeign()
	for _, authenticator := range f.authenticators {
		principal, err = authenticator.Authenticate(ctx, token)
		if refused, ok := errors.AsType[*RefusedError](err); !ok || !refused.foreign {
			break
		}
	}
	return principal, err
}
