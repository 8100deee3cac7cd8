package api_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/dlq/masking"
)

// tagged hides the fields that a schema tags with PII; see decoder.
func tagged(t testing.TB) func(*api.Options) {
	return masked(t, dlq.MaskRule{Topics: []string{"orders.*"}, Tags: []string{"PII"}, As: "mask"})
}

// withSchema makes a message with a hidden text in its value, and with quotes of that text.
func withSchema(id byte) func(*dlq.Arrival) {
	return func(a *dlq.Arrival) {
		a.Record.Value = append([]byte{0, 0, 0, 0, id}, hiddenEmail...)
		a.Payload = []byte(`{"a":"` + hiddenEmail + `","b":"shown"}`)
		a.Schema = dlq.Schema{Format: "AVRO", ID: uint32(id)}
		a.Record.Key = append([]byte{0, 0, 0, 0, id}, hiddenKey...)
		a.ErrorMessage = "refused " + hiddenEmail
	}
}

func TestFieldsThatASchemaTagsAreHiddenInEveryAnswer(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, tagged(t), func(o *api.Options) { o.Decoder = decoder{} })
	id := w.add(1, withSchema(7))[0]
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, messagePath(w.add(1, withSchema(7))[0])+"/dead", bearer("admin")).status)
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	for _, path := range []string{messagePath(id), "/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/orders.dlq.v1/export", "/api/v1/archive/messages?topic=orders.dlq.v1"} {
		got := w.call(http.MethodGet, path, bearer("admin"))
		require.Equal(t, http.StatusOK, got.status, got.body)
		requireHidden(t, got.body, path)
		require.Contains(t, got.body, "shown")
		require.Contains(t, got.body, "refused ***")
	}
	got := w.call(http.MethodGet, messagePath(id), bearer("admin"))
	require.Equal(t, map[string]any{"a": "***", "b": "shown"}, got.field(t, "payload"))
	require.Equal(t, map[string]any{"a": "***"}, got.field(t, "decoded_key", "payload"))
	require.Contains(t, got.field(t, "masked_paths"), "value.a")
	revealed := w.json(http.MethodPost, messagePath(id)+"/unmask", `{"reason":"x"}`, bearer("admin"))
	require.Equal(t, map[string]any{"a": hiddenEmail, "b": "shown"}, revealed.field(t, "payload"))
}

func TestAValueWhoseTagsAreNotKnownIsHiddenAsAWhole(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*dlq.Arrival){
		"unknown schema": withSchema(8),
		"schema in a header": func(a *dlq.Arrival) {
			withSchema(7)(a)
			a.Record.Value, a.Record.Key = a.Payload, nil
			a.Record.Headers = []dlq.Header{{Key: "__value_schema_id", Value: []byte{1}}}
		},
	} {
		for _, with := range []api.Decoder{decoder{}, nil} {
			w := start(t, tagged(t), func(o *api.Options) { o.Decoder = with })
			id := w.add(1, change)[0]
			for _, path := range []string{messagePath(id), "/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/orders.dlq.v1/export"} {
				got := w.call(http.MethodGet, path)
				requireHidden(t, got.body, name)
				require.NotContains(t, got.body, "shown", name)
			}
		}
	}
}

func TestAValueWithoutASchemaHasNoTags(t *testing.T) {
	t.Parallel()
	w := start(t, tagged(t))
	id := w.add(1, func(a *dlq.Arrival) { a.Payload = []byte(`{"a":1}`); a.Record.Value = a.Payload })[0]
	require.Equal(t, map[string]any{"a": 1.0}, w.call(http.MethodGet, messagePath(id)).field(t, "payload"))
}

func TestFiltersByPartsThatASchemaMayTagNeedThePermission(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, tagged(t))
	w.add(1, personal)
	for _, query := range []string{"payload.id=1", "key=a", "trace_id=a", "correlation_id=a", "error=a"} {
		requireError(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query, bearer("operator")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?"+query, bearer("admin")).status, query)
	}
	require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?header.tenant=a", bearer("operator")).status)
}

// cards is a Schema Registry. Its schema 7 is {"a": number} with the tag PII on a, and no other schema has tags. The bytes of
// the value do not show the number as text.
type cards struct{ isAway bool }

func (c cards) Decode(context.Context, string, bool, []byte) (dlq.Decoded, error) {
	if c.isAway {
		return dlq.Decoded{}, errors.New("it is away")
	}
	return dlq.Decoded{JSON: []byte(`{"a":` + hiddenNumber + `}`), Schema: dlq.Schema{Format: "AVRO", ID: 7}}, nil
}

func (cards) Encode(context.Context, string, []byte, json.RawMessage) ([]byte, dlq.Decoded, error) {
	return nil, dlq.Decoded{}, dlq.ErrUnavailable
}

func (c cards) Tagged(ctx context.Context, data []byte, tags []string) ([]masking.Path, error) {
	if c.isAway {
		return nil, errors.New("it is away")
	}
	return decoder{}.Tagged(ctx, data, tags)
}

const hiddenNumber = "4111111111111111"

