package dlq_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

const email = "alice.meyer@example.com"

func newMask(t testing.TB, rule dlq.MaskRule) *dlq.Mask {
	t.Helper()
	rule.Topics = []string{"orders.*"}
	if rule.As == "" {
		rule.As = "mask"
	}
	masking, err := dlq.NewMasking([]dlq.MaskRule{rule}, []byte("secret"))
	require.NoError(t, err)
	return masking.For("orders.dlq")
}

// quoting is a message that has a text wherever a stranger could put the text.
func quoting(text string) *dlq.Detail {
	encoded := base64.StdEncoding.EncodeToString([]byte("for " + text))
	quoted, _ := json.Marshal(text)
	value := fmt.Sprintf(`{"id":12345678901234567890,"customer":{"email":%s},"note":"for %s"}`, quoted, strings.Trim(string(quoted), `"`))
	return &dlq.Detail{
		Message: dlq.Message{DLQTopic: "orders.dlq", OriginalTopic: "orders", ErrorMessage: "no customer " + text, ErrorClass: "Unknown." + text, Payload: []byte(value)},
		Record: dlq.Record{Key: []byte(text), Value: []byte(value), Headers: []dlq.Header{
			{Key: "x-user", Value: []byte(text)}, {Key: "kafka_dlt-exception-message", Value: []byte("no customer " + text)},
			{Key: "x-binary", Value: []byte(encoded)}, {Key: "x-null"}, {Key: "x-other", Value: []byte("other")}, {Key: "X-" + text, Value: []byte("1")},
		}},
		Failure: dlq.Failure{ErrorMessage: "no customer " + text, ErrorClass: text, CauseClass: text, StackTrace: "at a.b.C\nCaused by: " + text + "\n",
			TraceID: text, CorrelationID: text, Suspicion: "header " + text},
		Attempts:    []dlq.Attempt{{Error: "503: " + text}},
		DecodeError: "cannot decode " + text,
	}
}

func requireNowhere(t *testing.T, text string, shown *dlq.Shown) {
	t.Helper()
	all := fmt.Sprintf("%+q %q %q %q %q %+v %+v", shown.Record.Headers, shown.Record.Value, shown.Record.Key, shown.Payload, shown.DecodedKey, shown.Detail, shown.Attempts)
	for _, form := range []string{text, base64.RawStdEncoding.EncodeToString([]byte("for " + text))[8:]} {
		require.NotContains(t, strings.ToLower(all), strings.ToLower(form))
	}
}

func TestAHiddenValueIsShownNowhere(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]dlq.MaskRule{
		"path": {Value: []string{"customer.email"}}, "any depth": {Value: []string{"**.email"}}, "whole value": {Value: []string{"*"}}, "key": {Key: []string{"*"}},
		"header": {Headers: []string{"X-USER"}}, "glob of headers": {Headers: []string{"x-u*"}},
	} {
		for _, as := range []string{"remove", "mask", "hash", "last4"} {
			rule.As = as
			d := quoting(email)
			shown := newMask(t, rule).Show(d, nil)
			requireNowhere(t, email, shown)
			require.NotEmpty(t, shown.Masked, name)
			require.Equal(t, quoting(email), d, "what is sent back stays")
			require.Contains(t, shown.ErrorMessage, "no custome")
			require.Contains(t, shown.Failure.StackTrace, "at a.b.C\nCaused by:")
			require.NotContains(t, shown.Text("failed: "+email), email)
			if name == "path" {
				require.Contains(t, string(shown.Record.Value), `"id":12345678901234567890`)
				require.Contains(t, string(shown.Payload), `"id":12345678901234567890`)
				require.Contains(t, shown.Masked, "value.customer.email")
			}
		}
	}
}

func TestAMessageWithoutHiddenPartsIsUnchanged(t *testing.T) {
	t.Parallel()
	d := quoting(email)
	shown := newMask(t, dlq.MaskRule{Value: []string{"customer.iban"}, Headers: []string{"x-iban"}}).Show(d, nil)
	require.Equal(t, d.Record, shown.Record)
	require.Nil(t, shown.Masked)
	masking, err := dlq.NewMasking([]dlq.MaskRule{{Topics: []string{"orders.*"}, Value: []string{"a"}, As: "mask"}}, nil)
	require.NoError(t, err)
	require.Nil(t, masking.For("payments.dlq", "payments"))
	require.NotNil(t, masking.For("shop.dlq", "orders.v1"), "the original topic counts too")
	require.Nil(t, (*dlq.Masking)(nil).For("orders.dlq"))
}

func TestAValueThatCannotBeReadIsHiddenAsAWhole(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"customer":{"email":"` + email, email, "\x00\x00\x00\x00\x01\x2e" + email, `"` + email + `"`, "<email>" + email + "</email>",
		`{"customer":{"email":"` + email + "\"}}\xff",
	} {
		for as, want := range map[string]string{"mask": "***", "remove": ""} {
			d := quoting(email)
			d.Record.Value, d.Payload = []byte(value), nil
			shown := newMask(t, dlq.MaskRule{Value: []string{"customer.email"}, As: as}).Show(d, nil)
			requireNowhere(t, email, shown)
			require.Equal(t, want, string(shown.Record.Value))
			require.Contains(t, shown.Masked, "value")
		}
	}
}

