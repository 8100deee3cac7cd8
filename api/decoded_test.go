package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/dlq/masking"
)

// decoder is a Schema Registry that knows only schema 7.
type decoder struct{}

func (decoder) Decode(_ context.Context, topic string, isKey bool, data []byte) (dlq.Decoded, error) {
	id, _ := dlq.SchemaIDOf(data)
	if id != 7 {
		return dlq.Decoded{Schema: dlq.Schema{ID: id}}, errors.New("it is unknown")
	}
	part := "-value"
	if isKey {
		part = "-key"
	}
	return dlq.Decoded{JSON: []byte(`{"a": 1}`), Schema: dlq.Schema{Format: "AVRO", ID: id, Subject: topic + part, Version: 2, MessageType: "m.M"}}, nil
}

// Encode encodes only JSON objects. The encoded value is their text.
func (decoder) Encode(_ context.Context, topic string, original []byte, edited json.RawMessage) ([]byte, dlq.Decoded, error) {
	switch {
	case string(edited) == `"away"`:
		return nil, dlq.Decoded{}, fmt.Errorf("%w: the registry", dlq.ErrUnavailable)
	case edited[0] != '{':
		return nil, dlq.Decoded{}, &dlq.EncodeError{Reason: "/a is missing"}
	}
	id, _ := dlq.SchemaIDOf(original)
	return slices.Concat(original[:dlq.SchemaPrefix], edited), dlq.Decoded{JSON: edited, Schema: dlq.Schema{Format: "AVRO", ID: id, Subject: topic + "-value"}}, nil
}

// Tagged knows only schema 7, which has the tag PII on its field a.
func (decoder) Tagged(_ context.Context, data []byte, tags []string) ([]masking.Path, error) {
	if id, _ := dlq.SchemaIDOf(data); id != 7 {
		return nil, errors.New("it is unknown")
	}
	if !slices.Contains(tags, "PII") {
		return nil, nil
	}
	path, err := masking.ParsePath("a")
	return []masking.Path{path}, err
}

func TestAMessageThatTheIngestCouldNotDecodeIsDecodedWhenItIsRead(t *testing.T) {
	t.Parallel()
	known, unknown := []byte{0, 0, 0, 0, 7, 1}, []byte{0, 0, 0, 0, 8, 1}
	const away = "the schema registry cannot be reached"
	undecoded := func(a *dlq.Arrival) { a.Payload, a.DecodeError, a.Schema.ID = nil, away, 7 }
	const schema = `{"format":"AVRO","id":7,"subject":"orders-value","version":2,"message_type":"m.M"}`
	const keySchema = `{"format":"AVRO","id":7,"subject":"orders-key","version":2,"message_type":"m.M"}`
	for name, test := range map[string]struct {
		change                       func(*dlq.Arrival)
		payload, schema, reason, key string
		without                      bool // without a Schema Registry
	}{
		"decoded now": {
			change:  func(a *dlq.Arrival) { undecoded(a); a.Record.Value = known },
			payload: `{"a":1}`, schema: schema, reason: `null`, key: `null`,
		},
		"still not decoded": {
			change:  func(a *dlq.Arrival) { undecoded(a); a.Record.Value = unknown },
			payload: `null`, schema: `{"format":null,"id":8,"subject":null,"version":null,"message_type":null}`, reason: `"it is unknown"`, key: `null`,
		},
		"decoded by the ingest": {
			change: func(a *dlq.Arrival) {
				a.Record.Value, a.Payload = known, []byte(`{"b":2}`)
				a.Schema = dlq.Schema{Format: "JSON", ID: 9}
			},
			payload: `{"b":2}`, schema: `{"format":"JSON","id":9,"subject":null,"version":null,"message_type":null}`, reason: `null`, key: `null`,
		},
		"not in the wire format": {
			change: func(a *dlq.Arrival) {
				a.Payload, a.Record.Value, a.Record.Key = nil, []byte{0xff}, []byte{0, 0, 0, 0, 0, 0, 0, 5}
			},
			payload: `null`, schema: `null`, reason: `null`, key: `null`,
		},
		"a key": {
			change:  func(a *dlq.Arrival) { a.Payload, a.Record.Value, a.Record.Key = nil, nil, known },
			payload: `null`, schema: `null`, reason: `null`, key: `{"payload":{"a":1},"schema":` + keySchema + `,"error":null}`,
		},
		"an unknown key": {
			change:  func(a *dlq.Arrival) { a.Payload, a.Record.Value, a.Record.Key = nil, nil, unknown },
			payload: `null`, schema: `null`, reason: `null`,
			key: `{"payload":null,"schema":{"format":null,"id":8,"subject":null,"version":null,"message_type":null},"error":"it is unknown"}`,
		},
		"without a registry": {
			change:  func(a *dlq.Arrival) { undecoded(a); a.Record.Value, a.Record.Key = known, known },
			payload: `null`, schema: `{"format":null,"id":7,"subject":null,"version":null,"message_type":null}`, reason: `"` + away + `"`, key: `null`,
			without: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, func(o *api.Options) {
				if !test.without {
					o.Decoder = decoder{}
				}
			})
			id := w.add(1, func(a *dlq.Arrival) { a.Origin.Topic = "orders"; test.change(a) })[0]
			got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String())
			require.Contains(t, got.body, `"payload":`+test.payload+`,"status"`)
			require.Contains(t, got.body, `"schema":`+test.schema+`,"decode_error":`+test.reason+`,"decoded_key":`+test.key+`,`)
		})
	}
}
