package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// Options is what a Server needs. Store, Retries and Topics are required; the
// rest has defaults, which zero values stand for.
type Options struct {
	Store   Store
	Retries Retries
	// Topics tells which messages have a place to go back to.
	Topics *dlq.Topics
	// MaxPending and MaxPendingPerTopic are from how many PENDING messages on, of all
	// topics and of one, nothing more is taken in; 0 is no limit.
	MaxPending, MaxPendingPerTopic int64
	// Ready returns for every dependency why it is away, or nil. /readyz shows
	// the names alone. Default: there are none.
	Ready func() map[string]error

	// Logger receives the access log and the causes of errors.
	Logger *zap.Logger
	// Registerer takes the HTTP metrics; Gatherer is what /metrics shows.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer

	// TemporalUI is the base URL of the Temporal Web UI; empty for no links.
	TemporalUI string
	// TemporalNamespace is part of those links. Default "default".
	TemporalNamespace string

	// RetryWait is how long a retry call waits for the end of its workflow
	// unless the caller prefers otherwise. Default 10 s; negative never waits.
	RetryWait time.Duration
	// MaxWait bounds what a caller may prefer. Default 60 s.
	MaxWait time.Duration
	// BulkLanes is how many parallel scans a bulk retry gets. Default 4.
	BulkLanes int

	// RequestTimeout bounds the work for one request, without the waiting
	// above. Default 10 s. Beyond it the answer is 503.
	RequestTimeout time.Duration
	// PreviewTimeout is the same for a dry run, which reads all that it counts.
	// Default 60 s.
	PreviewTimeout time.Duration
	// ReadTimeout bounds the reading of a request, WriteTimeout the writing of
	// its answer, IdleTimeout the pause between two requests of a connection.
	// Defaults 10 s, 10 s and 60 s.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	IdleTimeout  time.Duration
	// BodyLimit, HeaderLimit and URILimit are in bytes. HeaderLimit counts the
	// request line too. Defaults 1 MiB, 16 KiB and 8 KiB.
	BodyLimit   int
	HeaderLimit int
	URILimit    int
}