func TestWhatASchemaDecodesIsHiddenByPathAndItsBytesAsAWhole(t *testing.T) {
	t.Parallel()
	d := quoting(email)
	d.Record.Value = []byte("\x00\x00\x00\x00\x01\x02\x2e" + email)
	shown := newMask(t, dlq.MaskRule{Value: []string{"customer.email"}, Key: []string{"email"}}).Show(d, json.RawMessage(`{"email":"`+email+`","n":1}`))
	requireNowhere(t, email, shown)
	require.Equal(t, "***", string(shown.Record.Value))
	require.JSONEq(t, `{"id":12345678901234567890,"customer":{"email":"***"},"note":"for ***"}`, string(shown.Payload))
	require.JSONEq(t, `{"email":"***","n":1}`, string(shown.DecodedKey))
}

func TestTextsAboutUnreadMessagesAreHidden(t *testing.T) {
	t.Parallel()
	mask := newMask(t, dlq.MaskRule{Key: []string{"*"}})
	d := quoting(email)
	shown := mask.ShowUnread(&d.Message)
	require.Equal(t, "***", shown.ErrorMessage)
	require.True(t, json.Valid(shown.Payload))
	require.Equal(t, "***", mask.Unread().Text("anything"))
	d = quoting(email)
	d.Unreadable = errors.New("header " + email)
	shown = newMask(t, dlq.MaskRule{Headers: []string{"x"}}).Show(d, nil)
	requireNowhere(t, email, shown)
	require.EqualError(t, shown.Unreadable, "***")
	pointer := &dlq.Detail{Message: dlq.Message{ErrorMessage: email}}
	pointer.Failure.Origin.Family = dlq.FamilyShareGroup
	require.Equal(t, "***", mask.Show(pointer, nil).ErrorMessage)
}

func TestFiltersOnHiddenPartsAreNamed(t *testing.T) {
	t.Parallel()
	mask := newMask(t, dlq.MaskRule{Value: []string{"customer.email", "items.*.card", "**.iban"}, Headers: []string{"x-user*"}})
	for _, c := range []struct {
		filter dlq.Filter
		want   []string
	}{
		{dlq.Filter{}, nil},
		{dlq.Filter{Class: "a", ConsumerGroup: "b", Key: []byte("k"), TraceID: "t"}, nil},
		{dlq.Filter{ErrorContains: "alice"}, []string{"error"}},
		{dlq.Filter{Payload: map[string]string{"customer.email": "a", "customer.id": "1", "customer": "a"}}, []string{"payload.customer.email"}},
		{dlq.Filter{Payload: map[string]string{"customer.email.0": "a", "items.-1.card": "1", "a.b.iban": "1", "items.0.sku": "1"}},
			[]string{"payload.a.b.iban", "payload.customer.email.0", "payload.items.-1.card"}},
		{dlq.Filter{Headers: map[string]string{"X-User-Id": "a", "tenant": "b", "kafka_dlt-exception-message": "c"}},
			[]string{"header.X-User-Id", "header.kafka_dlt-exception-message"}},
		{dlq.Filter{Not: []dlq.Filter{{ErrorContains: "a"}, {Payload: map[string]string{"x.iban": "a"}}}}, []string{"error", "payload.x.iban"}},
	} {
		require.Equal(t, c.want, mask.Filters(&c.filter))
		shown := mask.WithoutHidden(&c.filter)
		require.Equal(t, len(c.want) > 0, strings.Contains(fmt.Sprintf("%+v", shown), "***"))
	}
	ids := newMask(t, dlq.MaskRule{Key: []string{"id"}, Headers: []string{"correlation-id", "traceparent"}})
	require.Equal(t, []string{"correlation_id", "key", "trace_id"}, ids.Filters(&dlq.Filter{Key: []byte("k"), TraceID: "t", CorrelationID: "c"}))
	require.Empty(t, (*dlq.Masking)(nil).All().Filters(&dlq.Filter{ErrorContains: "a"}))
}

// Whatever a message contains, Show leaves no quote of a hidden part in it, and does not fail.
func FuzzMaskShowsNothingHidden(f *testing.F) {
	f.Add(`{"customer":{"email":"SECRET"}}`, "SECRET", "SECRET", "no SECRET", uint8(0))
	f.Add(`{"customer":{"email":"SECRET"}`, "k", "h", "quoted \"SECRET", uint8(1))
	f.Add("\x00\x00\x00\x00\x01SECRET", `{"id":"SECRET"}`, "h", "SECRETSECRET", uint8(2))
	const secret = "Zq7kPw2mXv9"
	f.Fuzz(func(t *testing.T, value, key, header, text string, form uint8) {
		for _, part := range []*string{&value, &key, &header, &text} {
			*part = strings.ReplaceAll(*part, "SECRET", secret)
		}
		d := &dlq.Detail{Message: dlq.Message{ErrorMessage: text, Payload: dlq.PayloadOf([]byte(value))},
			Record:  dlq.Record{Key: []byte(key), Value: []byte(value), Headers: []dlq.Header{{Key: "x-user", Value: []byte(header)}, {Key: "other", Value: []byte(text)}}},
			Failure: dlq.Failure{StackTrace: text}}
		as := []string{"remove", "mask", "hash", "last4"}[form%4]
		shown := newMask(t, dlq.MaskRule{Value: []string{"**.email"}, Key: []string{"*"}, Headers: []string{"x-user"}, As: as}).Show(d, nil)
		if len(shown.Payload) > 0 && !json.Valid(shown.Payload) {
			t.Fatalf("%s is no JSON", shown.Payload)
		}
		isHidden := key == secret || header == secret || len(value) > 0 && !json.Valid([]byte(value)) && value == secret
		all := fmt.Sprintf("%s %s %s %s %s %s", shown.Record.Value, shown.Record.Key, shown.Record.Headers, shown.ErrorMessage, shown.Failure.StackTrace, shown.Payload)
		if isHidden && strings.Contains(all, secret) {
			t.Fatalf("%q shows what is hidden", all)
		}
	})
}
