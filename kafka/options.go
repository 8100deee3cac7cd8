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
// a new UUID version 4. Without it a message keeps its key, so that it goes back to
// its partition and stays in order with its neighbours.
const RepublishUUIDKey = "uuid"

// Defaults.
const (
	DefaultDeliveryTimeout = 5 * time.Second
	DefaultMetadataMaxAge  = 10 * time.Second
	DefaultStopGrace       = 10 * time.Second
)

// Options is how to reach Kafka and what to do there. They are not checked here:
// the configuration has been, and the client library refuses what it cannot use.
type Options struct {
	// Brokers are host:port pairs to start from. They need not be up yet.
	Brokers  []string
	ClientID string
	// ConsumerGroup is shared by every replica of the ingest.
	ConsumerGroup string
	// SASL authenticates connections; the zero value does not.
	SASL SASL
	// TLS is called for every new connection, so that a renewed certificate is
	// used without a restart. Nil means that connections are not encrypted.
	TLS func() (*tls.Config, error)
	// RepublishKey is RepublishUUIDKey, or else the key is kept.
	RepublishKey string
	// MaxRetries is what every new arrival is given.
	MaxRetries int
	// DeliveryTimeout bounds how long one record may wait for its
	// acknowledgement (message.timeout.ms). Keep it below the timeout of the
	// activity that publishes.
	DeliveryTimeout time.Duration
	// MetadataMaxAge is how soon the ingest sees a topic that was created, or
	// deleted and created again.
	MetadataMaxAge time.Duration
	// MaxPending and MaxPendingPerTopic are how many messages may be PENDING, of all
	// topics and of one, before nothing more is taken in; 0 is no limit. Each worker
	// counts every few seconds, so several may store a few batches more.
	MaxPending, MaxPendingPerTopic int64
	// StopGrace is how long a stopping ingest may take for the batch in hand.
	StopGrace time.Duration
}

func (o Options) withDefaults() Options {
	o.DeliveryTimeout = cmp.Or(o.DeliveryTimeout, DefaultDeliveryTimeout)
	o.MetadataMaxAge = cmp.Or(o.MetadataMaxAge, DefaultMetadataMaxAge)
	o.StopGrace = cmp.Or(o.StopGrace, DefaultStopGrace)
	return o
}

// minMetadataAge is the least time between two metadata requests. The default
// of 5 s would make a missing topic or a moved leader take most of the delivery
// timeout to notice; metadata of a few thousand topics is cheap.
const minMetadataAge = 250 * time.Millisecond

// Sizes of records and batches, in bytes before compression.
const (
	// batchMaxBytes is Kafka's own default for max.message.bytes. A greater
	// batch of small records would be refused by every topic that kept it.
	batchMaxBytes = 1_000_012
	// aloneMaxBytes is for a record that travels alone: what a broker takes in
	// one request (socket.request.max.bytes, 100 MiB), less the frame. A
	// record that was consumed fits; whether the target takes it is for the
	// target's max.message.bytes to say.
	aloneMaxBytes = 100<<20 - 64<<10
	// maxBufferedRecords and maxBufferedBytes bound the memory of all calls of
	// Publish together. Beyond them a call waits.
	maxBufferedRecords = 10_000
	maxBufferedBytes   = 128 << 20
	// fetchMaxBytes bounds what one broker may send ahead of the store, and so
	// the ingest's memory to a few times this for each broker: less than the
	// default of 50 MiB, since a store that is away keeps it all waiting.
	fetchMaxBytes = 8 << 20
)

// Time limits of the group. A rebalance waits for the batches of one poll, for
// pollBudget at most, and then for the store call and the commit in progress:
// together these must stay well below rebalanceTimeout.
const (
	rebalanceTimeout = 60 * time.Second
	sessionTimeout   = 12 * time.Second
	pollBudget       = 15 * time.Second
	storeTimeout     = 15 * time.Second
	commitTimeout    = 5 * time.Second
)

