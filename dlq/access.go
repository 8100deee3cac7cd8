package dlq

import (
	"fmt"
	"regexp"
	"slices"
)

// Permission allows one kind of request, written dlq:<resource>:<action>.
type Permission string

// The permissions. The table of routes in package api says which route needs which permission.
const (
	PermTopicRead     Permission = "dlq:topic:read"
	PermMessageRead   Permission = "dlq:message:read"
	PermMessageExport Permission = "dlq:message:export"
	PermMessageCreate Permission = "dlq:message:create"
	PermMessageRetry  Permission = "dlq:message:retry"
	PermMessageDead   Permission = "dlq:message:dead"
	PermMessageRevive Permission = "dlq:message:revive"
	PermMessageDelete Permission = "dlq:message:delete"
	PermMessageUnmask Permission = "dlq:message:unmask"
	PermJobRead       Permission = "dlq:job:read"
	PermJobCreate     Permission = "dlq:job:create"
	PermJobControl    Permission = "dlq:job:control"
	PermGroupRead     Permission = "dlq:group:read"
	PermGroupUpdate   Permission = "dlq:group:update"
	PermArchiveRun    Permission = "dlq:archive:run"
	PermAuditRead     Permission = "dlq:audit:read"
	PermMetricsRead   Permission = "dlq:metrics:read"
	PermProcessRead   Permission = "dlq:process:read"
	PermProcessUpdate Permission = "dlq:process:update"
)

// IsForAllTopics reports whether the permission needs a grant for all topics: its object belongs to no topic.
func (p Permission) IsForAllTopics() bool {
	return p == PermArchiveRun || p == PermMetricsRead || p == PermProcessRead || p == PermProcessUpdate
}

// Role is a set of permissions.
type Role string

// The roles. Each role also has the permissions of the roles before it.
const (
	RoleViewer   Role = "viewer"
	RoleOperator Role = "operator"
	RoleAdmin    Role = "admin"
)

// Roles lists every role, the role with the fewest permissions first.
var Roles = []Role{RoleViewer, RoleOperator, RoleAdmin}

// addedPermissions are the permissions that a role has beyond the roles before.
var addedPermissions = map[Role][]Permission{
	RoleViewer: {PermTopicRead, PermMessageRead, PermJobRead, PermGroupRead, PermAuditRead, PermMetricsRead},
	RoleOperator: {PermMessageExport, PermMessageCreate, PermMessageRetry, PermMessageDead, PermMessageRevive, PermJobCreate, PermJobControl,
		PermGroupUpdate},
	RoleAdmin: {PermMessageDelete, PermMessageUnmask, PermArchiveRun, PermProcessRead, PermProcessUpdate},
}

// Permissions are the permissions of the role; none for an unknown role.
func (r Role) Permissions() []Permission {
	var all []Permission
	if last := slices.Index(Roles, r); last >= 0 {
		for _, role := range Roles[:last+1] {
			all = append(all, addedPermissions[role]...)
		}
	}
	return all
}

// Grant gives a role on some topics.
type Grant struct {
	Role Role
	// Topics are globs of dead-letter topics, as in kafka.dlq_topic_pattern; empty for all topics.
	Topics []string

	topics *regexp.Regexp // nil for all
}

// MaxExpression is how long an expression for the topics of a principal may be, in bytes.
// PostgreSQL refuses expressions that are several times as long.
const MaxExpression = 16 << 10

// NewGrant checks the role and the globs: * stands for any text, ? for one character.
func NewGrant(role Role, topics []string) (Grant, error) {
	if !slices.Contains(Roles, role) {
		return Grant{}, fmt.Errorf("unknown role %q: use viewer, operator or admin", role)
	}
	if len(topics) == 0 || slices.Contains(topics, "*") {
		return Grant{Role: role}, nil
	}
	for _, glob := range topics {
		if !IsTopicName(wildcards.Replace(glob)) {
			return Grant{}, fmt.Errorf("%q is not a pattern of topic names", glob)
		}
	}
	expression := anyGlob(topics)
	if len(expression) > MaxExpression {
		return Grant{}, fmt.Errorf("topics make an expression of %d bytes, more than %d: use fewer patterns, such as orders.*", len(expression), MaxExpression)
	}
	return Grant{Role: role, Topics: topics, topics: regexp.MustCompile(expression)}, nil
}

// noTopic matches nothing: topics have no spaces.
const noTopic = "^ $"

// Principal is somebody who sends requests.
type Principal struct {
	// Subject is the subject of an OIDC token, or the name of a static token.
	Subject string
	// Method is the method of authentication: none, token or oidc.
	Method string
	Grants []Grant
}

// Anonymous is the principal of every request while authentication is off.
var Anonymous = Principal{Subject: "anonymous", Method: "none", Grants: []Grant{{Role: RoleAdmin}}}

// May reports whether the principal has a permission on any topic.
func (p *Principal) May(permission Permission) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.has(permission) })
}

// MayOn reports whether the principal has a permission on a dead-letter topic.
func (p *Principal) MayOn(permission Permission, topic string) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return g.has(permission) && (g.topics == nil || g.topics.MatchString(topic))
	})
}

// Within is a regular expression that matches the topics on which the principal has a permission. It has the same meaning
// in RE2 and PostgreSQL. It is empty for all topics, and matches no topic if May is false.
func (p *Principal) Within(permission Permission) string {
	var globs []string
	for _, g := range p.Grants {
		switch {
		case !g.has(permission):
		case g.topics == nil:
			return ""
		default:
			globs = append(globs, g.Topics...)
		}
	}
	if len(globs) == 0 {
		return noTopic
	}
	slices.Sort(globs)
	return anyGlob(slices.Compact(globs))
}

// IsTooWide reports whether Within may exceed MaxExpression. Every role may read, so the expression for reading is the longest.
func (p *Principal) IsTooWide() bool { return len(p.Within(PermMessageRead)) > MaxExpression }

func (g *Grant) has(permission Permission) bool {
	return slices.Contains(g.Role.Permissions(), permission)
}