func (o *Options) setDefaults() error {
	if o.Store == nil || o.Retries == nil || o.Topics == nil {
		return errors.New("api: Store, Retries and Topics are required")
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Registerer == nil || o.Gatherer == nil {
		registry := prometheus.NewRegistry()
		o.Registerer, o.Gatherer = registry, registry
	}
	if o.Ready == nil {
		o.Ready = func() map[string]error { return nil }
	}
	setDefault(&o.TemporalNamespace, "default")
	setDefault(&o.RetryWait, 10*time.Second)
	setDefault(&o.MaxWait, 60*time.Second)
	setDefault(&o.BulkLanes, 4)
	setDefault(&o.RequestTimeout, 10*time.Second)
	setDefault(&o.PreviewTimeout, 60*time.Second)
	setDefault(&o.ReadTimeout, 10*time.Second)
	setDefault(&o.WriteTimeout, 10*time.Second)
	setDefault(&o.IdleTimeout, 60*time.Second)
	setDefault(&o.BodyLimit, 1<<20)
	setDefault(&o.HeaderLimit, 16<<10)
	setDefault(&o.URILimit, 8<<10)
	return nil
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// Server answers the REST API. It is safe for concurrent use.
type Server struct {
	options Options
	app     *fiber.App
	metrics *httpMetrics
	spec    []byte

	draining context.Context
	drain    context.CancelFunc
	previews chan struct{} // holds one for each dry run under way

	mu       sync.Mutex
	listener net.Listener
	stopped  bool
}

// New makes a Server. It fails when a required option is missing or a metric of
// the same name is registered already.
func New(options Options) (*Server, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{options: options, previews: make(chan struct{}, previewsAtOnce)}
	s.draining, s.drain = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = newHTTPMetrics(options.Registerer); err != nil {
		return nil, err
	}
	if s.spec, err = specJSON(); err != nil {
		return nil, err
	}
	s.app = fiber.New(fiber.Config{
		DisableStartupMessage: true,
		CaseSensitive:         true,
		// Fiber reuses its buffers after the handler. Stores and workflow
		// clients keep what they are given, so every string is a copy: a copy
		// for each parameter costs less than one that somebody forgot.
		Immutable: true,
		// Nothing here takes a form; reading one would write files to disk.
		DisablePreParseMultipartForm: true,
		BodyLimit:                    options.BodyLimit,
		ReadBufferSize:               options.HeaderLimit,
		ReadTimeout:                  options.ReadTimeout,
		WriteTimeout:                 options.WriteTimeout,
		IdleTimeout:                  options.IdleTimeout,
		ErrorHandler:                 s.unread,
	})
	s.app.Use(s.observe)
	s.routes()
	// Tells busy clients to connect elsewhere, rather than closing the connection
	// under their next request.
	s.app.Server().CloseOnShutdown = true
	s.app.Server().Handler = s.knownMethods(s.app.Server().Handler)
	return s, nil
}

func (s *Server) routes() {
	v1 := s.app.Group("/api/v1")
	v1.Get("/dlq", s.bounded(s.topics))
	// Before :topic, so that "messages" is not taken for one.
	v1.Get("/dlq/messages/:id", s.bounded(s.message))
	v1.Delete("/dlq/messages/:id", s.bounded(s.deleteMessage))
	v1.Post("/dlq/messages/:id/retry", s.bounded(s.retryMessage))
	v1.Post("/dlq/messages/:id/dead", s.bounded(s.markDead))
	v1.Get("/dlq/:topic", s.bounded(s.list, listParameters...))
	v1.Post("/dlq/:topic/retry-all", s.bounded(s.retryAll))
	v1.Get("/bulk-retries", s.bounded(s.bulkRetries, "limit"))
	v1.Post("/bulk-retries", s.bounded(s.createBulkRetry))
	v1.Get("/bulk-retries/:id", s.bounded(s.bulkRetry))
	v1.Patch("/bulk-retries/:id", s.bounded(s.changeBulkRetry))
	v1.Post("/bulk-retries/:id/pause", s.bounded(s.pauseBulkRetry))
	v1.Post("/bulk-retries/:id/resume", s.bounded(s.resumeBulkRetry))
	v1.Post("/bulk-retries/:id/cancel", s.bounded(s.cancelBulkRetry))

	s.app.Get("/healthz", s.healthz)
	s.app.Get("/readyz", s.readyz)
	s.app.Get("/metrics", metricsHandler(s.options.Gatherer, s.options.Logger))
	s.app.Get("/openapi.json", s.openapi)
	docs := docsHandler()
	s.app.Get("/docs", docs)
	s.app.Get("/docs/*", docs)
}

// handler answers one request within ctx's deadline.
type handler func(ctx context.Context, c *fiber.Ctx, q *query) error

// bounded gives a handler a deadline, since Fiber's own context does not end
// when the client leaves, and its query, in which only the known parameters may
// occur.
func (s *Server) bounded(h handler, parameters ...string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		q := readQuery(string(c.Request().URI().QueryString()), parameters)
		if len(parameters) == 0 {
			if err := q.err(); err != nil {
				return err
			}
		}
		ctx, cancel := s.deadline(c)
		defer cancel()
		return h(ctx, c, q)
	}
}

func (s *Server) deadline(c *fiber.Ctx) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.UserContext(), s.options.RequestTimeout)
}

// Serve answers requests on the listener until Shutdown, then returns nil. It
// closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.listener = ln
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return ln.Close()
	}
	return s.app.Listener(ln)
}

// Drain makes /readyz answer 503 and ends all waiting for retries: those calls
// answer 202 now. Requests go on being answered. Call it at SIGTERM, some
// seconds before Shutdown, so that load balancers look elsewhere first.
func (s *Server) Drain() { s.drain() }

// Shutdown drains, takes no new connections, and returns when the requests
// under way are answered or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.stopped = true
	listener := s.listener
	s.mu.Unlock()
	err := s.app.ShutdownWithContext(ctx)
	if listener != nil {
		// fasthttp closes only listeners that it serves already, and Serve may
		// be just about to.
		_ = listener.Close()
	}
	return err
}

// methods are those that some route may have.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions}
