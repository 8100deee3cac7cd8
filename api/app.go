package api

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"dlqmanager/dlq"
)

// Options configures a Server. The defaults of most limits are in package config. The comment of an optional field says what
// its zero value means.
type Options struct {
	Store Store
	// Database is the same store as Store. It is nil if messages are in memory: then requests that need a database are answered
	// with 501.
	Database Database
	Retries  Retries
	// Topics tells which messages have an original topic to be sent to.
	Topics *dlq.Topics
	// Pointers reads from Kafka the record that a pointer (a dead letter without key and value) names. Nil without Kafka.
	Pointers Pointers
	// Tracing makes a span of each request; nil for none.
	Tracing trace.TracerProvider
	// Masking says which parts of messages are hidden; nil for none.
	Masking *dlq.Masking
	// Decoder decodes values and keys of messages. Nil without a Schema Registry.
	Decoder Decoder
	// Ends reads the end offsets of original topics. Nil without Kafka.
	Ends Ends
	// Auth tells who sends a request. Nil is no authentication: everybody is dlq.Anonymous.
	Auth Authenticator
	// Issuer is the OpenID provider whose tokens Auth accepts; empty for none.
	Issuer string
	// PublicURL is where people reach the API. If it is empty, the URL is made of the header Host of the request.
	PublicURL string
	// Pages is the base URL of the console, for links in answers. Empty for no links.
	Pages dlq.Pages
	// Hosts are the names of this server. The header Host of a request without a token must be one of these names, localhost or
	// an IP address.
	Hosts []string
	// Open are the PublicRoutes that need no token.
	Open []string
	// RateLimit is how many requests a second a client may send to each route.
	// Zero is no limit.
	RateLimit float64
	// TrustedProxies are the addresses whose X-Forwarded-For header is believed.
	TrustedProxies []netip.Prefix
	// MaxConnections limits the open connections. MaxConnectionsPerAddress limits the open connections of each address that is
	// no trusted proxy. Zero is no limit.
	MaxConnections, MaxConnectionsPerAddress int
	// CORSOrigins are the origins, such as https://ops.example, whose pages may call the API
	// from a browser.
	CORSOrigins []string
	// ServesTLS makes browsers use HTTPS only, from their first visit on.
	ServesTLS bool
	// The ingest stops while at least MaxPending messages are PENDING. The ingest of a dead-letter topic stops while at least
	// MaxPendingPerTopic of its messages are PENDING. Zero is no limit.
	MaxPending, MaxPendingPerTopic int64
	// Ready returns an error for each unavailable dependency, and nil for each available dependency. /readyz does not show the
	// errors.
	Ready func() map[string]error

	// LogLevel changes the level of Logger.
	LogLevel LogLevel
	// Profiles serves the profiles of the process below /debug/pprof.
	Profiles http.Handler

	// Logger receives the access log and the causes of errors.
	Logger *zap.Logger
	// Registerer receives the HTTP metrics. /metrics serves Gatherer.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer

	// Console has HTML pages; nil for none.
	Console *Console

	// TemporalUI is the base URL of the Temporal Web UI; empty for no links.
	TemporalUI string
	// TemporalNamespace is part of those links.
	TemporalNamespace string

	// TraceLink and RecordLink make links to traces and to records of Kafka; empty for no links.
	TraceLink  dlq.TraceLink
	RecordLink dlq.RecordLink

	// Suspicion says why headers are known to attack consumers, and is empty for harmless headers.
	Suspicion func([]dlq.Header) string
	// ComesOff tells which headers of a dead letter are removed before it is sent back.
	ComesOff func([]dlq.Header) func(dlq.Header) bool
	// Intake makes a dlq.Arrival of each dead letter that a service hands in.
	Intake Intake
	// Targets decides where messages go; nil for their original topics.
	Targets *dlq.Targets

	// Answers say when a message is archived and purged: ArchiveAfter and PurgeAfter after its end; zero for no time.
	ArchiveAfter, PurgeAfter time.Duration

	// RetryWait is how long a retry call waits for the end of its workflow
	// unless the caller prefers otherwise. Zero never waits.
	RetryWait time.Duration
	// MaxWait limits the wait that a caller may prefer. Default 60 s.
	MaxWait time.Duration
	// BulkLanes is the number of parallel scans of a bulk retry.
	BulkLanes int

	// RequestTimeout limits the work for one request. The wait for a workflow does not count. A request that takes longer is
	// answered with 503.
	RequestTimeout time.Duration
	// PlanTimeout replaces RequestTimeout for a plan, which reads all messages
	// that it counts.
	PlanTimeout time.Duration
	// MaxScans limits how many lists of many messages are read at once. MaxPlans limits how many plans are made at once.
	MaxScans, MaxPlans int
	// MaxExports is how many exports run at once.
	MaxExports int
	// PlanTTL is the time after which a plan expires, and no longer starts a job.
	PlanTTL time.Duration
	// ScanWait is how long a list that reads many messages, or an export, waits for its slot. Default 2 s.
	ScanWait time.Duration
	// ReadTimeout limits the reading of a request, and WriteTimeout the writing of its answer. IdleTimeout limits the pause
	// between two requests of a connection.
	ReadTimeout  time.Duration
	WriteTimeout time.Duration
	IdleTimeout  time.Duration
	// BodyLimit, HeaderLimit and URILimit are in bytes. HeaderLimit counts the
	// request line too.
	BodyLimit int
	// AnswerMemory is the budget for all answers in flight, in bytes. Bodies of requests are
	// bounded by BodyLimit and MaxConnections.
	AnswerMemory int64
	// AnswerWait is how long a request waits for its share of AnswerMemory. Default 5 s.
	AnswerWait  time.Duration
	HeaderLimit int
	URILimit    int
}

