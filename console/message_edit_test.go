package console

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// formOf is the form of the page that edits a message as a browser sends it, with CR LF.
func formOf(m client.MessageDetail, as string) url.Values {
	form := newEditForm(&m, as)
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	fields := url.Values{
		"seen": {form.Seen}, "value_form": {form.ValueForm}, "value": {crlf(form.Value)}, "key_form": {form.KeyForm}, "key": {crlf(form.Key)}, "step": {"review"},
	}
	for i, h := range form.EditHeaders {
		n := strconv.Itoa(i)
		fields.Set("header_from_"+n, strconv.Itoa(h.From))
		fields.Set("header_key_"+n, h.Key)
		fields.Set("header_form_"+n, h.Form)
		fields.Set("header_value_"+n, crlf(h.Text))
	}
	return fields
}

var reviewedField = regexp.MustCompile(`name="reviewed" value="([^"]+)"`)

// send reviews a form and sends it, and returns the body of the call.
func send(t *testing.T, b *browser, form url.Values) string {
	t.Helper()
	b.api[retryCall] = client.Retry{ID: "copy", Status: client.StatusRESOLVED, Published: new(true)}
	review := b.post("/messages/"+messageID+"/edit", form)
	require.Equal(t, http.StatusOK, review.Code, review.text)
	require.Empty(t, b.calls)
	found := reviewedField.FindStringSubmatch(review.text)
	require.NotNil(t, found, review.text)
	form.Set("reviewed", found[1])
	form.Set("step", "send")
	sent := b.post("/messages/"+messageID+"/edit", form)
	require.Equal(t, "/messages/copy", sent.Header().Get("Location"), sent.text)
	require.Len(t, b.calls, 1)
	return strings.TrimPrefix(b.calls[0], retryCall+" ")
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestAnEditSendsOnlyWhatWasChanged(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) {
		m.Key, m.Value = bytesOf("\x00\x01"), bytesOf("{\"n\": 9007199254740993,\r\n\"t\": \"a\"}")
		m.Headers = client.Headers{header("bin", "\x00\xff"), header("crlf", "a\r\nb\rc"), {Key: "null"}, header("", "no name"), header("x\x00\r", "1")}
	})
	form := formOf(m, "")
	require.Equal(t, http.StatusBadRequest, openMessage(t, m).post("/messages/"+messageID+"/edit", form).Code, "nothing is changed")

	form.Set("header_value_4", "2")
	require.Equal(t, `{"headers":[{"key":"bin","value_base64":"`+base64Of("\x00\xff")+`"},{"key":"crlf","value_base64":"`+base64Of("a\r\nb\rc")+
		`"},{"key":"null","value":null},{"key":"","value_base64":"`+base64Of("no name")+`"},{"key":"x\u0000\r","value_base64":"`+base64Of("2")+`"}]}`,
		send(t, openMessage(t, m), form))
}

func TestAnEditedValueHasTheExactBytes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, as, typed, want string }{
		"compact JSON stays compact": {`{"n":9007199254740993,"t":"<"}`, "", "{\r\n  \"n\": 9007199254740995,\r\n  \"t\": \"<\"\r\n}",
			`{"n":9007199254740995,"t":"<"}`},
		"other JSON as it is typed": {"{\n\"n\": 1}", "", "{\r\n\"n\":   2}", "{\n\"n\":   2}"},
		"text":                      {"a\nb", "text", "a\r\nc", "a\nc"},
		"base64":                    {"a\r\nb", "base64", base64Of("a\r\nc"), "a\r\nc"},
		"base64 with lines":         {"\x00", "", "AAEC\r\nAwQF", "\x00\x01\x02\x03\x04\x05"},
		"no bytes":                  {"a", "text", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := letter(func(m *client.MessageDetail) { m.Value = bytesOf(test.old) })
			form := formOf(m, test.as)
			form.Set("value", test.typed)
			require.Equal(t, `{"value_base64":"`+base64Of(test.want)+`"}`, send(t, openMessage(t, m), form))
		})
	}
}

