package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// RepublishUUIDKey is the Options.RepublishKey that gives every republished message
// a new UUID version 4 as its key. Otherwise a message keeps its key, and so its
// partition and its order.
const RepublishUUIDKey = "uuid"

// Defaults.
const (
	DefaultDeliveryTimeout = 5 * time.Second
	DefaultMetadataMaxAge  = 10 * time.Second
	DefaultStopGrace       = 10 * time.Second
	DefaultWatchInterval   = 5 * time.Second
)

// Options configure Ingest and Publisher. The configuration has checked them already, and
// the client library refuses invalid options.
type Options struct {
	// Brokers are host:port of the seed brokers. They need not be available yet.
	Brokers  []string
	ClientID string
	// ConsumerGroup is shared by every replica of the ingest.
	ConsumerGroup string
	// SASL authenticates connections. The zero value connects without authentication.
	SASL SASL
	// TLS is called for every new connection, so that a renewed certificate is
	// used without a restart. Nil means that connections are not encrypted.
	TLS func() (*tls.Config, error)
	// RepublishKey is RepublishUUIDKey; with any other value messages keep their keys.
	RepublishKey string
	// MaxRetries is the limit that every new message gets.
	MaxRetries int
	// Grouping decides which messages failed for the same cause. Nil means the default rules.
	Grouping *dlq.Grouping
	// DeliveryTimeout bounds how long a record may wait for its
	// acknowledgement (message.timeout.ms). Keep it below the timeout of the
	// activity that publishes.
	DeliveryTimeout time.Duration
	// MetadataMaxAge is how soon the ingest finds a topic that was created or
	// re-created.
	MetadataMaxAge time.Duration
	// MaxPending limits the PENDING messages of all topics together, and MaxPendingPerTopic limits the
	// PENDING messages of each topic. The ingest of a topic pauses at a limit; 0 is no limit. Each worker
	// counts every few seconds, so several workers may exceed a limit by a few batches.
	MaxPending, MaxPendingPerTopic int64
	// WatchInterval is how often the lag is measured and the brokers are pinged.
	WatchInterval time.Duration
	// Decoder decodes values for readers. Nil decodes nothing.
	Decoder Decoder
	// StopGrace is how long a stopping ingest may take to store its current batch.
	StopGrace time.Duration
}

// Decoder decodes the values of arrivals that are in the wire format of a Schema Registry. A call takes little
// time, even if the registry does not answer. The DecodeError of an arrival says why its value was not decoded.
type Decoder interface {
	DecodeArrivals(ctx context.Context, arrivals []*dlq.Arrival)
}

func (o Options) withDefaults() Options {
	o.DeliveryTimeout = cmp.Or(o.DeliveryTimeout, DefaultDeliveryTimeout)
	o.MetadataMaxAge = cmp.Or(o.MetadataMaxAge, DefaultMetadataMaxAge)
	o.StopGrace = cmp.Or(o.StopGrace, DefaultStopGrace)
	o.WatchInterval = cmp.Or(o.WatchInterval, DefaultWatchInterval)
	return o
}

// minMetadataAge is the shortest time between two metadata requests. With the library's default of 5 s, a
// missing topic or a new leader would be noticed only near the end of the delivery timeout. Metadata of a
// few thousand topics is cheap.
const minMetadataAge = 250 * time.Millisecond

// Sizes of records and batches, in bytes before compression.
const (
	// batchMaxBytes is Kafka's default for max.message.bytes. A topic with the default
	// refuses larger batches.
	batchMaxBytes = 1_000_012
	// unbatchedMaxBytes limits an unbatched record. It is a broker's default limit for a request
	// (socket.request.max.bytes, 100 MiB) without 64 KiB for the frame. Every record that was consumed
	// fits. The target may still refuse the record by its max.message.bytes.
	unbatchedMaxBytes = 100<<20 - 64<<10
	// maxBufferedRecords and maxBufferedBytes bound the memory of all concurrent calls
	// of Publish. A call that would exceed them waits.
	maxBufferedRecords = 10_000
	maxBufferedBytes   = 128 << 20
	// fetchMaxBytes bounds a fetch response. The ingest needs a few times this memory for each broker. The
	// library's default of 50 MiB is too much, since fetched records stay in memory while the store is
	// unavailable.
	fetchMaxBytes = 8 << 20
)

// Time limits of the group. A rebalance waits for the batches of a poll, for pollBudget
// at most, and then for the store call and the commit in progress. The sum must stay well
// below rebalanceTimeout.
const (
	rebalanceTimeout = 60 * time.Second
	sessionTimeout   = 12 * time.Second
	pollBudget       = 15 * time.Second
	storeTimeout     = 15 * time.Second
	commitTimeout    = 5 * time.Second
)

// connection has the options with which all clients connect.
func (o Options) connection(log *zap.Logger, name string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		// Credentials and certificates are read for every new connection.
		kgo.Dialer(o.dial),
		kgo.WithLogger(newLogger(log.Named("kafka." + name))),
		kgo.MetadataMinAge(minMetadataAge),
		// By default a connection that breaks on its first read counts as a wrong
		// configuration, and the request is not retried. Here a restarting broker is the more
		// likely cause, and every request has a timeout.
		kgo.AlwaysRetryEOF(),
	}
	if mechanism := o.SASL.mechanism(); mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts
}

