package activities

import (
	"fmt"
	"strconv"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"dlqmanager/dlq"
)

// Republished is the result of Republish.
type Republished struct {
	// Published is false when Kafka is not configured.
	Published bool
	// At is where the target has the message; nil when unknown.
	At *dlq.Acknowledgement
}

// The metadata of an encoded Republished.
const (
	partitionMetadata = "target-partition"
	offsetMetadata    = "target-offset"
	topicMetadata     = "target-topic"
	topicIDMetadata   = "target-topic-id"
)

// Encode returns Published as JSON, with the acknowledgement in the metadata. Workers of
// earlier versions write and read a bare bool. They ignore the metadata, so both versions
// can take any step of one workflow. If they could not decode the result, they would
// record a published message as failed.
func (r Republished) Encode() converter.RawValue {
	payload := &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)},
		Data:     strconv.AppendBool(nil, r.Published),
	}
	if r.At != nil {
		payload.Metadata[partitionMetadata] = strconv.AppendInt(nil, int64(r.At.Partition), 10)
		payload.Metadata[offsetMetadata] = strconv.AppendInt(nil, r.At.Offset, 10)
		payload.Metadata[topicMetadata] = []byte(r.At.Topic)
		if !r.At.TopicID.IsZero() {
			payload.Metadata[topicIDMetadata] = []byte(r.At.TopicID.String())
		}
	}
	return converter.NewRawValue(payload)
}

// DecodeRepublished reads a result of this or an earlier version.
func DecodeRepublished(value converter.RawValue) (r Republished, err error) {
	payload := value.Payload()
	switch data := string(payload.GetData()); data { // a decoder of JSON does not count as deterministic
	case "true":
		r.Published = true
	case "false":
	default:
		return r, fmt.Errorf("the result of a publish is %q, neither true nor false", data)
	}
	partition, noPartition := strconv.ParseInt(string(payload.GetMetadata()[partitionMetadata]), 10, 32)
	offset, noOffset := strconv.ParseInt(string(payload.GetMetadata()[offsetMetadata]), 10, 64)
	if noPartition == nil && noOffset == nil {
		r.At = &dlq.Acknowledgement{Topic: string(payload.GetMetadata()[topicMetadata]), Partition: int32(partition), Offset: offset}
		r.At.TopicID, _ = dlq.ParseID(string(payload.GetMetadata()[topicIDMetadata]))
	}
	return r, nil
}
