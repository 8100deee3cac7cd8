package masking_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/masking"
)

var secret = []byte("a secret of the configuration")

func targets(t testing.TB, as masking.Form, paths ...string) (all []masking.Target) {
	t.Helper()
	for _, text := range paths {
		path, err := masking.ParsePath(text)
		require.NoError(t, err, text)
		all = append(all, masking.Target{Path: path, As: as})
	}
	return all
}

func masked(t testing.TB, document string, all []masking.Target) string {
	t.Helper()
	var quotes masking.Quotes
	d, ok := masking.Read([]byte(document), all, &quotes)
	require.True(t, ok, document)
	text, _ := d.Masked(secret, &quotes)
	return string(text)
}

func TestPathsHideValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, document, want string }{
		{"a", `{"a":"x1234","b":1}`, `{"a":"***","b":1}`},
		{"a.b", `{"a":{"b":"x","c":2}}`, `{"a":{"b":"***","c":2}}`},
		{"a.b", `{"a":[{"b":"x"}]}`, `{"a":[{"b":"x"}]}`},
		{"a.*.b", `{"a":[{"b":"x"},{"b":[1,2]},3]}`, `{"a":[{"b":"***"},{"b":"***"},3]}`},
		{"a.1", `{"a":["x","y","z"]}`, `{"a":["x","***","z"]}`},
		{"**.b", `{"b":1,"a":{"b":{"b":2}},"c":[[{"b":3}]]}`, `{"b":"***","a":{"b":"***"},"c":[[{"b":"***"}]]}`},
		{"a.**", `{"a":{"b":1},"b":2}`, `{"a":"***","b":2}`},
		{"*", `{"a":1}`, `"***"`},
		{`a\.b`, `{"a.b":1,"a":{"b":2}}`, `{"a.b":"***","a":{"b":2}}`},
		{`\*`, `{"*":1,"a":2}`, `{"*":"***","a":2}`},
		// Hostile documents.
		{"email", `{"email":"first1","email":"second2"}`, `{"email":"***","email":"***"}`},
		{"email", `{"\u0065mail":"x"}`, `{"\u0065mail":"***"}`},
		{"email", ` { "email" : "x\"}" , "n" : 1 } `, `{"email":"***","n":1}`},
		{"a", `{"a":null,"b":true}`, `{"a":"***","b":true}`},
		{"a", `{"a":{},"n":123456789012345678901234567890.10e5}`, `{"a":"***","n":123456789012345678901234567890.10e5}`},
		{"a", `{"a":"\ud83d","b":"\ud83d"}`, `{"a":"***","b":"\ud83d"}`},
		{"", `{"":1}`, ``},
	} {
		if c.path == "" {
			_, err := masking.ParsePath(c.path)
			require.Error(t, err)
			continue
		}
		require.Equal(t, c.want, masked(t, c.document, targets(t, masking.Mask, c.path)), c.path)
	}
}

