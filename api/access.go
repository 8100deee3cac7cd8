package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Authenticator tells who sends a request. It is safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the principal of a bearer token. The error wraps dlq.ErrUnauthenticated, whose text the sender may
	// see, or dlq.ErrUnavailable.
	Authenticate(ctx context.Context, token string) (dlq.Principal, error)
}

// PublicRoutes are the routes that the configuration can open to requests without a token.
var PublicRoutes = []string{"healthz", "readyz", "metrics"}

// access is the principal who sends a request, and the permission that the route needs.
type access struct {
	*dlq.Principal
	permission dlq.Permission
}

type accessKey struct{}

// accessOf returns the access of a request. Without an access, nothing is allowed.
func accessOf(ctx context.Context) access {
	a, ok := ctx.Value(accessKey{}).(access)
	if !ok {
		a.Principal = &dlq.Principal{}
	}
	return a
}

// withinRoute is a regular expression for the topics on which the principal has the permission of the route. It is empty for
// all topics.
func (a access) withinRoute() string { return a.Within(a.permission) }

// check returns dlq.ErrNotFound if the principal may not see the topic. If the principal may see the topic, but lacks the
// permission of the route, the error says so.
func (a access) check(topic string) error {
	err := a.require(topic)
	if err != nil && !a.MayOn(dlq.PermMessageRead, topic) {
		return dlq.ErrNotFound
	}
	return err
}

// require returns nil if the principal has the permission of the route on the topic. The error names the topic, since the
// sender has named it.
func (a access) require(topic string) error {
	if a.MayOn(a.permission, topic) {
		return nil
	}
	return forbidden(a.permission, topic)
}

func forbidden(permission dlq.Permission, topic string) error {
	message := fmt.Sprintf("this needs the permission %s", permission)
	if topic != "" {
		message += " on topic " + topic
	}
	return &apiError{status: http.StatusForbidden, code: codeForbidden, message: message + "; GET /api/v1/me lists yours"}
}

// authorize finds out who sends a request, and refuses it if the sender lacks the permission of the route. The guard checks the
// topics.
func (s *Server) authorize(r route) fiber.Handler {
	open := r.public == alwaysPublic || slices.Contains(s.options.Open, r.public)
	return func(c *fiber.Ctx) error {
		principal, err := dlq.Anonymous, s.checkHost(c)
		if !open {
			principal, err = s.authenticate(c)
		}
		if limited := s.limitRate(c, &r, principal); limited != nil {
			return limited
		}
		if err != nil {
			return err
		}
		if open {
			return c.Next()
		}
		addLogField(c, zap.String("actor", principal.Subject))
		a := access{&principal, r.permission}
		c.SetUserContext(context.WithValue(c.UserContext(), accessKey{}, a))
		if r.target != "" {
			c.Locals(requestedKey{}, newOperation(c, r, &principal))
		}
		if err = a.checkRoute(); err == nil {
			err = c.Next()
		}
		asked := requestedBy(c)
		if asked != nil && asked.WorkflowID != "" {
			addLogField(c, zap.String("workflow_id", asked.WorkflowID))
		}
		if err != nil && asked != nil {
			s.recordRefusal(c, asked, err)
		}
		return err
	}
}

func (a access) checkRoute() error {
	switch {
	case a.permission != "" && !a.May(a.permission):
		return forbidden(a.permission, "")
	case a.permission.IsForAllTopics() && a.withinRoute() != "":
		return forbidden(a.permission, "*")
	case a.permission != "" && a.IsTooWide(): // all grants of the claims together; each grant alone is short enough
		return &apiError{status: http.StatusForbidden, code: codeForbidden,
			message: fmt.Sprintf("your grants together name too many topics: their expression is longer than %d bytes", dlq.MaxExpression)}
	default:
		return nil
	}
}

func (s *Server) authenticate(c *fiber.Ctx) (dlq.Principal, error) {
	if s.options.Auth == nil {
		return dlq.Anonymous, cmp.Or(s.checkHost(c), s.checkBrowser(c))
	}
	if len(c.Request().Header.PeekAll(fiber.HeaderAuthorization)) > 1 { // a proxy may have checked another of these headers
		return dlq.Principal{}, unauthenticated("the request has more than one Authorization header", nil)
	}
	scheme, token, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = "" // a token of another scheme counts as missing
	}
	ctx, cancel := s.deadline(c)
	defer cancel()
	principal, err := s.options.Auth.Authenticate(ctx, strings.TrimSpace(token))
	if !errors.Is(err, dlq.ErrUnauthenticated) {
		return principal, err
	}
	if token != "" {
		if limited := s.limitRefusedTokens(c); limited != nil {
			return dlq.Principal{}, limited
		}
	}
	return dlq.Principal{}, unauthenticated(err.Error(), err)
}

func unauthenticated(message string, cause error) error {
	return &apiError{status: http.StatusUnauthorized, code: codeUnauthenticated, message: message, cause: cause}
}

func tooMany(message string, wait time.Duration) error {
	return &apiError{status: http.StatusTooManyRequests, code: codeTooManyRequests, message: message + "; try again later",
		retryAfter: strconv.Itoa(int((wait + time.Second - 1) / time.Second))}
}
