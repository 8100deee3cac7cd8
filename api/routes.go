package api

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"dlqmanager/dlq"
)

// route is one row of the table of routes. The table serves the server, GET /api/v1/me and the tests.
type route struct {
	method, path string
	// permission is the permission that a request needs. It is empty for routes that need only authentication, and for routes
	// that can be open to everybody.
	permission dlq.Permission
	// target is the kind of resource that a request changes or exports, for the audit.
	target dlq.OperationTarget
	// public is the name of the route in auth.open, which opens the route to requests without a token. A route with
	// alwaysPublic never needs a token.
	public string
	// needsDatabase is set for a route that messages in memory cannot serve.
	needsDatabase bool
	handler       fiber.Handler
}

// The values of route.needsDatabase.
const (
	anyStore = false
	database = true
)

// alwaysPublic marks the routes that describe the API, or tell where to sign in.
const alwaysPublic = "*"

// table lists every route. The order matters: :topic also matches "messages", and :id also matches "export".
func (s *Server) table() []route {
	read, change := http.MethodGet, http.MethodPost
	of := func(kind string, h idHandler, parameters ...string) fiber.Handler {
		return s.withDeadline(about(kind, h), parameters...)
	}
	dead, revived := marks("marked dead", s.guard.MarkDead), marks("revived", s.guard.Revive)
	return []route{
		{read, "/api/v1/me", "", "", "", anyStore, s.withDeadline(s.me)},
		{read, "/api/v1/dlq", dlq.PermTopicRead, "", "", database, s.withDeadline(s.holding(s.topics))},
		{read, "/api/v1/dlq/:topic/export", dlq.PermMessageExport, dlq.TargetMessage, "", database, s.withDeadline(ofTopic(s.export), exportParameters...)},
		{read, "/api/v1/dlq/messages/:id", dlq.PermMessageRead, "", "", anyStore, of("message", s.message(false))},
		{read, "/api/v1/dlq/messages/:id/chain", dlq.PermMessageRead, "", "", database, s.withDeadline(s.holding(about("message", s.chain)))},
		{http.MethodDelete, "/api/v1/dlq/messages/:id", dlq.PermMessageDelete, dlq.TargetMessage, "", anyStore, of("message", s.deleteMessage, "reason")},
		{change, "/api/v1/dlq/messages/:id/retry", dlq.PermMessageRetry, dlq.TargetMessage, "", anyStore, of("message", s.retryMessage)},
		{change, "/api/v1/dlq/messages/:id/dead", dlq.PermMessageDead, dlq.TargetMessage, "", anyStore, of("message", dead)},
		{change, "/api/v1/dlq/messages/:id/unmask", dlq.PermMessageUnmask, dlq.TargetMessage, "", database, of("message", s.unmaskMessage)},
		{change, "/api/v1/dlq/messages/:id/revive", dlq.PermMessageRevive, dlq.TargetMessage, "", database, of("message", revived)},
		{read, "/api/v1/dlq/:topic", dlq.PermMessageRead, "", "", anyStore, s.withDeadline(s.holding(ofTopic(s.list)), listParameters...)},
		{change, "/api/v1/dlq/:topic/messages", dlq.PermMessageCreate, dlq.TargetMessage, "", database, s.withDeadline(ofTopic(s.handIn))},
		{change, "/api/v1/dlq/:topic/retry-all", dlq.PermJobCreate, dlq.TargetJob, "", anyStore, s.withDeadline(ofTopic(s.retryAll))},
		{change, "/api/v1/plans", dlq.PermJobCreate, dlq.TargetJob, "", database, s.withDeadline(s.createPlan)},
		{read, "/api/v1/plans/:id", dlq.PermJobRead, "", "", database, s.withDeadline(s.holding(about("plan", s.plan)))},
		{read, "/api/v1/jobs", dlq.PermJobRead, "", "", database, s.withDeadline(s.holding(s.jobs), jobParameters...)},
		{change, "/api/v1/jobs", dlq.PermJobCreate, dlq.TargetJob, "", database, s.withDeadline(s.createJob)},
		{read, "/api/v1/jobs/:id", dlq.PermJobRead, "", "", database, of("job", s.job, "verified")},
		{read, "/api/v1/jobs/:id/series", dlq.PermJobRead, "", "", database, of("job", s.jobSeries)},
		{http.MethodPatch, "/api/v1/jobs/:id", dlq.PermJobControl, dlq.TargetJob, "", database, of("job", s.changeJob)},
		{change, "/api/v1/jobs/:id/pause", dlq.PermJobControl, dlq.TargetJob, "", database, of("job", s.pauseJob)},
		{change, "/api/v1/jobs/:id/resume", dlq.PermJobControl, dlq.TargetJob, "", database, of("job", s.resumeJob)},
		{change, "/api/v1/jobs/:id/cancel", dlq.PermJobControl, dlq.TargetJob, "", database, of("job", s.cancelJob)},
		{read, "/api/v1/retries", dlq.PermJobRead, "", "", database, s.withDeadline(s.holding(s.singleRetries), singleRetryParameters...)},
		{read, "/api/v1/groups", dlq.PermGroupRead, "", "", database, s.withDeadline(s.holding(s.groups), groupParameters...)},
		{read, "/api/v1/groups/:id", dlq.PermGroupRead, "", "", database, of("group", s.group)},
		{http.MethodPatch, "/api/v1/groups/:id", dlq.PermGroupUpdate, dlq.TargetGroup, "", database, of("group", s.changeGroup)},
		{change, "/api/v1/groups/:id/fixed", dlq.PermGroupUpdate, dlq.TargetGroup, "", database, of("group", s.fixGroup)},
		{read, "/api/v1/series", dlq.PermTopicRead, "", "", database, s.withDeadline(s.holding(s.series), "topic", "group", "step", "from", "to")},
		{read, "/api/v1/archive/messages", dlq.PermMessageRead, "", "", database, s.withDeadline(s.holding(s.archivedMessages), archiveParameters...)},
		{read, "/api/v1/archive/messages/:id", dlq.PermMessageRead, "", "", database, of("message", s.message(true))},
		{change, "/api/v1/archive/messages/:id/restore", dlq.PermMessageRevive, dlq.TargetMessage, "", database, of("message", s.restoreMessage)},
		{change, "/api/v1/archive/runs", dlq.PermArchiveRun, dlq.TargetArchive, "", database, s.withDeadline(s.runArchive)},
		{read, "/api/v1/audit", dlq.PermAuditRead, "", "", database, s.withDeadline(s.holding(s.audit), auditParameters...)},

		{read, "/healthz", "", "", "healthz", anyStore, s.healthz},
		{read, "/readyz", "", "", "readyz", anyStore, s.readyz},
		{read, "/metrics", dlq.PermMetricsRead, "", "metrics", anyStore, metricsHandler(s.options.Gatherer, s.options.Logger)},
		{read, "/debug/log-level", dlq.PermProcessRead, "", "", anyStore, s.withDeadline(s.logLevel)},
		{http.MethodPut, "/debug/log-level", dlq.PermProcessUpdate, dlq.TargetProcess, "", anyStore, s.withDeadline(s.changeLogLevel)},
		{read, "/debug/pprof/:profile", dlq.PermProcessRead, "", "", anyStore, s.profile()},
		{read, resourcePath, "", "", alwaysPublic, anyStore, s.protectedResource},
		{read, "/openapi.json", "", "", alwaysPublic, anyStore, s.openapi},
		{read, "/docs", "", "", alwaysPublic, anyStore, s.docs},
		{read, "/docs/*", "", "", alwaysPublic, anyStore, s.docs},
	}
}

func (s *Server) routes() {
	for _, r := range s.table() {
		if r.needsDatabase && !s.guard.hasDatabase() {
			r.handler = func(*fiber.Ctx) error { return needsDatabase() }
		}
		handlers := []fiber.Handler{s.authorize(r), s.withPage(r.handler)}
		s.app.Add(r.method, r.path, handlers...)
		if r.method == http.MethodGet {
			s.app.Add(http.MethodHead, r.path, handlers...)
		}
	}
}
