package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// resourcePath is where programs look for the identity provider (RFC 9728).
const resourcePath = "/.well-known/oauth-protected-resource"

// resourceView tells programs where people get a token for this API.
type resourceView struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
	BearerMethods        []string `json:"bearer_methods_supported"`
}

func (s *Server) protectedResource(c *fiber.Ctx) error {
	if s.options.Issuer == "" {
		return &apiError{status: http.StatusNotFound, code: codeNotFound, message: "this server asks no identity provider; its auth.mode has no oidc"}
	}
	return reply(c, http.StatusOK, resourceView{
		Resource: s.ownURL(c), AuthorizationServers: []string{s.options.Issuer}, Scopes: []string{"openid"}, BearerMethods: []string{"header"},
	})
}

// ownURL is the base URL of the API: the configured URL, or else a URL with the Host header of the request.
func (s *Server) ownURL(c *fiber.Ctx) string {
	if s.options.PublicURL != "" {
		return strings.TrimRight(s.options.PublicURL, "/")
	}
	own := url.URL{Scheme: "http", Host: string(c.Request().Host())}
	if s.options.ServesTLS {
		own.Scheme = "https"
	}
	return own.String()
}

// challenge is the header WWW-Authenticate of an answer 401. It does not repeat a Host header that is no name of this server.
func (s *Server) challenge(c *fiber.Ctx) string {
	const challenge = `Bearer realm="dlq-manager"`
	if s.options.Issuer == "" || s.options.PublicURL == "" && s.checkHost(c) != nil {
		return challenge
	}
	return challenge + `, resource_metadata="` + s.ownURL(c) + resourcePath + `"`
}
