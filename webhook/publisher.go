package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"dlqmanager/dlq"
)

// Endpoint is an HTTP endpoint.
type Endpoint struct {
	URL string
	// Timeout is for a request with its answer. At most MaxTimeout.
	Timeout time.Duration
	// Concurrency is how many requests are in flight at once.
	Concurrency int
	// SecretsFile has the secrets that sign requests, and TokenFile a bearer token. Both may
	// be empty.
	SecretsFile, TokenFile string
}

// Options configure a publisher.
type Options struct {
	Endpoints map[string]Endpoint
	// AllowedNetworks are networks that are not public, and in which endpoints may be.
	AllowedNetworks []netip.Prefix
	UserAgent       string
	// Original returns the record of a message before its failure.
	Original func(context.Context, *dlq.Envelope) (dlq.Record, error)
	Metrics  Metrics

	// resolver and transport are for tests.
	resolver  *net.Resolver
	transport func(*http.Transport)
}

// Metrics counts requests.
type Metrics interface {
	// Count counts a message for a target, with its error, which is nil for a delivered message.
	Count(target string, err error)
	// Observe adds the duration of a delivery.
	Observe(context.Context, time.Duration)
}

const (
	// MaxTimeout is the longest timeout of an endpoint. It leaves time to wait for a free
	// connection.
	MaxTimeout = 15 * time.Second
	// maxDuration is how long a call of Publish can take. The worker's stop timeout, the
	// timeouts of the activities and dlq.ReviveAfter are longer.
	maxDuration = 18 * time.Second

	dialTimeout = 5 * time.Second
	// maxIdle is shorter than the time after which common servers and load balancers close a
	// connection, because a request on a closed connection would be sent again.
	maxIdle = 45 * time.Second
)

// Publisher sends dead letters to HTTP endpoints, and is safe for concurrent use.
type Publisher struct {
	targets map[string]*target // by the name of the target, such as http:shop
	o       Options
}

// New reads the secrets, and connects to no endpoint.
func New(o Options, log *zap.Logger) (*Publisher, error) {
	p := &Publisher{targets: map[string]*target{}, o: o}
	for name, endpoint := range o.Endpoints {
		t, err := newTarget(dlq.EndpointTarget(name), endpoint, &o, log)
		if err != nil {
			return nil, fmt.Errorf("targets.endpoints.%s: %w", name, err)
		}
		p.targets[t.name] = t
	}
	return p, nil
}

// Close closes the idle connections.
func (p *Publisher) Close() {
	for _, t := range p.targets {
		t.transport.CloseIdleConnections()
	}
}

// target is an endpoint that messages are sent to.
type target struct {
	name, url, userAgent string
	timeout              time.Duration
	token, secrets       *secretFile
	transport            *http.Transport
	// slots has room for the requests that are in flight at once.
	slots       *semaphore.Weighted
	concurrency int
	// notBefore is the time, as nanoseconds since 1970, until which the endpoint wants no
	// requests.
	notBefore atomic.Int64
}

func newTarget(name string, endpoint Endpoint, o *Options, log *zap.Logger) (*target, error) {
	t := &target{
		name: name, url: endpoint.URL, userAgent: o.UserAgent, timeout: min(endpoint.Timeout, MaxTimeout),
		concurrency: max(endpoint.Concurrency, 1),
	}
	t.slots = semaphore.NewWeighted(int64(t.concurrency))
	var err error
	if t.secrets, err = newSecretFile(endpoint.SecretsFile, checkSigning, log); err != nil {
		return nil, fmt.Errorf("secrets_file: %w", err)
	}
	if t.token, err = newSecretFile(endpoint.TokenFile, checkToken, log); err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	dialer := &net.Dialer{
		Timeout: min(dialTimeout, t.timeout), KeepAlive: 15 * time.Second, ControlContext: guard{o.AllowedNetworks}.control, Resolver: o.resolver,
	}
	t.transport = &http.Transport{
		// A proxy would connect to addresses that the guard does not see, so there is none,
		// whatever HTTP_PROXY says.
		Proxy:               nil,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true, // the default, but for a custom dialer
		TLSHandshakeTimeout: min(dialTimeout, t.timeout),
		DisableCompression:  true, // a small answer must not become large
		MaxIdleConnsPerHost: t.concurrency, MaxConnsPerHost: t.concurrency, IdleConnTimeout: maxIdle,
		MaxResponseHeaderBytes: maxAnswerRead,
		// A connection that a firewall has forgotten would let each request run into its timeout.
		HTTP2: &http.HTTP2Config{SendPingTimeout: dialTimeout, PingTimeout: dialTimeout},
	}
	if o.transport != nil {
		o.transport(t.transport)
	}
	return t, nil
}

