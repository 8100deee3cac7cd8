// Package client is a Go client of the REST API. Its types and methods are generated from api/openapi.yaml by
// `make client`; the other files add what a contract cannot say: errors, retries, paging, waiting and tokens.
// It imports the standard library only.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls one server. It is safe for concurrent use.
type Client struct {
	server *url.URL
	config Config
}

// Config has the settings of a client. The zero value is usable.
type Config struct {
	// HTTP sends the requests. Default: a client with a timeout of 90 seconds, since an answer may take the server 60 seconds.
	// Exports ignore the timeout.
	HTTP *http.Client
	// Token authenticates the requests. Default: none.
	Token TokenSource
	// Retries is how often a safe request is sent again. Default: 3. Negative: never.
	Retries int
	// LongestDelay limits the time before a request is sent again. If the server asks for more, only polls go on. Default: 30 seconds.
	LongestDelay time.Duration
	// PollEvery is the time between two polls of a running job. Default: one second.
	PollEvery time.Duration
	// Unreachable gets the error of each failed poll of a running job before the next poll, and nil when the server answers
	// again. Default: nobody is told.
	Unreachable func(error)
	// UserAgent names the program in the server's log.
	UserAgent string
}

// New makes a client of the server at an address such as https://dlq.example.com/base.
func New(address string, config Config) (*Client, error) {
	server, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the server: %w", err)
	}
	if server.Host == "" || server.Scheme != "http" && server.Scheme != "https" || server.RawQuery != "" || server.User != nil {
		return nil, fmt.Errorf("%s is no address of a server; give one such as https://dlq.example.com", server.Redacted())
	}
	server.Path = strings.TrimRight(server.Path, "/")
	if config.HTTP == nil {
		config.HTTP = &http.Client{Timeout: 90 * time.Second}
	}
	if config.Retries == 0 {
		config.Retries = 3
	}
	if config.LongestDelay == 0 {
		config.LongestDelay = 30 * time.Second
	}
	if config.PollEvery == 0 {
		config.PollEvery = time.Second
	}
	return &Client{server: server, config: config}, nil
}

// Answer is the server's answer to a successful request.
type Answer[T any] struct {
	// Value is the decoded body. It is empty if NotModified.
	Value T
	// Body is the answer as it came.
	Body   []byte
	Status int
	Header http.Header
}

// NotModified tells whether the answer still has the tag of If-None-Match.
func (a *Answer[T]) NotModified() bool { return a.Status == http.StatusNotModified }

// RequestID returns the id of the request, which the server's log has too.
func (a *Answer[T]) RequestID() string { return a.Header.Get("X-Request-Id") }

// ETag returns the tag of the answer, for If-None-Match.
func (a *Answer[T]) ETag() string { return a.Header.Get("ETag") }

// Location returns the path to poll; empty if the answer has none.
func (a *Answer[T]) Location() string { return a.Header.Get("Location") }

// Page returns the address of the console's page about the same subject; empty if the server names no page.
func (a *Answer[T]) Page() string { return PageOf(a.Header) }

// PageOf returns the address of the console's page in the header of an answer; empty if the header names no page.
func PageOf(header http.Header) string {
	for _, link := range header.Values("Link") {
		address, parameters, ok := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		if ok && strings.Contains(parameters, `rel="alternate"`) && strings.Contains(parameters, `type="text/html"`) {
			return address
		}
	}
	return ""
}

// streamed is the type of an export.
const streamed = "application/x-ndjson"

// maxAnswer bounds the bytes that are read of an answer. The server's largest answer is a message with its bytes in base64.
const maxAnswer = 256 << 20

// send sends a request, repeats it after a failure if that is safe, and decodes the answer.
func send[T any](ctx context.Context, c *Client, r *request, options []RequestOption) (*Answer[T], error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	for _, option := range options {
		option(r)
	}
	response, err := c.deliver(ctx, r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, readError(response)
	}
	if to := response.Header.Get("Location"); to != "" && response.StatusCode >= http.StatusMultipleChoices && response.StatusCode != http.StatusNotModified {
		return nil, &APIError{Status: response.StatusCode, Message: fmt.Sprintf("%s sends on to %s: use the address where the server is", c.server.Host, to)}
	}
	if r.seen != nil {
		*r.seen = response.Header
	}
	answer := &Answer[T]{Body: response.content, Status: response.StatusCode, Header: response.Header}
	if response.StatusCode == http.StatusNotModified {
		return answer, nil
	}
	if err := foreign(response); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(response.content, &answer.Value); err != nil {
		return nil, fmt.Errorf("the answer to %s differs from the contract of this client: %w", r, err)
	}
	return answer, nil
}

// received is an answer whose body has been read.
type received struct {
	*http.Response
	content []byte
}

func (c *Client) once(ctx context.Context, r *request, token string) (*received, error) {
	var body io.Reader
	if r.body != nil {
		content, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s: %w", r, err)
		}
		body = bytes.NewReader(content)
	}
	request, err := http.NewRequestWithContext(ctx, r.method, c.server.String()+r.path, body)
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = r.query.Encode()
	request.Header = r.header.Clone()
	request.Header.Set("Accept", "application/json")
	sender := c.config.HTTP
	if r.isStream {
		request.Header.Set("Accept", streamed+", application/json")
		sender = new(*c.config.HTTP)
		sender.Timeout = 0
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.config.UserAgent != "" {
		request.Header.Set("User-Agent", c.config.UserAgent)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := sender.Do(request)
	if err != nil {
		return nil, err
	}
	if r.isStream && response.StatusCode < http.StatusBadRequest {
		return &received{response, nil}, nil // the export reads and closes its body
	}
	defer response.Body.Close()
	limit := int64(maxAnswer)
	if response.StatusCode >= http.StatusBadRequest {
		limit = maxErrorBody
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("read the answer to %s: %w", r, err)
	}
	return &received{response, content}, nil
}