func TestAnEditCanBeNull(t *testing.T) {
	t.Parallel()
	form := formOf(letter(), "")
	form.Set("value_form", "null")
	form.Set("value", "")
	form.Set("key_form", "null")
	form.Set("key", "")
	require.JSONEq(t, `{"key":null,"value":null}`, send(t, openMessage(t, letter()), form))
}

func TestAValueWithASchemaIsEditedAsItsJSON(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) {
		m.Value, m.Payload, m.Schema = bytesOf("\x00\x00\x00\x00\x01\x02"), []byte(`{"n":1}`), &client.RegistrySchema{ID: 1}
	})
	form := formOf(m, "")
	form.Set("value", `{"n":2}`)
	require.Equal(t, `{"value":{"n":2}}`, send(t, openMessage(t, m), form))
}

func TestTheTextOfAnEditIsNeverLost(t *testing.T) {
	t.Parallel()
	m := letter()
	form := formOf(m, "")
	form.Set("value", `{"mine": true}`)
	for name, test := range map[string]struct {
		api    any
		change func(url.Values)
		status int
	}{
		"refused by the API":   {apiError{http.StatusConflict, "ERR_DLQ_CONFLICT", "its edited copy x was sent"}, func(url.Values) {}, http.StatusConflict},
		"no JSON":              {nil, func(f url.Values) { f.Set("value", `{"mine": true`) }, http.StatusBadRequest},
		"the message moved on": {nil, func(f url.Values) { f.Set("seen", "PENDING 0 2020-01-01T00:00:00.000Z") }, http.StatusConflict},
		"a header has no name": {nil, func(f url.Values) { f.Set("header_value_0", "x") }, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openMessage(t, m)
			b.api[retryCall] = test.api
			mine := maps.Clone(form)
			test.change(mine)
			page := b.post("/messages/"+messageID+"/edit", mine)
			if found := reviewedField.FindStringSubmatch(page.text); found != nil {
				mine.Set("reviewed", found[1])
				mine.Set("step", "send")
				page = b.post("/messages/"+messageID+"/edit", mine)
			}
			require.Equal(t, test.status, page.Code)
			require.Contains(t, page.text, `&#34;mine&#34;`)
			require.Contains(t, page.text, `role="alert"`)
		})
	}
}

func TestTheTextOutlivesTheSession(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter(), func(o *Options) { o.SignIn = SignInToken })
	form := formOf(letter(), "")
	form.Set("value", `{"mine": true}`)
	page := b.post("/messages/"+messageID+"/edit", form)
	require.Equal(t, http.StatusUnauthorized, page.Code)
	require.Contains(t, page.text, `&#34;mine&#34;`)
	require.Contains(t, page.text, "Your session is over")
}

func TestNothingIsSentThatWasNotReviewed(t *testing.T) {
	t.Parallel()
	m := letter()
	b := openMessage(t, m)
	form := formOf(m, "")
	form.Set("value", `{"n":1}`)
	review := b.post("/messages/"+messageID+"/edit", form)
	require.Contains(t, review.text, "<del>-   &#34;n&#34;: 9007199254740993</del>")
	require.Contains(t, review.text, "<ins>+   &#34;n&#34;: 1</ins>")
	form.Set("reviewed", reviewedField.FindStringSubmatch(review.text)[1])
	form.Set("value", `{"n":2}`)
	form.Set("step", "send")
	again := b.post("/messages/"+messageID+"/edit", form)
	require.Contains(t, again.text, "has changed since the review")
	require.Empty(t, b.calls)
}

func TestHeadersThatChooseAClassCannotBeEdited(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) { m.Headers = client.Headers{header("spring_json_header_types", "{}")} })
	page := openMessage(t, m).get("/messages/" + messageID + "/edit")
	require.Regexp(t, `name="header_value_0"[^>]* readonly`, page.text)
}

func TestAValueThatIsTooLargeForAFormIsEditedAsAFile(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) { m.Value = bytesOf(strings.Repeat("x", maxEdit+1)) })
	page := openMessage(t, m).get("/messages/" + messageID + "/edit")
	require.Contains(t, page.text, "dlqctl messages retry "+messageID+" --value value")
	require.Less(t, len(page.text), 20_000)
}