// common is what all clients share.
func (o Options) common(log *zap.Logger, reg prometheus.Registerer, name string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		// Credentials and certificates are read for every new connection.
		kgo.Dialer(o.dial),
		kgo.WithLogger(newLogger(log.Named("kafka." + name))),
		kgo.MetadataMinAge(minMetadataAge),
		// By default a connection that breaks on its very first read counts as
		// a wrong configuration and is not tried again. Here it is more often
		// a broker that is just restarting, and everything is bounded anyway.
		kgo.AlwaysRetryEOF(),
	}
	// One registry for all clients: the label tells them apart. There is none
	// for the topic, which the library would add: the publisher's topics are
	// named by headers that anyone can write. See dlq_republished_total.
	opts = append(opts, kgo.WithHooks(kprom.NewMetrics("dlq_kafka",
		kprom.Registerer(reg),
		kprom.WithStaticLabel(prometheus.Labels{"client": name}),
		kprom.FetchAndProduceDetail(kprom.UncompressedBytes, kprom.ByNode),
	)))
	if mechanism := o.SASL.mechanism(); mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts
}

// producer is for records in batches.
func (o Options) producer(log *zap.Logger, reg prometheus.Registerer, name string) []kgo.Opt {
	return append(o.common(log, reg, name),
		// acks=all and idempotence are the client's defaults; said here since
		// RESOLVED rests on them.
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// Unbounded by default: a retry would hang as long as the broker does.
		kgo.RecordDeliveryTimeout(o.DeliveryTimeout),
		kgo.ProduceRequestTimeout(o.DeliveryTimeout),
		kgo.RequestTimeoutOverhead(o.DeliveryTimeout),
		// A record that outlives the delivery timeout fails without its cause.
		// The client asks for new metadata before each of its own attempts, so
		// this many take a little less time, and end with what the broker said.
		kgo.RecordRetries(max(int(o.DeliveryTimeout/minMetadataAge)-2, 1)),
		// Without this an idempotent record that is in flight to a dead broker
		// cannot be given up: Publish would outlive the activity that called
		// it, and the activity's next attempt would queue the message a second
		// time behind the first. With it, a record that was given up is not
		// sent later. It may have been written already, which only the target
		// knows; a retry after a timeout can therefore deliver twice.
		kgo.AllowIdempotentProduceCancellation(),
		// A target that does not exist fails after 4 tries, about one second,
		// instead of waiting out the delivery timeout. Topics are never created
		// from here (the client's default): a topic made by accident has the
		// wrong partitions and retention, and hides that the name was wrong.
		kgo.UnknownTopicRetries(3),
		kgo.RecordPartitioner(newRouting()),
		// Not compressed by default: the records come from consumers of every
		// kind, and not all of them can read the client's default, snappy.
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(batchMaxBytes),
		// Long enough to gather a page of records into one batch for each
		// partition, short enough (default 10 ms) not to be felt by a single
		// retry.
		kgo.ProducerLinger(2*time.Millisecond),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.MaxBufferedBytes(maxBufferedBytes),
	)
}

// lone is for records that travel alone: greater than a batch, or refused
// together with others.
func (o Options) lone(log *zap.Logger, reg prometheus.Registerer, name string) []kgo.Opt {
	return append(o.producer(log, reg, name),
		kgo.ProducerBatchMaxBytes(aloneMaxBytes),
		// A topic's limit applies to compressed batches, so a record may have
		// fitted only thanks to its first producer's compression. Every client
		// library reads gzip without an addition.
		kgo.ProducerBatchCompression(kgo.GzipCompression(), kgo.NoCompression()),
	)
}

// consumer is for the ingest.
func (o Options) consumer(log *zap.Logger, reg prometheus.Registerer, topics string) []kgo.Opt {
	return append(o.common(log, reg, "ingest"),
		kgo.ConsumerGroup(o.ConsumerGroup),
		kgo.ConsumeRegex(),
		kgo.ConsumeTopics(topics),
		kgo.MetadataMaxAge(o.MetadataMaxAge),
		// Earliest, at the start and after loss. The default after loss is to
		// go back one minute; to read again costs little, since the store
		// knows what it has, and to skip costs a dead letter.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// A dead letter of an aborted transaction was never sent.
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.RebalanceTimeout(rebalanceTimeout),
		// A killed member's partitions rest until its session ends. The default
		// of 45 s is for members that pause for long; ours beat on their own.
		kgo.SessionTimeout(sessionTimeout),
		// Offsets are committed by the ingest, after the store has the records.
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
	)
}

// NewClient returns a plain client with these options and any others, for
// probes and tools. Brokers that are away are no error.
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

// Ping asks any broker for a sign of life. Its errors wrap dlq.ErrUnavailable.
func Ping(ctx context.Context, client *kgo.Client) error {
	if err := client.Ping(ctx); err != nil {
		return fmt.Errorf("kafka: %w: %w", dlq.ErrUnavailable, err)
	}
	return nil
}
