package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq/fingerprint"
)

func TestVariablesAreTakenOutOfAMessage(t *testing.T) {
	t.Parallel()
	for message, template := range map[string]string{
		"order 17 of ada+x@example.com not found":                       "order <number> of <email> not found",
		"GET https://u:p@stock.example:8080/v1/items/17?q=a,b=c failed": "GET <url> failed",
		"(see http://a.example/b).":                                     "(see <url>).",
		"no route to stock.internal:8080, localhost:80":                 "no route to <host>",
		"peer 10.1.2.3:9092 in 10.0.0.0/8":                              "peer <ip> in <ip>",
		"peer [fd00::1:2]:9092 or fe80::1":                              "peer <ip> or <ip>",
		"connect to pricing/10.1.2.3:80":                                "connect to <host>",
		"trace 4bf92f3577b34da6a3ce929d0e0e4736":                        "trace <trace>",
		"message 3F2504E0-4f89-41d3-9a0c-0305e82c3301.":                 "message <uuid>.",
		"blob da39a3ee5e6b4b0d3255bfef95601890afd80709":                 "blob <hash>",
		"at 2024-05-01T10:11:12.123+02:00 and 01.05.2024":               "at <date> and <date>",
		"at 2024-05-01 10:11:12, on Tue May 14":                         "at <date>, on <date> <number>",
		"after 300ms, 1h2m3s or PT1.5S":                                 "after <duration> or <duration>",
		"after 30 seconds":                                              "after <duration>",
		"pc=0x4a5b6c at Object@1b2c3d":                                  "pc=<hex> at Object@<hex>",
		"-3.20 of 1,024.5 is 12%":                                       "<number> of <number> is <number>",
		"utf8 and 3rd and v1.2.3":                                       "utf<number> and <number>rd and v<number>",
		"pod stock-7d9f4c6b5-x2z4k":                                     "pod stock-<hex>-<id>",
		`coupon "10 off" of 'Anna', “Bo” and «Cy»`:                      "coupon <quoted> of <quoted> and <quoted>",
		"it doesn't say what's 'it'":                                    "it doesn't say what's <quoted>",
		"ids [1, 22, 333]":                                              "ids [<number>]",
		"line one\r\n\tline \x00 two":                                   "line one line two",
		"broken \xff":                                                   "broken \uFFFD",
	} {
		require.Equal(t, template, fingerprint.Template(message), "%q", message)
	}
}

func TestNamesAndStatesStayInAMessage(t *testing.T) {
	t.Parallel()
	for message, template := range map[string]string{
		`Unrecognized field "color" (class depot.Article), known: "size"`:       `Unrecognized field "color" (class depot.Article), known: <quoted>`,
		"undefined method `rate' for nil":                                       `undefined method "rate" for nil`,
		`Order["lines"]->java.util.ArrayList[3]->Line["price"]`:                 `Order["lines"]->java.util.ArrayList[<number>]->Line["price"]`,
		`'customer_id' is required`:                                             `"customer_id" is required`,
		`{"code": "STOCK_EMPTY", "item": 17, "note": "late"}`:                   `{"code": "STOCK_EMPTY", "item": <number>, "note": <quoted>}`,
		"503 Service Unavailable for order 503":                                 "503 Service Unavailable for order <number>",
		"status code 404, 404 items":                                            "status code 404, <number> items",
		"ORA-00001 SQLSTATE[23505]":                                             "ORA-00001 SQLSTATE[23505]",
		"Value\n at [Source: (byte[])\"{\"name\":\"Anna\"; line: 1, column: 8]": "Value at [Source; line: <number>, column: <number>]",
	} {
		require.Equal(t, template, fingerprint.Template(message), "%q", message)
	}
}

func TestATemplateIsBounded(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"word ", "1 a ", "ü", "\xff", "404 Not Found ", "'x' "} {
		template := fingerprint.Template(strings.Repeat(part, 1<<20))
		require.NotEmpty(t, template)
		requireStorable(t, template, 1024)
		require.Equal(t, template, fingerprint.Template(template))
	}
}
