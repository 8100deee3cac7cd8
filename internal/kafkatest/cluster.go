package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is a real Kafka of several brokers, which are numbered from 1. Broker 1 is also
// the only controller. While broker 1 is stopped, the cluster does not notice when another
// broker stops.
type Cluster struct {
	brokers []*Server
	client  *kgo.Client
}

// RealClusterOf starts a Kafka of several brokers for one test.
func RealClusterOf(t testing.TB, brokers int) *Cluster {
	t.Helper()
	needTools(t)
	c, err := newCluster(t.TempDir(), brokers)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, broker := range c.brokers {
			broker.Kill() // the data is not needed again
		}
	})
	starts := make([]error, brokers)
	c.each(func(i int, broker *Server) { starts[i] = broker.start() })
	require.NoError(t, errors.Join(starts...))
	c.client, err = kgo.NewClient(kgo.SeedBrokers(c.Brokers()...), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(c.client.Close)
	require.Eventually(t, func() bool { return len(c.metadata(t).Brokers) == brokers }, startTimeout, 50*time.Millisecond)
	return c
}

func newCluster(dir string, brokers int) (*Cluster, error) {
	lib, err := jars(Version)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(brokers + 1)
	if err != nil {
		return nil, err
	}
	controller := local(ports[brokers])
	c := &Cluster{brokers: make([]*Server, brokers)}
	for i := range c.brokers {
		own := filepath.Join(dir, fmt.Sprint("broker-", i+1))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, err
		}
		c.brokers[i] = &Server{dir: own, jars: lib, heap: "256m", plain: local(ports[i])}
	}
	formats := make([]error, brokers)
	c.each(func(i int, broker *Server) { formats[i] = broker.format(broker.member(i+1, controller)) })
	return c, errors.Join(formats...)
}

// each calls the function for all brokers concurrently.
func (c *Cluster) each(do func(i int, broker *Server)) {
	var all sync.WaitGroup
	for i, broker := range c.brokers {
		all.Go(func() { do(i, broker) })
	}
	all.Wait()
}

// member is the configuration of one broker of a Cluster.
func (s *Server) member(number int, controller string) []string {
	properties := append(s.common(),
		fmt.Sprint("node.id=", number),
		"controller.quorum.voters=1@"+controller,
		"advertised.listeners=PLAINTEXT://"+s.plain,
		// How long a killed broker counts as alive. The default of 9 s would take most
		// of a test's time.
		"broker.session.timeout.ms=3000",
		"broker.heartbeat.interval.ms=500",
	)
	if number == 1 {
		return append(properties, "process.roles=broker,controller", "listeners=PLAINTEXT://"+s.plain+",CONTROLLER://"+controller)
	}
	return append(properties, "process.roles=broker", "listeners=PLAINTEXT://"+s.plain)
}

// Brokers returns host:port of all brokers.
func (c *Cluster) Brokers() []string {
	addresses := make([]string, len(c.brokers))
	for i, broker := range c.brokers {
		addresses[i] = broker.plain
	}
	return addresses
}

// Broker returns a broker by its number, to stop, kill or start it.
func (c *Cluster) Broker(number int) *Server { return c.brokers[number-1] }

// CreateTopic creates a topic whose partitions have these replicas, the leader
// first, and waits until all of them are in sync.
func (c *Cluster) CreateTopic(t testing.TB, name string, replicas [][]int32, configs map[string]string) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	for partition, brokers := range replicas {
		topic.ReplicaAssignment = append(topic.ReplicaAssignment,
			kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(partition), Replicas: brokers})
	}
	for key, value := range configs {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis, request.Topics = 10_000, []kmsg.CreateTopicsRequestTopic{topic}
	response, err := request.RequestWith(t.Context(), c.client)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(response.Topics[0].ErrorCode))
	for partition, brokers := range replicas {
		c.AwaitInSync(t, name, int32(partition), brokers...)
	}
}

// AwaitInSync waits until exactly these replicas of the partition are in sync.
func (c *Cluster) AwaitInSync(t testing.TB, topic string, partition int32, brokers ...int32) {
	t.Helper()
	var inSync []int32
	require.Eventually(t, func() bool {
		inSync = nil
		for _, found := range c.metadata(t, topic).Topics {
			for _, p := range found.Partitions {
				if p.Partition == partition && p.ErrorCode == 0 {
					inSync = p.ISR
				}
			}
		}
		slices.Sort(inSync)
		return slices.Equal(inSync, slices.Sorted(slices.Values(brokers)))
	}, startTimeout, 50*time.Millisecond, "%s[%d] must have %v in sync", topic, partition, brokers)
}

func (c *Cluster) metadata(t testing.TB, topics ...string) *kmsg.MetadataResponse {
	t.Helper()
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		request.Topics = append(request.Topics, kmsg.MetadataRequestTopic{Topic: &topic})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	response, err := request.RequestWith(ctx, c.client)
	if err != nil {
		return kmsg.NewPtrMetadataResponse() // the broker that got the request may have been killed
	}
	return response
}