func TestFormsOfHiddenValues(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"b":[null,2],"c":{}}`,
		masked(t, `{"a":1,"b":[1,2],"c":{"d":1,"e":2}}`, targets(t, masking.Remove, "a", "b.0", "c.d", "c.e")))
	require.Equal(t, `{"a":"***1111","b":"***"}`, masked(t, `{"a":4111111111111111,"b":"11 letters."}`, targets(t, masking.Last4, "a", "b")))
	hashes := masked(t, `{"a":"alice@example.com","b":"alice@example.com","c":"bob@example.com"}`, targets(t, masking.Hash, "a", "b", "c"))
	require.Equal(t, 2, strings.Count(hashes, masking.Hash.Of("alice@example.com", secret)))
	require.NotEqual(t, masking.Hash.Of("alice@example.com", secret), masking.Hash.Of("alice@example.com", []byte("another")))
	both := append(targets(t, masking.Last4, "a"), targets(t, masking.Remove, "**")...)
	require.Equal(t, `null`, masked(t, `{"a":"1"}`, both))
}

func TestDocumentsThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		``, `x`, `"a"`, `1`, `null`, `{"a":1`, `{"a":1}{"a":2}`, "\ufeff{}", "{\"a\":\"\xff\"}", `{'a':1}`,
		strings.Repeat("[", 1001) + strings.Repeat("]", 1001), strings.Repeat("[", 20000) + strings.Repeat("]", 20000),
	} {
		var quotes masking.Quotes
		_, ok := masking.Read([]byte(document), targets(t, masking.Mask, "a"), &quotes)
		require.False(t, ok, document)
	}
}

func TestPathsAreChecked(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", ".", "a.", ".a", "a..b", "a*", "***", "a[0]", "$.a", `a\`, strings.Repeat("a.", 32) + "a"} {
		_, err := masking.ParsePath(path)
		require.Error(t, err, path)
	}
}

func TestQuotesAreReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ hidden, text, want string }{
		{"alice@example.com", "no user alice@example.com (Alice@Example.COM)", "no user *** (***)"},
		{"alice@example.com", `at com.example.Orders: "alice@ex... [truncated]`, `at com.example.Orders: "***... [truncated]`},
		{"alice@example.com", "alice@e", "alice@e"}, // the beginning is too short
		{"1234", "PIN 1234", "PIN ***"},
		{"123", "PIN 123", "PIN 123"}, // too short
		{"true", "it is true", "it is true"},
		{"Müller & Söhne", `"M\u00fcller \u0026 S\u00f6hne" M%C3%BCller+%26+S%C3%B6hne`, `"***" ***`},
		{"Müller & Söhne", `M\u00fcller & S\u00f6hne Müller \u0026 Söhne`, `*** ***`},
		{"alice@example.com", "616c696365406578616d706c652e636f6d", "***"},
		{"alice@example.com", "eyJlIjoiYWxpY2VAZXhhbXBsZS5jb20ifQ==", "eyJlIjoi***b20ifQ=="},
		{"https://shop.example/alice", "see https://other.example and https://shop.example/alice", "see https://other.example and https://***"},
		{"12 High Street, Springfield, Ohio", "…h Street, Springfield, Ohio", "…***"},
	} {
		var quotes masking.Quotes
		quotes.Add(c.hidden)
		require.Equal(t, c.want, quotes.Text(c.text))
		require.Equal(t, c.want, string(quotes.Bytes([]byte(c.text))))
	}
}

func TestQuotesWithinTheDocumentAreReplaced(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"email":"***","note":"mail to ***","***":1,"n":"***","m":41112}`,
		masked(t, `{"email":["alice@example.com",4111],"note":"mail to alice\u0040example.com","alice@example.com":1,"n":4111,"m":41112}`,
			targets(t, masking.Mask, "email")))
}

func TestDocumentsWithoutStructureHideTheirWords(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		`{"customer":{"name":"Alice Meyer","iban":"DE89370400440532013000"`, "<c><name>Alice Meyer</name><iban>DE89370400440532013000</iban></c>",
		"Alice Meyer;DE89370400440532013000", "\x00\x00\x00\x00\x07\x16Alice Meyer\x2cDE89370400440532013000",
		`"` + strings.Repeat(`\"`, 3000) + `Alice Meyer DE89370400440532013000`,
	} {
		var quotes masking.Quotes
		quotes.AddOpaque([]byte(document))
		got := quotes.Text("cannot pay Meyer, Alice with DE89370400440532013000")
		for _, word := range []string{"Alice", "Meyer", "DE8937"} {
			require.NotContains(t, got, word, document)
		}
		require.Contains(t, got, "cannot pay")
	}
}

func TestTooManyHiddenTextsHideEveryText(t *testing.T) {
	t.Parallel()
	var quotes masking.Quotes
	quotes.AddOpaque([]byte(strings.Repeat(strings.Repeat("x", 1000)+" ", 1000)))
	require.Equal(t, masking.Hidden, quotes.Text("anything"))
	require.Empty(t, quotes.Text(""))
}

