package auth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// OIDCOptions configure OIDC.
type OIDCOptions struct {
	// Issuer is the URL of the identity provider, exactly as tokens write it.
	Issuer string
	// Audience must be one of the audiences of a token.
	Audience string
	// SubjectClaim and RolesClaim are names of claims. A dot separates the names of nested claims.
	SubjectClaim, RolesClaim string
	// Roles maps values of the roles claim to grants. Other values grant nothing.
	Roles map[string]dlq.Grant
	// ClockSkew is how far the clocks of the provider and of this host may differ.
	ClockSkew time.Duration
	// TLS returns the configuration of a new connection to the provider; nil for the default configuration.
	TLS func() (*tls.Config, error)
	Log *zap.Logger

	now func() time.Time // for tests
}

// OIDC accepts JSON Web Tokens of an identity provider. It needs Run to fetch the keys.
type OIDC struct {
	options OIDCOptions
	issuer  *issuer
}

// NewOIDC returns an OIDC. It does not connect to the provider.
func NewOIDC(options OIDCOptions) *OIDC {
	if options.now == nil {
		options.now = time.Now
	}
	return &OIDC{options, newIssuer(options)}
}

// Run keeps the keys of the provider current until ctx ends.
func (o *OIDC) Run(ctx context.Context) { o.issuer.run(ctx) }

// Check is a readiness check of the provider.
func (o *OIDC) Check(context.Context) error { return o.issuer.check() }

// tokenTypes are the values of the header typ with which a token may authenticate. ID tokens and access tokens have these
// values. Logout tokens have another value.
var tokenTypes = []string{"", "jwt", "at+jwt"}

// Authenticate accepts a token with a valid signature, issuer, audience and time. If no role of the token is mapped, the
// principal has no grants.
func (o *OIDC) Authenticate(ctx context.Context, token string) (dlq.Principal, error) {
	if err := checkSize(token); err != nil {
		return dlq.Principal{}, err
	}
	if strings.Count(token, ".") != 2 {
		return dlq.Principal{}, errForeign()
	}
	claims, err := o.verify(ctx, token)
	if err != nil {
		return dlq.Principal{}, err
	}
	if err := o.checkClaims(claims); err != nil {
		return dlq.Principal{}, err
	}
	subject, _ := claim(claims, o.options.SubjectClaim).(string)
	if subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, isInvisible) {
		return dlq.Principal{}, refuse(ReasonMalformed, "the claim %q does not name a subject", o.options.SubjectClaim)
	}
	return dlq.Principal{Subject: subject, Method: "oidc", Grants: o.grants(claims)}, nil
}

// isInvisible reports whether a character could make two different subjects look alike.
func isInvisible(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf) }

// maxSubject is the longest subject, in bytes: the limit of OpenID Connect.
const maxSubject = 255

// verify checks the signature of a token, and returns the claims.
func (o *OIDC) verify(ctx context.Context, token string) (map[string]any, error) {
	metadata, err := o.issuer.metadata()
	if err != nil {
		return nil, err
	}
	parsed, err := jose.ParseSignedCompact(token, metadata.algorithms)
	if err != nil {
		return nil, refuse(ReasonMalformed, "the token is not a JSON Web Token with an algorithm that its issuer announces")
	}
	header := parsed.Signatures[0].Header
	kind, isText := header.ExtraHeaders[jose.HeaderType].(string)
	if kind = strings.TrimPrefix(strings.ToLower(kind), "application/"); !slices.Contains(tokenTypes, kind) ||
		!isText && header.ExtraHeaders[jose.HeaderType] != nil {
		return nil, refuse(ReasonMalformed, "a token of this type does not authenticate")
	}
	keys, err := o.issuer.keys(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		payload, err := parsed.Verify(key)
		if err != nil {
			continue
		}
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil {
			return nil, refuse(ReasonMalformed, "the token has malformed claims")
		}
		return claims, nil
	}
	return nil, refuse(ReasonSignature, "the token has a wrong signature")
}

func (o *OIDC) checkClaims(claims map[string]any) error {
	for _, name := range []string{"exp", "nbf", "iat"} {
		if _, isNumber := claims[name].(float64); !isNumber && (claims[name] != nil || name == "exp") {
			return refuse(ReasonMalformed, "the claim %q of the token is not a time", name)
		}
	}
	now, skew := o.options.now(), o.options.ClockSkew
	audiences, isText := texts(claims["aud"])
	switch {
	case claims["events"] != nil: // a logout token may have no header typ
		return refuse(ReasonMalformed, "a token of this type does not authenticate")
	case claims["iss"] != o.options.Issuer:
		return refuse(ReasonIssuer, "the token is from another issuer")
	case !isText && claims["aud"] != nil:
		return refuse(ReasonMalformed, "the token has malformed claims")
	case !slices.Contains(audiences, any(o.options.Audience)):
		return refuse(ReasonAudience, "the token is for another audience")
	case !after(claims, "exp", now.Add(-skew)):
		return refuse(ReasonExpired, "the token has expired")
	case after(claims, "nbf", now.Add(skew)), after(claims, "iat", now.Add(skew)):
		return refuse(ReasonNotYetValid, "the token is not valid yet")
	default:
		return nil
	}
}

// texts reads a claim whose value is a text or a list of texts.
func texts(claim any) (list []any, ok bool) {
	if _, isText := claim.(string); isText {
		return []any{claim}, true
	}
	list, ok = claim.([]any)
	return list, ok
}

// after reports whether the time in a claim is later than t. It compares floating-point numbers, since the number may be too
// large for an integer.
func after(claims map[string]any, name string, t time.Time) bool {
	seconds, ok := claims[name].(float64)
	return ok && seconds > float64(t.UnixMilli())/1000
}

// grants maps the values of the roles claim to grants. A value that is no text grants nothing.
func (o *OIDC) grants(claims map[string]any) []dlq.Grant {
	values, _ := texts(claim(claims, o.options.RolesClaim))
	var grants []dlq.Grant
	seen := map[string]bool{}
	for _, value := range values {
		name, _ := value.(string)
		if grant, mapped := o.options.Roles[name]; mapped && !seen[name] {
			seen[name] = true
			grants = append(grants, grant)
		}
	}
	return grants
}

// claim returns the claim whose whole name is path, even if path has dots. Otherwise it returns the nested claim at path.
func claim(claims map[string]any, path string) any {
	if value, ok := claims[path]; ok {
		return value
	}
	outer, rest, nested := strings.Cut(path, ".")
	if !nested {
		return nil
	}
	inner, _ := claims[outer].(map[string]any)
	return claim(inner, rest)
}
