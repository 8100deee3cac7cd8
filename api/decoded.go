package api

import (
	"context"
	"encoding/json"

	"dlqmanager/dlq"
	"dlqmanager/dlq/masking"
)

// Decoder decodes values and keys with the schemas of a Schema Registry.
type Decoder interface {
	// Decode decodes the value or the key of a record of a topic. The text of its error is for operators. If it fails, the
	// result still has the known fields of the schema.
	Decode(ctx context.Context, topic string, isKey bool, data []byte) (dlq.Decoded, error)
	// Encode encodes an edited value with the schema of the original value. decoded is the result of Decode for the new value.
	// The error is a *dlq.EncodeError if the edited value does not fit the schema.
	Encode(ctx context.Context, topic string, original []byte, edited json.RawMessage) (value []byte, decoded dlq.Decoded, err error)
	// Tagged has the type dlq.TaggedPaths.
	Tagged(ctx context.Context, data []byte, tags []string) ([]masking.Path, error)
}

// decodedFields has the results of the Schema Registry for the value and the key of a message.
type decodedFields struct {
	Schema *schemaView `json:"schema"`
	// DecodeError says why Payload is null although the value names a schema.
	DecodeError *string         `json:"decode_error"`
	DecodedKey  *decodedKeyView `json:"decoded_key"`
}

type schemaView struct {
	Format      *string `json:"format"`
	ID          uint32  `json:"id"`
	Subject     *string `json:"subject"`
	Version     *int    `json:"version"`
	MessageType *string `json:"message_type"`
}

type decodedKeyView struct {
	Payload json.RawMessage `json:"payload"`
	Schema  *schemaView     `json:"schema"`
	Error   *string         `json:"error"`
}

func viewSchema(s dlq.Schema) *schemaView {
	if s.ID == 0 {
		return nil
	}
	return &schemaView{Format: optional(s.Format), ID: s.ID, Subject: optional(s.Subject), Version: optional(s.Version),
		MessageType: optional(s.MessageType)}
}

// decode decodes the value of a message if the ingest has not decoded it. It returns the decoded key, or nil for a key without
// a schema.
func decode(ctx context.Context, decoder Decoder, d *dlq.Detail) *decodedKeyView {
	if decoder == nil {
		return nil
	}
	if _, ok := dlq.SchemaIDOf(d.Record.Value); ok && len(d.Payload) == 0 {
		decoded, err := decoder.Decode(ctx, d.OriginalTopic, false, d.Record.Value)
		if d.Payload, d.Schema, d.DecodeError = decoded.JSON, decoded.Schema, ""; err != nil {
			d.DecodeError = err.Error()
		}
	}
	if _, ok := dlq.SchemaIDOf(d.Record.Key); !ok {
		return nil
	}
	decoded, err := decoder.Decode(ctx, d.OriginalTopic, true, d.Record.Key)
	key := &decodedKeyView{Payload: decoded.JSON, Schema: viewSchema(decoded.Schema)}
	if err != nil {
		key.Error = optional(err.Error())
	}
	return key
}