// common has the options of all clients that live as long as the program.
func (o Options) common(log *zap.Logger, reg prometheus.Registerer, name string) []kgo.Opt {
	// All clients share a Prometheus registry; the label "client" tells them apart. The library's topic
	// label is off, because the publisher's topics come from headers that anyone can write.
	// dlq_republished_total has a bounded topic label.
	return append(o.connection(log, name), kgo.WithHooks(kprom.NewMetrics("dlq_kafka",
		kprom.Registerer(reg),
		kprom.WithStaticLabel(prometheus.Labels{"client": name}),
		kprom.FetchAndProduceDetail(kprom.UncompressedBytes, kprom.ByNode),
	)))
}

// batchedProducer has the options of the client that sends batches.
func (o Options) batchedProducer(log *zap.Logger, reg prometheus.Registerer, name string) []kgo.Opt {
	return append(o.common(log, reg, name),
		// acks=all and idempotence are the client's defaults. This line is explicit,
		// because RESOLVED means acknowledged by all in-sync replicas.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// By the library's default a record waits without a limit, so a retry would hang as long as its
		// broker.
		kgo.RecordDeliveryTimeout(o.DeliveryTimeout),
		kgo.ProduceRequestTimeout(o.DeliveryTimeout),
		kgo.RequestTimeoutOverhead(o.DeliveryTimeout),
		// A record that exceeds the delivery timeout fails without the broker's error. The client requests
		// metadata before each attempt, so an attempt takes minMetadataAge at least. This number of
		// attempts ends shortly before the delivery timeout, so the record fails with the broker's error.
		kgo.RecordRetries(max(int(o.DeliveryTimeout/minMetadataAge)-2, 1)),
		// Without this option, an idempotent record in flight to a dead broker cannot be cancelled: Publish
		// would outlive its activity, and the activity's next attempt would produce the message a second
		// time. With the option, a cancelled record is not sent later. The broker may have written the
		// record already, so a retry after a timeout can deliver twice.
		kgo.AllowIdempotentProduceCancellation(),
		// A record for a missing topic fails after 4 attempts, in about a second, and not after the
		// delivery timeout. The client creates no topics (its default): a created topic would have the
		// wrong partitions and retention, and would hide a wrong name.
		kgo.UnknownTopicRetries(3),
		kgo.RecordPartitioner(routing{kgo.StickyKeyPartitioner(nil)}),
		// No compression: not every consumer can read the client's default, snappy.
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(batchMaxBytes),
		// A linger of 2 ms is long enough to collect a page of records into a batch for each partition. The
		// library's default of 10 ms would slow a single retry down.
		kgo.ProducerLinger(2*time.Millisecond),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.MaxBufferedBytes(maxBufferedBytes),
	)
}

// unbatchedProducer has the options of the client that sends single records: records larger
// than a batch, and the records of a refused batch.
func (o Options) unbatchedProducer(log *zap.Logger, reg prometheus.Registerer, name string) []kgo.Opt {
	return append(o.batchedProducer(log, reg, name),
		kgo.ProducerBatchMaxBytes(unbatchedMaxBytes),
		// A topic's limit applies to the compressed batch. If the first producer compressed a record, the
		// record may fit only when it is compressed again. Every client library reads gzip without an extra
		// dependency.
		kgo.ProducerBatchCompression(kgo.GzipCompression(), kgo.NoCompression()),
	)
}

// consumer has the options of the ingest's client.
func (o Options) consumer(log *zap.Logger, reg prometheus.Registerer, topics string) []kgo.Opt {
	return append(o.common(log, reg, "ingest"),
		kgo.ConsumerGroup(o.ConsumerGroup),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics(topics),
		kgo.MetadataMaxAge(o.MetadataMaxAge),
		// Reading begins with the earliest record, at the start and after data loss. By the library's
		// default, reading goes back a minute after data loss, and could skip a dead letter. Reading a
		// record again is harmless, since the store recognises the record.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A record of an aborted transaction is no dead letter.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// The ingest reads the markers of transactions too, so that they move the positions. Otherwise a
		// marker would count as lag, and as lost once Kafka's retention deletes it.
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.RebalanceTimeout(rebalanceTimeout),
		// The partitions of a killed member are not read until its session ends. The
		// default of 45 s suits members that pause for long. Our members send heartbeats in
		// the background.
		kgo.SessionTimeout(sessionTimeout),
		// The ingest commits offsets itself, after the records are stored.
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)
}

// NewClient returns a plain client with these options and further options, for probes and
// tools. Unavailable brokers are no error.
func NewClient(o Options, log *zap.Logger, reg prometheus.Registerer, name string, more ...kgo.Opt) (*kgo.Client, error) {
	return newClient(append(o.withDefaults().common(log, reg, name), more...))
}

func newClient(opts []kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return client, nil
}

// Ping sends a request to any broker. Its errors wrap dlq.ErrUnavailable.
func Ping(ctx context.Context, client *kgo.Client) error {
	if err := untilLoggedIn(ctx, func() error { return client.Ping(ctx) }); err != nil {
		return fmt.Errorf("kafka: %w: %w", dlq.ErrUnavailable, err)
	}
	return nil
}
