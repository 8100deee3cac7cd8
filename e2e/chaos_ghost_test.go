package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ghost is the id of a broker that is registered and never started.
const ghost = 2

// createOnGhost creates topics whose partitions have a replica on the only broker and a
// replica on the ghost. So a partition has too few in-sync replicas once
// min.insync.replicas is 2. Topics with one replica would not suffice: Kafka never requires
// more in-sync replicas than exist.
func createOnGhost(t testing.TB, client *kgo.Client, topics ...string) {
	t.Helper()
	registerGhost(t, client)
	request := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range topics {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
		for partition := range int32(3) {
			placed := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			placed.Partition, placed.Replicas = partition, []int32{1, ghost}
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, placed)
		}
		request.Topics = append(request.Topics, topic)
	}
	answer, err := request.RequestWith(t.Context(), client)
	require.NoError(t, err)
	for _, topic := range answer.Topics {
		require.NoError(t, kerr.ErrorForCode(topic.ErrorCode), topic.Topic)
	}
}

// registerGhost registers a broker with the controller, as a starting broker does. The
// broker remains fenced, since it never sends a heartbeat.
func registerGhost(t testing.TB, client *kgo.Client) {
	t.Helper()
	admin := kadm.NewClient(client)
	metadata, err := admin.BrokerMetadata(t.Context())
	require.NoError(t, err)
	configs, err := admin.DescribeBrokerConfigs(t.Context(), 1)
	require.NoError(t, err)
	var controller string
	for _, config := range configs[0].Configs {
		if config.Key == "controller.quorum.voters" {
			_, controller, _ = strings.Cut(config.MaybeValue(), "@")
		}
	}
	require.NotEmpty(t, controller)
	direct, err := kgo.NewClient(kgo.SeedBrokers(controller))
	require.NoError(t, err)
	defer direct.Close()

	request := kmsg.NewPtrBrokerRegistrationRequest()
	request.BrokerID, request.ClusterID = ghost, metadata.Cluster
	request.IncarnationID, request.LogDirs = [16]byte{1}, [][16]byte{{0: 1, 15: 1}}
	request.PreviousBrokerEpoch = -1
	listener := kmsg.NewBrokerRegistrationRequestListener()
	listener.Name, listener.Host, listener.Port = "PLAINTEXT", "127.0.0.1", 1
	sasl := listener
	sasl.Name, sasl.SecurityProtocol = "SASL_PLAINTEXT", 2
	request.Listeners = append(request.Listeners, listener, sasl)
	feature := kmsg.NewBrokerRegistrationRequestFeature()
	feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = "metadata.version", 1, 30
	request.Features = append(request.Features, feature)
	err = register(t.Context(), direct, request)
	if !errors.Is(err, kerr.DuplicateBrokerRegistration) { // the client repeats a request whose answer is slow
		require.NoError(t, err)
	}
}

func register(ctx context.Context, controller *kgo.Client, request *kmsg.BrokerRegistrationRequest) error {
	answer, err := controller.SeedBrokers()[0].Request(ctx, request)
	if err != nil {
		return fmt.Errorf("register a broker: %w", err)
	}
	return kerr.ErrorForCode(answer.(*kmsg.BrokerRegistrationResponse).ErrorCode)
}
