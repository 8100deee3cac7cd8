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

// defaultPartitions of topics that nobody said more about.
const defaultPartitions = 3

// KafkaOptions say how to run the in-process broker. The zero value of all but
// Dir is useful.
type KafkaOptions struct {
	// Dir holds topics, records, groups and their offsets. Empty keeps no
	// state beyond Stop.
	Dir string
	// Port of the broker; 0 takes a free one. Clients are told this port, so a
	// restart on another one is a change of address for them.
	Port int
	// PortSetting is named in the error when the port is taken.
	PortSetting string
	// Topics are created when they are missing.
	Topics []string
	// Partitions of every topic that is created without saying how many;
	// 3 when zero.
	Partitions int
	// SyncWrites forces every batch to the disk before it is acknowledged. It
	// matters only when the whole machine loses power: what a process wrote
	// survives its own death.
	SyncWrites bool
	// Log may be nil.
	Log *zap.Logger
}

// Kafka is a running broker. It speaks Kafka's protocol but is no Kafka: one
// node in this process, without replication.
//
// What survives the end of this process, kill -9 included: topics with their
// ids, records with their offsets, committed group offsets. What does not: the
// members of groups (they join again), the sequence numbers that recognise a
// producer's repeated batch, and the start of a log that records were deleted
// from (they may reappear up to the batch that the cut went through). Without
// SyncWrites a loss of power can also take back acknowledged records, and their
// offsets are given out again.
type Kafka struct {
	// Brokers are the addresses to connect to.
	Brokers []string

	cluster *kfake.Cluster
}

// StartKafka starts a broker with the state that Dir holds. Two brokers must
// never share a Dir. It returns a *PortInUseError when the port is taken.
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
	options := []kfake.Opt{
		kfake.Ports(o.Port), // one port is one broker
		kfake.ClusterID("dlq-manager-dev"),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.AllowAutoTopicCreation(), // as brokers do by default, for clients that ask for it
		kfake.WithLogger(kafkaLog{o.Log.Sugar()}),
		// Offsets of an idle group expire after a week by default. Who comes
		// back from a holiday would read everything again.
		kfake.BrokerConfigs(map[string]string{"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60)}),
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
		// Not the broker's seed: that one is for a broker without any state.
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

// Stop writes the rest of the state and closes the broker. Everything that
// matters is on the disk already, so giving up when ctx ends loses nothing.
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

// kafkaLog passes on what the broker could not do; the rest is one line for
// every request.
type kafkaLog struct{ log *zap.SugaredLogger }

func (l kafkaLog) Logf(level kfake.LogLevel, format string, args ...any) {
	if level == kfake.LogLevelError || level == kfake.LogLevelWarn {
		l.log.Warnf("kafka: "+format, args...)
	}
}