func (o *Options) setDefaults() error {
	if o.Store == nil || o.Retries == nil || o.Topics == nil || o.LogLevel == nil || o.Profiles == nil {
		return errors.New("api: Store, Retries, Topics, LogLevel and Profiles are required")
	}
	if o.Database == nil {
		o.ArchiveAfter, o.PurgeAfter = 0, 0 // nothing is archived
	}
	o.MaxWait = cmp.Or(o.MaxWait, 60*time.Second)
	o.ScanWait = cmp.Or(o.ScanWait, 2*time.Second)
	o.AnswerWait = cmp.Or(o.AnswerWait, 5*time.Second)
	return nil
}

// Server answers the REST API. It is safe for concurrent use.
type Server struct {
	options Options
	guard   guard // the store as its handlers see it
	retries recordingRetries
	app     *fiber.App
	metrics *httpMetrics
	spec    []byte
	docs    fiber.Handler

	draining    context.Context
	drain       context.CancelFunc
	planLimit   *shares // slots for plans
	scanLimit   *shares // slots for lists that read many messages
	exportLimit *shares // slots for exports
	answers     *shares // memory for all answers in flight
	connections *connections
	// rates limits requests, and refusedTokens limits refused tokens.
	rates, refusedTokens *rateLimiter
	refusals             *refusals
	topicRetryMu         sync.Mutex
	topicRetry           *topicRetry // the latest retry-all without a database
	memory               *memoryServer

	mu       sync.Mutex
	listener net.Listener
	stopped  bool
}

