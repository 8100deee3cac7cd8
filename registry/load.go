package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/zap"
)

// The limits of a schema with all its references.
const (
	maxText       = 256 << 10
	maxReferences = 64
	maxDepth      = 16
	maxAnswer     = 1 << 20 // the bytes of one answer, which are more than its text, since JSON escapes the text
)

// schema returns a schema from the cache, or waits until it is loaded or ctx ends.
func (d *Decoder) schema(ctx context.Context, id uint32) (*schema, error) {
	if s, err := d.cached(id); s != nil || err != nil {
		return s, err
	}
	if ctx.Err() != nil { // nobody would wait for the load
		return nil, errTimeout
	}
	loaded := d.loads.DoChan(strconv.FormatUint(uint64(id), 10), func() (any, error) { return d.load(context.WithoutCancel(ctx), id) })
	select {
	case result := <-loaded:
		s, _ := result.Val.(*schema)
		return s, result.Err
	case <-ctx.Done():
		return nil, errTimeout
	}
}

// load asks the registry for a schema and puts it into the cache.
func (d *Decoder) load(ctx context.Context, id uint32) (*schema, error) {
	if s, err := d.cache.get(id); s != nil || err != nil { // another load has just ended
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	var s *schema
	err := guard(reasonSchema, func() error {
		f := &fetch{client: d.client, tags: map[string][]string{}, names: map[string]*source{}}
		err := f.run(ctx, id)
		if err == nil {
			s, err = compile(ctx, f)
		}
		return err
	})
	if err == nil {
		d.metrics.requests.WithLabelValues(resultOK).Inc()
		d.cache.add(id, s)
		return s, nil
	}
	known := unavailable(err)
	if reasonOf(known) != reasonUnavailable {
		d.metrics.requests.WithLabelValues(resultRefused).Inc()
		d.cache.addUnusable(id, known)
		return nil, known
	}
	d.metrics.requests.WithLabelValues(resultFailed).Inc()
	if d.breaker.fail(known) {
		if errors.As(err, new(*sr.ResponseError)) {
			err = known // without the body of the answer, which may be long or quote the credentials
		}
		d.log.Warn("the schema registry has failed; values are stored as bytes until it answers",
			zap.String("error", short(err)), zap.Duration("pause", pause))
	}
	return nil, known
}

// unavailable turns the error of a request into a *failure whose words name no hosts. It returns a *failure unchanged.
func unavailable(err error) error {
	text := "the schema registry cannot be reached"
	var response *sr.ResponseError
	switch {
	case errors.As(err, new(*failure)):
		return err
	case errors.As(err, &response) && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		text = fmt.Sprintf("the schema registry refuses the credentials (%d)", response.StatusCode)
	case errors.As(err, &response):
		text = fmt.Sprintf("the schema registry answers with %d", response.StatusCode)
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	}
	return &failure{reasonUnavailable, text}
}

// source is the text of a schema, or of a schema that it refers to.
type source struct {
	text string
	// name is the name of the reference: a path for Protobuf, a type for Avro.
	name string
}

// fetch reads a schema with its references.
type fetch struct {
	client   *sr.Client
	format   sr.SchemaType
	sources  []*source // a schema comes after its references, so the schema itself is the last
	versions []sr.SubjectVersion
	tags     map[string][]string // of the metadata, by the names of fields
	// names has the references by subject, version and name. An entry is nil while the references of this reference
	// are being read.
	names map[string]*source
	size  int
}

func (f *fetch) run(ctx context.Context, id uint32) error {
	s, err := f.client.SchemaByID(ctx, int(id))
	if err != nil {
		return refusal(err, "the schema registry has no schema with the id %d", id)
	}
	f.format = s.Type
	if err := f.add(ctx, "", s, 0); err != nil {
		return err
	}
	// A schema without its subjects still decodes, so an error is ignored.
	f.versions, _ = f.client.SchemaVersionsByID(ctx, int(id))
	return nil
}

// add adds a schema after its references.
func (f *fetch) add(ctx context.Context, name string, s sr.Schema, depth int) error {
	f.size += len(s.Schema)
	if s.SchemaMetadata != nil {
		for field, tags := range s.SchemaMetadata.Tags {
			f.tags[field] = append(f.tags[field], tags...)
			f.size += len(field) + len(tags) + len(strings.Join(tags, ""))
		}
	}
	if f.size > maxText {
		return badSchema("its schema and the references have more than %d bytes", maxText)
	}
	if depth > maxDepth {
		return badSchema("its schema has references more than %d levels deep", maxDepth)
	}
	for _, reference := range s.References {
		if err := f.follow(ctx, reference, depth+1); err != nil {
			return err
		}
	}
	f.sources = append(f.sources, &source{text: s.Schema, name: name})
	return nil
}

func (f *fetch) follow(ctx context.Context, reference sr.SchemaReference, depth int) error {
	key := fmt.Sprintf("%s %d %s", reference.Subject, reference.Version, reference.Name)
	known, found := f.names[key]
	switch {
	case known != nil:
		return nil
	case found:
		return badSchema("its schema refers to itself, by version %d of %q", reference.Version, reference.Subject)
	case len(f.names) == maxReferences:
		return badSchema("its schema has more than %d references", maxReferences)
	}
	f.names[key] = nil
	s, err := f.client.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), reference.Subject, reference.Version)
	if err != nil {
		return refusal(err, "its schema refers to version %d of %q, which the schema registry does not have", reference.Version, reference.Subject)
	}
	if s.Type != f.format {
		return badSchema("its schema refers to version %d of %q, which has another format", reference.Version, reference.Subject)
	}
	if err := f.add(ctx, reference.Name, s.Schema, depth); err != nil {
		return err
	}
	f.names[key] = f.sources[len(f.sources)-1]
	return nil
}

