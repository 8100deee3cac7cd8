package masking_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/masking"
)

func asJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func asUTF16(text string, order binary.AppendByteOrder) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

func asBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// Producers serialize values twice, or choose other encodings and other formats. Errors quote parts of such values.
func TestTextsOfDocumentsWithinDocumentsAreHidden(t *testing.T) {
	t.Parallel()
	for _, hidden := range []string{"a@b.de", "Meyer", "+491711234567", "Zoë Müller", "日本太郎", "alice.meyer@example.com"} {
		document := `{"customer":{"email":` + asJSON(hidden) + `},"n":1}`
		for name, value := range map[string]string{
			"JSON in a string": asJSON(document), "twice": asJSON(asJSON(document)), "a long string": asJSON(document + strings.Repeat(" ", 9000)),
			"base64": asBase64(document), "base64 in a string": asJSON(asBase64(document)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(document)),
			"UTF-16": asUTF16(document, binary.LittleEndian), "UTF-16, big": asUTF16(document, binary.BigEndian), "UTF-16, marked": asUTF16("\ufeff"+document, binary.BigEndian),
			"UTF-16, of Japanese": asUTF16("\ufeff氏名："+hidden+"、住所", binary.LittleEndian), "a mark": "\ufeff" + document,
			"MessagePack":      "\x82\xa8customer\x81\xa5email" + string([]byte{0xa0 | byte(len(hidden))}) + hidden + "\xa1n\x01",
			"two documents":    document + "\n" + document,
			"names":            `{"customer":{"email":"x"}` + hidden + "}",
			"in single quotes": "{'customer': {'email': '" + hidden + "'}}",
		} {
			var quotes masking.Quotes
			quotes.AddOpaque([]byte(value))
			require.NotContains(t, quotes.Text("no customer with "+hidden+" here"), hidden, name)
		}
		for name, value := range map[string]string{
			"JSON in a member": asJSON(document), "base64 in a member": asJSON(asBase64(document)), "a list": "[" + asJSON(document) + "]",
		} {
			var quotes masking.Quotes
			_, ok := masking.Read([]byte(`{"data":`+value+`}`), targets(t, masking.Mask, "data"), &quotes)
			require.True(t, ok)
			require.NotContains(t, quotes.Text("no customer with "+hidden+" here"), hidden, name)
		}
	}
}

func TestBytesBesideATextInABinaryDocumentDoNotShowTheText(t *testing.T) {
	t.Parallel()
	var quotes masking.Quotes
	quotes.AddOpaque([]byte("\xa2eemailm+491711234567an\x01")) // CBOR has letters for lengths
	require.Equal(t, "no customer with *** here", quotes.Text("no customer with +491711234567 here"))
}

func TestNamesThatAreDataAreHiddenWithTheValueAroundThem(t *testing.T) {
	t.Parallel()
	var quotes masking.Quotes
	d, ok := masking.Read([]byte(`{"balances":{"a@b.de":-1,"+49171":2,"4711-22":3,"currency":"x","last_booking":4}}`), targets(t, masking.Mask, "balances"), &quotes)
	require.True(t, ok)
	text, _ := d.Masked(nil, &quotes)
	require.JSONEq(t, `{"balances":"***"}`, string(text))
	require.Equal(t, "the currency of *** and *** in last_booking, not of ***", quotes.Text("the currency of a@b.de and +49171 in last_booking, not of 4711-22"))
}