func TestErrorsQuoteNoNumbersOfValuesAndKeysThatOnlyTheRegistryCanRead(t *testing.T) {
	t.Parallel()
	encoded := append([]byte{0, 0, 0, 0, 7}, binary.AppendVarint(nil, 4111111111111111)...)
	for name, change := range map[string]func(*dlq.Arrival){
		"value": func(a *dlq.Arrival) { a.Record.Value, a.Payload, a.DecodeError = encoded, nil, "it was away" },
		"key":   func(a *dlq.Arrival) { a.Record.Key = encoded },
	} {
		for _, with := range []api.Decoder{cards{}, cards{isAway: true}, nil} {
			w := start(t, tagged(t), func(o *api.Options) { o.Decoder = with })
			id := w.add(1, change, func(a *dlq.Arrival) {
				a.ErrorMessage = "card " + hiddenNumber + " was refused"
				a.Fingerprint.Message = a.ErrorMessage
			})[0]
			for _, path := range []string{messagePath(id), "/api/v1/dlq/orders.dlq.v1", "/api/v1/dlq/orders.dlq.v1/export", "/api/v1/groups?topic=orders.dlq.v1"} {
				got := w.call(http.MethodGet, path)
				require.Equal(t, http.StatusOK, got.status, got.body)
				require.NotContains(t, got.body, hiddenNumber, "%s %s %v", name, path, with)
			}
		}
	}
}

func TestAValueThatIsHiddenForItsTagsShowsNotItsLastCharacters(t *testing.T) {
	t.Parallel()
	for _, with := range []api.Decoder{cards{isAway: true}, nil} {
		w := start(t, masked(t, dlq.MaskRule{Topics: []string{"orders.*"}, Tags: []string{"PII"}, As: "last4"}), func(o *api.Options) { o.Decoder = with })
		id := w.add(1, func(a *dlq.Arrival) {
			a.Record.Value = []byte("\x00\x00\x00\x00\x07\x18a short name\x08pin7")
			a.Record.Key, a.Payload, a.ErrorMessage = a.Record.Value, nil, ""
		})[0]
		for _, path := range []string{messagePath(id), "/api/v1/dlq/orders.dlq.v1/export"} {
			got := w.call(http.MethodGet, path)
			require.NotContains(t, got.body, "pin7")
			require.NotContains(t, got.body, base64.StdEncoding.EncodeToString([]byte("***pin7")))
		}
	}
}

func TestAValueWithApicuriosSchemaInAHeaderIsHiddenAsAWhole(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"apicurio.value.artifactId", "apicurio.value.contentHash", "apicurio.value.globalId"} {
		w := start(t, tagged(t))
		id := w.add(1, func(a *dlq.Arrival) {
			a.Payload = []byte(`{"a":"` + hiddenEmail + `"}`)
			a.Record.Value, a.Record.Headers = a.Payload, []dlq.Header{{Key: header, Value: []byte("x")}}
		})[0]
		requireHidden(t, w.call(http.MethodGet, messagePath(id)).body, header)
	}
}

func TestTagsCountWithoutADatabaseAndForRecordsThatMessagesPointTo(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t, tagged(t), func(o *api.Options) { o.Decoder = decoder{} })
	id := w.add(1, withSchema(7))[0]
	for _, path := range []string{messagePath(id), listPath} {
		got := w.call(http.MethodGet, path, bearer("admin"))
		requireHidden(t, got.body, path)
		require.Contains(t, got.body, "refused ***")
	}
	var stored dlq.Arrival
	withSchema(7)(&stored)
	stored.Record.Headers = []dlq.Header{{Key: "card", Value: []byte("card " + hiddenNumber)}}
	pointer := func(a *dlq.Arrival) {
		a.Origin.Family = dlq.FamilyShareGroup
		a.Record.Key, a.Record.Value, a.Payload = nil, nil, nil
	}
	for _, with := range []api.Decoder{cards{}, cards{isAway: true}, nil} {
		w := start(t, tagged(t), func(o *api.Options) { o.Decoder, o.Pointers = with, oneRecord{stored.Record} })
		got := w.call(http.MethodGet, messagePath(w.add(1, pointer)[0]))
		require.NotEmpty(t, got.field(t, "pointed", "headers"), got.body)
		requireHidden(t, got.body, "")
		require.NotContains(t, got.body, hiddenNumber)
		require.NotContains(t, got.body, base64.StdEncoding.EncodeToString([]byte("card "+hiddenNumber)))
	}
}

type oneRecord struct{ dlq.Record }

func (r oneRecord) Fetch(context.Context, dlq.Origin, time.Time) (dlq.Record, error) {
	return r.Record, nil
}

func TestAMessageWithoutAValueQuotesNone(t *testing.T) {
	t.Parallel()
	w := start(t, tagged(t))
	id := w.add(1, func(a *dlq.Arrival) {
		a.Record.Key, a.Record.Value, a.Payload, a.ErrorMessage = []byte("k"), nil, nil, "no value"
		a.Record.Headers = []dlq.Header{{Key: "__value_schema_id", Value: []byte("x")}}
	})[0]
	require.Equal(t, "no value", w.call(http.MethodGet, messagePath(id)).field(t, "error_message"))
}
