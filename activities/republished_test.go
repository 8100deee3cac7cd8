package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"dlqmanager/activities"
	"dlqmanager/dlq"
)

// Workers of earlier versions return and read a bare bool.
func TestTheResultOfAPublishIsUnderstoodByEarlierVersions(t *testing.T) {
	t.Parallel()
	data := converter.GetDefaultDataConverter()
	for _, result := range []activities.Republished{
		{},
		{Published: true},
		{Published: true, At: &dlq.Acknowledgement{}},
		{Published: true, At: &dlq.Acknowledgement{Topic: "http:shop", Partition: dlq.AnyPartition, Offset: -1}},
		{Published: true, At: &dlq.Acknowledgement{Topic: "orders", TopicID: dlq.NewID(), Partition: 1<<31 - 1, Offset: 1<<63 - 1}},
	} {
		payload, err := data.ToPayload(result.Encode())
		require.NoError(t, err)
		stored, err := proto.Marshal(payload)
		require.NoError(t, err)
		var read commonpb.Payload
		require.NoError(t, proto.Unmarshal(stored, &read))

		var raw converter.RawValue
		require.NoError(t, data.FromPayload(&read, &raw))
		decoded, err := activities.DecodeRepublished(raw)
		require.NoError(t, err)
		require.Equal(t, result, decoded)

		var earlier bool
		require.NoError(t, data.FromPayload(&read, &earlier))
		require.Equal(t, result.Published, earlier)

		fromEarlier, err := data.ToPayload(earlier)
		require.NoError(t, err)
		decoded, err = activities.DecodeRepublished(converter.NewRawValue(fromEarlier))
		require.NoError(t, err)
		require.Equal(t, activities.Republished{Published: earlier}, decoded)
	}
}