// send makes a request. Its error is a *dlq.DeliveryError.
func (t *target) send(ctx context.Context, e *dlq.Envelope, original func(context.Context, *dlq.Envelope) (dlq.Record, error)) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	record, err := original(ctx, e)
	if err != nil {
		return err
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) { sent.Store(info.Err == nil) }})
	request, err := t.newRequest(ctx, e, &record)
	if err != nil {
		return t.failure(err, false)
	}
	// The transport, unlike a client, neither follows redirects nor keeps cookies.
	response, err := t.transport.RoundTrip(request)
	if err != nil {
		return t.failure(err, sent.Load())
	}
	defer func() { _ = response.Body.Close() }()
	defer time.AfterFunc(answerTime, cancel).Stop()
	return t.refusal(response)
}

// pause is how long the endpoint wants no requests.
func (t *target) pause() time.Duration {
	return time.Until(time.Unix(0, t.notBefore.Load()))
}

// Publish sends the messages and waits for the answers. Messages with the same key are sent
// in turn, and different keys at once. The result has an entry for each message. A message
// that failed without an answer may still have arrived.
//
// A message whose target is closed is not sent, and fails with dlq.ErrTargetClosed. So does
// a message that cannot be sent in time, or after the endpoint turned out to be away.
//
// Unless the order is dlq.OrderNone, a message that fails for any reason blocks the later
// messages of its key: they are not sent.
func (p *Publisher) Publish(ctx context.Context, envelopes []dlq.Envelope, order dlq.Order, closed []dlq.Target) []dlq.Delivery {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
	deliveries := make([]dlq.Delivery, len(envelopes))
	pages := map[string]*page{}
	var running sync.WaitGroup
	for i := range envelopes {
		name := envelopes[i].Target()
		deliveries[i].Target = dlq.Target{Topic: name, Partition: dlq.AnyPartition}
		t := p.targets[name]
		if t == nil {
			err := fmt.Errorf("%s is not an endpoint of targets.endpoints", name)
			deliveries[i].Err = &dlq.DeliveryError{Category: dlq.CategoryAuth, TargetOnly: true, Err: err}
			continue
		}
		if pages[name] == nil {
			isClosed := slices.ContainsFunc(closed, func(target dlq.Target) bool { return target.Topic == name })
			pages[name] = &page{publisher: p, target: t, envelopes: envelopes, deliveries: deliveries, closed: isClosed, keys: map[string]int{}}
		}
		pages[name].add(i, order != dlq.OrderNone)
	}
	for _, page := range pages {
		running.Go(func() { page.run(ctx) })
	}
	running.Wait()
	for i := range deliveries {
		p.o.Metrics.Count(deliveries[i].Target.Topic, deliveries[i].Err)
	}
	return deliveries
}

// Ping asks an endpoint for its headers, with neither a message nor credentials. Its error
// says why the endpoint cannot be reached. Most endpoints refuse such a request, so any answer will do,
// except the answer of a proxy whose server is away.
func (p *Publisher) Ping(ctx context.Context, name string) error {
	t := p.targets[dlq.EndpointTarget(name)]
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, t.url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", t.userAgent)
	response, err := t.transport.RoundTrip(request)
	if err != nil { // nothing was to be sent
		return errors.New(strings.TrimPrefix(t.failure(err, false).Error(), "send to "+t.name+": "))
	}
	_ = response.Body.Close()
	if isAway(response.StatusCode) {
		return fmt.Errorf("it answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return nil
}