// refusal turns an answer of the registry that will not change soon into a *failure. It returns any other
// error, such as an outage of the registry, unchanged.
func refusal(err error, format string, args ...any) error {
	var response *sr.ResponseError
	switch {
	case errors.As(err, &response):
		switch response.StatusCode {
		case http.StatusNotFound:
			return &failure{reasonUnknown, fmt.Sprintf(format, args...)}
		case http.StatusBadRequest, http.StatusUnprocessableEntity:
			return badSchema("the schema registry refuses to give its schema (%d)", response.StatusCode)
		}
		return err
	case errors.As(err, new(*http.MaxBytesError)):
		return badSchema("the answer of the schema registry has more than %d bytes", maxAnswer)
	case strings.HasPrefix(err.Error(), "unable to decode ok response"): // such as a format that the client does not know
		return badSchema("the answer of the schema registry cannot be read: %s", short(err))
	}
	return err
}

// newHTTPClient returns a client that follows no redirects, because a redirect can lead to any other host.
func newHTTPClient(o Options) *http.Client {
	transport := &http.Transport{
		MaxConnsPerHost: 8, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		DialContext: (&net.Dialer{Timeout: o.Timeout}).DialContext,
	}
	if o.TLS != nil {
		transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := o.TLS()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
		}
	}
	return &http.Client{
		Transport: limited{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the schema registry redirects to another URL")
		},
	}
}

// limited limits the bodies of answers.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}

// Ping lists the subjects. Every registry does that for everyone who may read schemas.
func (d *Decoder) Ping(ctx context.Context) error {
	_, err := d.client.Subjects(ctx)
	var response *sr.ResponseError
	var request *url.Error
	switch {
	case err == nil, errors.As(err, new(*http.MaxBytesError)): // the registry has many subjects
		return nil
	case errors.As(err, &response) && response.StatusCode == http.StatusNotFound, strings.HasPrefix(err.Error(), "unable to decode ok response"):
		return errors.New("it is not a schema registry: it does not list subjects")
	case errors.As(err, &response):
		return unavailable(err)
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	case errors.As(err, &request): // the caller knows the URL
		return request.Err
	}
	return fmt.Errorf("ask for the subjects: %w", err)
}
