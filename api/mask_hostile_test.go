package api_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

// hostileValues are values with the hidden e-mail address. A reader of JSON could overlook it in each of them.
func hostileValues() map[string]string {
	document := `{"customer":{"email":"` + hiddenEmail + `"},"n":12345678901234567890}`
	quoted, _ := json.Marshal(document)
	var wide []byte
	for _, unit := range utf16.Encode([]rune(document)) {
		wide = binary.LittleEndian.AppendUint16(wide, unit)
	}
	return map[string]string{
		"two members":         `{"customer":{"email":"` + hiddenEmail + `","email":"` + hiddenEmail + ` 2"},"customer":{"email":["` + hiddenEmail + `"]}}`,
		"an escaped name":     `{"\u0063ustomer":{"\u0065mail":"` + hiddenEmail + `"}}`,
		"an escaped value":    `{"customer":{"email":"\u0061lice.meyer@zq7.example"}}`,
		"lists in lists":      `{"customer":{"email":[[["` + hiddenEmail + `"]],{"0":"` + hiddenEmail + `"}]}}`,
		"names that are data": `{"customer":{"email":{"` + hiddenEmail + `":1}}}`,
		"a byte order mark":   "\ufeff" + document, "UTF-16": string(wide), "garbage behind it": document + "}", "garbage before it": "x" + document,
		"two documents": document + "\n" + document, "JSON in a string": string(quoted), "base64": base64.StdEncoding.EncodeToString([]byte(document)),
		"half of it": document[:len(document)-20], "a zero": document[:len(document)-1] + "\x00}", "bytes that are no text": document[:len(document)-1] + "\xff}",
		"too deep": strings.Repeat("[", 1100) + document + strings.Repeat("]", 1100), "JSON in a member": `{"customer":{"email":` + string(quoted) + `}}`,
		"in single quotes": strings.ReplaceAll(document, `"`, `'`), "a lone surrogate": `{"customer":{"email":"` + hiddenEmail + `\ud800"},"note":"\ud800 ` + hiddenEmail + `"}`,
	}
}

func TestHostileValuesShowNothingThatIsHidden(t *testing.T) {
	t.Parallel()
	for _, as := range []string{"mask", "remove", "hash", "last4"} {
		w := startWithTokens(t, masked(t, dlq.MaskRule{Topics: []string{"orders.*"}, Value: []string{"customer.email"}, As: as}))
		for name, value := range hostileValues() {
			id := w.add(1, func(a *dlq.Arrival) {
				a.Record.Value, a.Payload = []byte(value), dlq.PayloadOf([]byte(value))
				a.ErrorMessage = name + ": no customer " + hiddenEmail
				a.StackTrace = "Failed: " + a.ErrorMessage + "\n\tat shop.Orders.charge(Orders.java:12)"
				a.Record.Headers = []dlq.Header{{Key: "kafka_dlt-exception-message", Value: []byte(a.ErrorMessage)}, {Key: "copy", Value: a.Record.Value}}
				a.Fingerprint = (*dlq.Grouping)(nil).Fingerprint(a)
			})[0].String()
			group := w.groupOf(id)
			for _, path := range []string{
				"/api/v1/dlq/messages/" + id, "/api/v1/dlq/messages/" + id + "/chain", "/api/v1/dlq/orders.dlq.v1?group=" + group,
				"/api/v1/dlq/orders.dlq.v1/export?group=" + group, "/api/v1/groups/" + group, "/api/v1/groups?topic=orders.dlq.v1",
			} {
				got := w.call(http.MethodGet, path, bearer("admin"))
				require.Equal(t, http.StatusOK, got.status, path+got.body)
				requireHidden(t, got.body, as+", "+name+", "+path)
				requireHidden(t, decodedBase64(got.body), as+", "+name+", "+path)
			}
		}
	}
}

// decodedBase64 is the decoded base64 in an answer, as UTF-8 and as UTF-16.
func decodedBase64(body string) string {
	var all strings.Builder
	for _, text := range strings.FieldsFunc(body, func(c rune) bool { return c == '"' }) {
		if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
			all.WriteString(strings.ReplaceAll(string(decoded), "\x00", "") + "\n")
			if again, err := base64.StdEncoding.DecodeString(string(decoded)); err == nil {
				all.Write(again)
			}
		}
	}
	return all.String()
}
