package dlq

import (
	"encoding/binary"
	"encoding/json"
)

// Schema is the schema of a Schema Registry for a value or a key. Unknown fields are zero.
type Schema struct {
	// Format is AVRO, PROTOBUF or JSON, as the registry calls them.
	Format string
	// ID is zero for bytes that name no schema.
	ID uint32
	// Subject and Version are one of the places of the schema in the registry. A schema may have several places.
	Subject string
	Version int
	// MessageType is the full name of the Protobuf message or the Avro record.
	MessageType string
}

// Decoded is a value or a key that was decoded with its schema.
type Decoded struct {
	// JSON is valid, but JSONB may refuse it.
	JSON   json.RawMessage
	Schema Schema
	// TraceID and CorrelationID come from the event's metadata; empty without metadata.
	TraceID       string
	CorrelationID string
}

// SchemaPrefix is the length of the prefix in Confluent's wire format: a zero byte and the schema's id.
const SchemaPrefix = 5

// SchemaIDOf returns the schema's id at the beginning of bytes in Confluent's wire format. JSON does not begin with a zero
// byte. Small numbers of eight bytes seem to begin with the id 0, which no registry gives to a schema.
func SchemaIDOf(data []byte) (id uint32, ok bool) {
	if len(data) < SchemaPrefix || data[0] != 0 {
		return 0, false
	}
	id = binary.BigEndian.Uint32(data[1:])
	return id, id != 0
}

// EncodeError refuses an edited value that cannot be encoded with its schema.
type EncodeError struct {
	Reason string // for operators
}

func (e *EncodeError) Error() string { return e.Reason }
