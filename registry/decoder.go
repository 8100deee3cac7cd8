package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/sr"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"dlqmanager/dlq"
)

// Options says where the registry is.
type Options struct {
	// URLs are the instances of one registry, which are tried in turn.
	URLs []string
	// Authorize adds the credentials to a request; nil for none.
	Authorize func(*http.Request) error
	// TLS is called for every new connection. Nil means the default configuration.
	TLS func() (*tls.Config, error)
	// Timeout is how long the load of one schema with all its references may take.
	Timeout time.Duration
	// IngestTimeout is how long a batch of the ingest may wait for schemas.
	IngestTimeout time.Duration
}

// Decoder decodes with the schemas of a registry. It is safe for concurrent use.
//
// Schemas are cached by their id, and a cached schema is never read again: a registry does not change
// schemas. Ids of schemas that cannot be used are cached for unusableTTL. After a failure no request is
// made for pause. A load goes on when its callers no longer wait, so a registry that is slower than their
// timeouts still fills the cache.
type Decoder struct {
	o       Options
	client  *sr.Client
	log     *zap.Logger
	metrics *metrics
	cache   *cache
	breaker *breaker
	// allowance is the time that the ingest may still wait, with a token for each nanosecond. It grows with time,
	// up to IngestTimeout.
	allowance *rate.Limiter
	loads     singleflight.Group // schemas that are being loaded
}

// New does not connect.
func New(o Options, log *zap.Logger, reg prometheus.Registerer) (*Decoder, error) {
	options := []sr.ClientOpt{sr.URLs(slices.Clone(o.URLs)...), sr.UserAgent("dlq-manager"), sr.HTTPClient(newHTTPClient(o)), sr.LogLevel(sr.LogLevelNone)}
	if o.Authorize != nil {
		options = append(options, sr.PreReq(o.Authorize))
	}
	client, err := sr.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	d := &Decoder{o: o, client: client, log: log, cache: newCache(), breaker: &breaker{},
		allowance: rate.NewLimiter(rate.Limit(time.Second/allowedShare), int(o.IngestTimeout))}
	d.metrics = newMetrics(reg, func() bool { return d.breaker.err() != nil })
	return d, nil
}

// Decode decodes a value or a key of a record that was written to a topic. It waits for the registry until
// Options.Timeout. If there is an error, the result still has the id of the schema. The text of an error is
// for operators.
func (d *Decoder) Decode(ctx context.Context, topic string, isKey bool, data []byte) (dlq.Decoded, error) {
	id, ok := dlq.SchemaIDOf(data)
	if !ok {
		return dlq.Decoded{}, errNoPrefix
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	s, err := d.schema(ctx, id)
	return d.decode(s, err, id, topic, isKey, data)
}

// maxBatchIDs limits for how many unknown ids of a batch the registry is asked. Values that are not in the
// wire format, but begin with a zero byte, may each seem to have another id.
const maxBatchIDs = 64

// DecodeArrivals decodes the values of a batch, and sets Payload, Schema, DecodeError and the ids of the
// trace and the correlation. Of all its time, the ingest waits a fiftieth for the registry at most, and
// never longer than Options.IngestTimeout at once.
func (d *Decoder) DecodeArrivals(ctx context.Context, arrivals []*dlq.Arrival) {
	d.preload(ctx, arrivals)
	left := maxBatchGrowth
	for _, a := range arrivals {
		id, ok := dlq.SchemaIDOf(a.Record.Value)
		if !ok {
			continue
		}
		s, err := d.cached(id)
		if s == nil && err == nil {
			err = errTimeout
		}
		if err == nil && left <= 0 {
			err = errBatch
		}
		decoded, err := d.decode(s, err, id, a.Origin.Topic, false, a.Record.Value)
		left -= growth(a.Record.Value, decoded, err)
		a.Schema = decoded.Schema
		if err == nil {
			if a.Payload = dlq.PayloadOf(decoded.JSON); a.Payload == nil {
				err = errNoPayload
			}
		}
		if err != nil {
			a.DecodeError = err.Error()
		}
		a.TraceID, a.CorrelationID = cmp.Or(a.TraceID, decoded.TraceID), cmp.Or(a.CorrelationID, decoded.CorrelationID)
	}
}

// maxBatchGrowth limits the JSON of a batch, in bytes. Of the JSON of a value, only the bytes beyond
// usualGrowth times the value's length count. A few bytes can become megabytes of JSON, which take memory
// and time.
const (
	maxBatchGrowth = 32 << 20
	usualGrowth    = 8
)

var errBatch = &failure{reasonTooLarge, "the values before it in its batch were too large when decoded"}

func growth(value []byte, decoded dlq.Decoded, err error) int {
	size := len(decoded.JSON)
	if err != nil && !errors.Is(err, errBatch) && reasonOf(err) == reasonTooLarge && len(value) <= maxValue {
		size = maxJSON // JSON up to this size was built in vain
	}
	return max(0, size-usualGrowth*len(value))
}

var errNoPayload = errors.New("it was decoded, but the result has a NUL character, or numbers or nesting beyond the limits of a payload")

// preload waits until the schemas of a batch are in the cache, for as long as the allowance lasts.
func (d *Decoder) preload(ctx context.Context, arrivals []*dlq.Arrival) {
	missing := map[uint32]bool{}
	for _, a := range arrivals {
		if id, ok := dlq.SchemaIDOf(a.Record.Value); ok && len(missing) < maxBatchIDs {
			if s, err := d.cache.get(id); s == nil && err == nil {
				missing[id] = true
			}
		}
	}
	wait := time.Duration(d.allowance.Tokens())
	if len(missing) == 0 || wait <= 0 || d.breaker.err() != nil {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var group sync.WaitGroup
	for id := range missing {
		group.Go(func() { _, _ = d.schema(ctx, id) })
	}
	group.Wait()
	d.allowance.ReserveN(time.Now(), min(int(time.Since(began)), d.allowance.Burst()))
}

// cached returns a schema from the cache, or the reason why the schema cannot be used or loaded now. Both are nil for a
// schema that must be loaded.
func (d *Decoder) cached(id uint32) (*schema, error) {
	if s, err := d.cache.get(id); s != nil || err != nil {
		d.metrics.hits.Inc()
		return s, err
	}
	d.metrics.misses.Inc()
	return nil, d.breaker.err()
}

// maxValue is the largest value that is decoded, in bytes.
const maxValue = 4 << 20

func (d *Decoder) decode(s *schema, err error, id uint32, topic string, isKey bool, data []byte) (dlq.Decoded, error) {
	decoded := dlq.Decoded{Schema: dlq.Schema{ID: id}}
	if s != nil {
		decoded.Schema = s.describe(id, topic, isKey)
	}
	if err == nil && len(data) > maxValue {
		err = &failure{reasonTooLarge, fmt.Sprintf("it has %d bytes; at most %d are decoded", len(data), maxValue)}
	}
	if err == nil {
		err = s.decodeInto(&decoded, data[dlq.SchemaPrefix:])
	}
	if err == nil && !json.Valid(decoded.JSON) {
		err = &failure{reasonValue, "its decoded form is not JSON"}
	}
	if err != nil {
		decoded.JSON = nil
		d.metrics.failed(err)
		return decoded, err
	}
	return decoded, nil
}