// New returns a Server. It fails when a required option is missing or a metric of the
// same name is already registered.
func New(options Options) (*Server, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	g := guard{options.Database, options.Store, options.Database, options.Topics, options.Masking, options.Decoder, options.ComesOff}
	retries := recordingRetries{options.Retries, options.Retries, options.Database}
	options.Store, options.Database, options.Retries = nil, nil, nil // handlers have no other store, and no other client of Temporal
	s := &Server{
		options: options, guard: g, retries: retries,
		planLimit: newShares(int64(options.MaxPlans)), scanLimit: newShares(int64(options.MaxScans)),
		exportLimit: newShares(int64(options.MaxExports)), answers: newShares(options.AnswerMemory),
		rates: newRequestLimiter(options.RateLimit), refusedTokens: newRateLimiter(rate.Every(refusedTokenEvery), refusedTokenBurst),
	}
	s.refusals = newRefusals(refusalWindow, s.recordRepeated)
	s.connections = &connections{
		most: options.MaxConnections, mostOfAddress: options.MaxConnectionsPerAddress, isProxy: s.trusts, ofAddress: map[string]int{},
	}
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
		// Fiber reuses its buffers after the handler, but stores and workflow clients keep the strings that they get. So
		// Fiber copies every string, because the code could forget to copy one.
		Immutable: true,
		// No route takes a form. To parse a form would write files to disk.
		DisablePreParseMultipartForm: true,
		BodyLimit:                    options.BodyLimit,
		ReadBufferSize:               options.HeaderLimit,
		ReadTimeout:                  options.ReadTimeout,
		WriteTimeout:                 options.WriteTimeout,
		IdleTimeout:                  options.IdleTimeout,
		ErrorHandler:                 s.answerUnreadable,
	})
	s.docs = s.docsHandler()
	s.app.Use(s.observe)
	s.routes()
	s.console()
	// During a shutdown the server answers "Connection: close", so that no client sends a request to a closing connection.
	s.app.Server().CloseOnShutdown = true
	s.app.Server().SecureErrorLogMessage = true // most errors then quote no request
	s.app.Server().ConnState = s.connections.follow
	s.app.Server().Handler = s.rejectUnroutable(s.app.Server().Handler)
	s.memory = s.newMemory()
	return s, nil
}

// handler answers one request within ctx's deadline.
type handler func(ctx context.Context, c *fiber.Ctx, q *query) error

type idHandler func(ctx context.Context, c *fiber.Ctx, q *query, id dlq.ID) error

// about gives a handler the id in its path. If the handler does not find the resource, the error names its kind and id.
func about(kind string, h idHandler) handler {
	return func(ctx context.Context, c *fiber.Ctx, q *query) error {
		id, err := pathID(c, kind)
		if err != nil {
			return err
		}
		return describeNotFound(h(ctx, c, q, id), kind, id)
	}
}

// ofTopic gives a handler the topic in its path.
func ofTopic(h func(ctx context.Context, c *fiber.Ctx, q *query, topic string) error) handler {
	return func(ctx context.Context, c *fiber.Ctx, q *query) error {
		topic, err := pathTopic(c)
		if err != nil {
			return err
		}
		return h(ctx, c, q, topic)
	}
}

// withDeadline gives a handler a deadline. Fiber's own context has none, and does not end when the client disconnects. q.err
// refuses unknown parameters: a handler with parameters must check it, and withDeadline checks it for the other handlers.
// The answer is 304 if the client has the same answer already.
func (s *Server) withDeadline(h handler, parameters ...string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		q := readQuery(string(c.Request().URI().QueryString()), parameters)
		if len(parameters) == 0 {
			if err := q.err(); err != nil {
				return err
			}
		}
		ctx, cancel := s.deadline(c)
		defer cancel()
		if err := h(ctx, c, q); err != nil {
			return err
		}
		addETag(c)
		return nil
	}
}

func (s *Server) deadline(c *fiber.Ctx) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.UserContext(), s.options.RequestTimeout)
}

// Serve answers requests on ln until Shutdown, and then returns nil. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.listener = ln
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return ln.Close()
	}
	s.app.Handler() // Fiber builds its routes here, once
	go s.serveMemory()
	return s.app.Listener(&limitedListener{ln, s.connections, s.metrics.refused})
}

// Drain ends exports with an error, and makes /readyz answer 503. Calls that wait for a retry are answered with 202 at once.
// Other requests are still answered. Call Drain at SIGTERM, some seconds before Shutdown, so that load balancers remove this
// server first.
func (s *Server) Drain() { s.drain() }

// Shutdown drains, accepts no new connections, and returns when the requests in flight
// are answered or ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	s.stopped = true
	listener := s.listener
	s.mu.Unlock()
	err := s.app.ShutdownWithContext(ctx)
	err = errors.Join(err, s.memory.shutdown(ctx)) // no page of the console is left that needs it
	s.refusals.flush()
	if listener != nil {
		// fasthttp closes only a listener that it serves already, and Serve may not
		// have passed it on yet.
		_ = listener.Close()
	}
	return err
}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodOptions}