// The secret is a hidden value. Wherever the rest of the document and a text repeat it, it does not come out.
func FuzzHiddenValuesDoNotComeOut(f *testing.F) {
	for _, rest := range []string{
		`{"a":{"email":"SECRET"},"b":"SECRET"}`, `{"email":{"x":["SECRET"]},"email":"SECRET","c":"x SECRET y"}`, `[{"\u0065mail":"SECRET"}]`,
		`{"email":"SECRET`, `SECRET`, `{"email":12,"SECRET":{"email":"SECRET"}}`, `"\u005aq7kPw2mXv9"`,
	} {
		f.Add(rest, "error: SECRET", 0)
		f.Add(rest, "SECRETSECRET...\xff", 3)
	}
	const value = "Zq7kPw2mXv9"
	f.Fuzz(func(t *testing.T, rest, text string, form int) {
		rest, text = strings.ReplaceAll(rest, "SECRET", value), strings.ReplaceAll(text, "SECRET", value)
		if !utf8.ValidString(rest) || !json.Valid([]byte(rest)) {
			quoted, _ := json.Marshal(rest)
			rest = string(quoted)
		}
		document := `{"email":"` + value + `","rest":` + rest + `}`
		all := targets(t, masking.Forms[(form%len(masking.Forms)+len(masking.Forms))%len(masking.Forms)], "**.email")
		var quotes masking.Quotes
		d, ok := masking.Read([]byte(document), all, &quotes)
		if !ok {
			return // it nests too deep
		}
		out, _ := d.Masked(secret, &quotes)
		var decoded any
		if err := json.Unmarshal(out, &decoded); err != nil {
			t.Fatalf("%s is no JSON: %v", out, err)
		}
		for _, shown := range []string{string(out), fmt.Sprint(decoded), quotes.Text(text)} {
			if strings.Contains(shown, value) {
				t.Fatalf("%s comes out of %s and %s", shown, document, text)
			}
		}
	})
}

// An opaque document hides each of its texts that is not short.
func FuzzTextsOfOpaqueDocumentsAreHidden(f *testing.F) {
	f.Add(`{"name":"Alice`, "Zq7kPw2mXv9")
	f.Add("\x00\x01\"\\\"", `Zq7k"`)
	f.Fuzz(func(t *testing.T, before, after string) {
		const value = "Zq7kPw2mXv9"
		var quotes masking.Quotes
		quotes.AddOpaque([]byte(before + " " + value + " " + after))
		if got := quotes.Text("no " + value); strings.Contains(got, value) && !strings.Contains(before, `"`) {
			t.Fatalf("%s quotes %q", got, before+" "+value+" "+after)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	document := []byte(`{"customer":{"email":"alice@example.com","name":"Alice"},"lines":[` + strings.TrimSuffix(strings.Repeat(`{"sku":"a-1","price":12.5},`, 100), ",") + `]}`)
	all := targets(b, masking.Mask, "customer.email", "lines.*.card")
	text := strings.Repeat("at com.example.Orders.price(Orders.java:12)\n", 50)
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		var quotes masking.Quotes
		d, _ := masking.Read(document, all, &quotes)
		d.Masked(secret, &quotes)
		quotes.Text(text)
	}
}

func TestTheNameOfARemovedMemberIsNoQuoteBesideIt(t *testing.T) {
	t.Parallel()
	all := append(targets(t, masking.Mask, "email"), targets(t, masking.Remove, `alice@example\.com`)...)
	var quotes masking.Quotes
	d, ok := masking.Read([]byte(`{"email":"alice@example.com","alice@example.com":1}`), all, &quotes)
	require.True(t, ok)
	text, isQuoted := d.Masked(secret, &quotes)
	require.JSONEq(t, `{"email":"***"}`, string(text))
	require.False(t, isQuoted)
}
