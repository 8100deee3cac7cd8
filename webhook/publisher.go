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
	// Timeout limits a request until its answer. It is at most MaxTimeout.
	Timeout time.Duration
	// Concurrency limits the requests that are in flight at once.
	Concurrency int
	// SecretsFile has the secrets that sign requests. TokenFile has a bearer token. Both paths may be empty.
	SecretsFile, TokenFile string
}

// Options configure a publisher.
type Options struct {
	Endpoints map[string]Endpoint
	// AllowedNetworks are networks without public addresses in which endpoints may be.
	AllowedNetworks []netip.Prefix
	UserAgent       string
	// Original returns the record of a message as it was before it became a dead letter.
	Original func(context.Context, *dlq.Envelope) (dlq.Record, error)
	Metrics  Metrics

	// resolver and transport are for tests.
	resolver  *net.Resolver
	transport func(*http.Transport)
}

// Metrics counts messages, and measures their deliveries.
type Metrics interface {
	// Count counts a message for a target. err is the error of its delivery, or nil.
	Count(target string, err error)
	// Observe adds the duration of a delivery.
	Observe(context.Context, time.Duration)
}

const (
	// MaxTimeout is the longest timeout of an endpoint. It is shorter than maxDuration, which leaves time to wait for a free
	// connection.
	MaxTimeout = 15 * time.Second
	// maxDuration limits a call of Publish. It is shorter than the stop timeout of the worker, the timeouts of the activities
	// and dlq.ReviveAfter.
	maxDuration = 18 * time.Second

	dialTimeout = 5 * time.Second
	// maxIdle limits how long an idle connection is kept. Common servers and load balancers close connections later. A request
	// on a connection that the server has closed would be sent again.
	maxIdle = 45 * time.Second
)

// Publisher sends dead letters to HTTP endpoints. It is safe for concurrent use.
type Publisher struct {
	targets map[string]*target // by the name of the target, such as http:shop
	o       Options
}

// New returns a Publisher. It reads the secrets, and connects to no endpoint.
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

// target is an endpoint to which messages are sent.
type target struct {
	name, url, userAgent string
	timeout              time.Duration
	token, secrets       *secretFile
	transport            *http.Transport
	// slots limits the requests that are in flight at once.
	slots       *semaphore.Weighted
	concurrency int
	// The endpoint wants no requests before notBefore, in nanoseconds since 1970.
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
		// HTTP_PROXY is ignored, because a proxy would connect to addresses that the guard does not see.
		Proxy:               nil,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true, // the default is false with a custom dialer
		TLSHandshakeTimeout: min(dialTimeout, t.timeout),
		DisableCompression:  true, // a small compressed answer could become very large
		MaxIdleConnsPerHost: t.concurrency, MaxConnsPerHost: t.concurrency, IdleConnTimeout: maxIdle,
		MaxResponseHeaderBytes: maxAnswerRead,
		// Pings find a connection that a firewall has dropped. Without pings, each request on it would wait until its timeout.
		HTTP2: &http.HTTP2Config{SendPingTimeout: dialTimeout, PingTimeout: dialTimeout},
	}
	if o.transport != nil {
		o.transport(t.transport)
	}
	return t, nil
}

// send makes a request for a message. Its error is a *dlq.DeliveryError.
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
	// Unlike http.Client, the transport does not follow redirects or keep cookies.
	response, err := t.transport.RoundTrip(request)
	if err != nil {
		return t.failure(err, sent.Load())
	}
	defer func() { _ = response.Body.Close() }()
	defer time.AfterFunc(answerTime, cancel).Stop()
	return t.refusal(response)
}

// pause is how long the endpoint still wants no requests.
func (t *target) pause() time.Duration {
	return time.Until(time.Unix(0, t.notBefore.Load()))
}

// Publish sends the messages and waits for the answers. Messages with the same key are sent one after the other, and messages
// with different keys in parallel. The result has an entry for each message. A message that failed without an answer may still
// have arrived.
//
// A message whose target is closed is not sent, and fails with dlq.ErrTargetClosed. The same error is for a message that cannot
// be sent in time, and for a message whose endpoint another message has found away.
//
// Unless the order is dlq.OrderNone, a message that fails blocks the later messages of its key: they are not sent.
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

// Ping sends a HEAD request to an endpoint, without a message and without credentials. Its error says why the endpoint cannot
// be reached. Most endpoints refuse such a request, so any answer counts as reached. The exception is the answer of a proxy
// whose server is away.
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
	if err != nil { // no message was sent, so none may have arrived
		return errors.New(strings.TrimPrefix(t.failure(err, false).Error(), "send to "+t.name+": "))
	}
	_ = response.Body.Close()
	if isAway(response.StatusCode) {
		return fmt.Errorf("it answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return nil
}
