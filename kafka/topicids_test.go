package kafka

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// While a topic that was created again is being noticed, one partition may
// already be read from the new one and another still hold an offset of the old.
func TestCommitNamesTheIncarnationThatEachPartitionWasReadFrom(t *testing.T) {
	t.Parallel()
	before, after, other := [16]byte{1}, [16]byte{2}, [16]byte{3}
	owned := newOwnership()
	for _, p := range []place{{"orders.dlq", 0}, {"orders.dlq", 1}, {"pay.dlq", 0}} {
		owned.claims[p] = newClaim(p)
	}
	claims := []*claim{
		owned.claim(place{"orders.dlq", 0}, before),
		owned.claim(place{"orders.dlq", 1}, before),
		owned.claim(place{"pay.dlq", 0}, other),
	}
	owned.advance([]received{{claim: claims[0], after: kgo.EpochOffset{Offset: 7}}})
	claims[1] = owned.claim(place{"orders.dlq", 1}, after)

	request := kmsg.NewPtrOffsetCommitRequest()
	request.Topics = []kmsg.OffsetCommitRequestTopic{
		{Topic: "orders.dlq", TopicID: after, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 7}, {Partition: 1, Offset: 1}}},
		{Topic: "pay.dlq", TopicID: other, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 1}}},
	}
	sign(request, claims)
	signature := func(topic, partition int) string {
		metadata := request.Topics[topic].Partitions[partition].Metadata
		require.NotNil(t, metadata)
		return *metadata
	}
	require.Equal(t, signaturePrefix+hex.EncodeToString(before[:]), signature(0, 0))
	require.Equal(t, signaturePrefix+hex.EncodeToString(after[:]), signature(0, 1))
	require.Equal(t, signaturePrefix+hex.EncodeToString(other[:]), signature(1, 0))
}
