package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"
)

// defaultPartitions is the default number of a topic's partitions.
const defaultPartitions = 3

// KafkaOptions configures the in-process broker. Every field has a default.
type KafkaOptions struct {
	// Dir holds topics, records, groups and their offsets. If it is empty, Stop
	// discards all state.
	Dir string
	// Port of the broker; 0 takes a free port. The broker advertises this port, so a
	// restart on another port changes the address for clients.
	Port int
	// PortSetting is the setting that the error names when the port is taken.
	PortSetting string
	// Topics are created when they are missing.
	Topics []string
	// Partitions of every topic that is created without a number; 3 when zero.
	Partitions int
	// SyncWrites forces every batch to the disk before it is acknowledged. It matters
	// only when the whole machine loses power; a crash of the process loses nothing.
	SyncWrites bool
	// Log may be nil.
	Log *zap.Logger
}

// Kafka is a running broker that speaks Kafka's protocol: one node in this process,
// without replication.
//
// Topics with their ids, records with their offsets, and committed group offsets
// survive the end of this process, even by kill -9. The following is lost: group
// members, which rejoin; the sequence numbers that detect a producer's repeated batch;
// and the log start offset after records were deleted, so that up to one batch of deleted
// records may reappear. Without SyncWrites a loss of power can also lose acknowledged
// records, and their offsets are assigned again.
type Kafka struct {
	// Brokers are the addresses to connect to.
	Brokers []string

	cluster *kfake.Cluster
}

// StartKafka starts a broker with the state in Dir. Two brokers must never share a Dir.
// It returns a *PortInUseError when the port is taken.
func StartKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkPort("Kafka", o.Port, o.PortSetting); err != nil {
		return nil, err
	}
	if o.Partitions == 0 {
		o.Partitions = defaultPartitions
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	// Offsets of an idle group expire after a week by default; then the group would read every record again.
	configs := map[string]string{"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60)}
	if o.Dir == "" { // a segment in memory is copied whenever it grows, while all clients wait
		configs["log.segment.bytes"] = strconv.Itoa(1 << 20)
	}
	options := []kfake.Opt{
		kfake.Ports(o.Port), // one port is one broker
		kfake.ClusterID("dlq-manager-dev"),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.AllowAutoTopicCreation(), // a broker's default, for clients that request it
		kfake.WithLogger(kafkaLog{o.Log.Sugar()}),
		kfake.BrokerConfigs(configs),
	}
	if o.Dir != "" {
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return nil, err
		}
		options = append(options, kfake.DataDir(dir))
	}
	if o.SyncWrites {
		options = append(options, kfake.SyncWrites())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return nil, kafkaError(o, err)
	}
	k := &Kafka{cluster: cluster, Brokers: cluster.ListenAddrs()}
	for _, topic := range o.Topics {
		// Not kfake.SeedTopics, which applies only to a broker without state.
		err := cluster.CreateTopic(topic, int32(o.Partitions), nil)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			cluster.Close()
			return nil, fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	o.Log.Info("kafka started", zap.Strings("brokers", k.Brokers), zap.String("dir", o.Dir))
	return k, nil
}

func kafkaError(o KafkaOptions, err error) error {
	if o.Dir == "" || errors.Is(err, syscall.EADDRINUSE) {
		return portError("Kafka", o.Port, o.PortSetting, err)
	}
	return fmt.Errorf("Kafka did not start with the state in %s (remove that folder to start empty): %w", o.Dir, err)
}

// Stop closes the broker. All important state is already on the disk, so nothing is
// lost when ctx ends first.
func (k *Kafka) Stop(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		k.cluster.Close()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close Kafka: %w", ctx.Err())
	}
}

// kafkaLog logs only errors and warnings; the other levels write a line for every
// request.
type kafkaLog struct{ log *zap.SugaredLogger }

func (l kafkaLog) Logf(level kfake.LogLevel, format string, args ...any) {
	if level == kfake.LogLevelError || level == kfake.LogLevelWarn {
		l.log.Warnf("kafka: "+format, args...)
	}
}
