package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

const messageID = "550e8400-e29b-41d4-a716-446655440000"

// letter is a message that waits, changed by the functions.
func letter(change ...func(*client.MessageDetail)) client.MessageDetail {
	at := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	m := client.MessageDetail{
		ID: messageID, Status: client.StatusPENDING, MaxRetries: 3, OriginalTopic: "orders.v1", DlqTopic: "orders.dlq.v1", ErrorMessage: "no stock",
		CreatedAt: at, UpdatedAt: at, Origin: client.MessageDetail_Origin{Topic: "orders.v1", Family: "spring-kafka"},
		Key: bytesOf("order-1"), Value: bytesOf(`{"n":9007199254740993}`), Payload: []byte(`{"n":9007199254740993}`), Headers: client.Headers{},
		Attempts: []client.MessageDetail_Attempts{},
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

func bytesOf(text string) *client.Bytes {
	return &client.Bytes{Base64: []byte(text), Size: int64(len(text))}
}

func header(key, value string) client.Headers_Item {
	return client.Headers_Item{Key: key, Value: new([]byte(value))}
}

// messagePages are the pages of a message, live and archived.
var messagePages = []string{"/messages/" + messageID, "/archive/" + messageID}

// openMessage opens a console whose API has one message, and the same message in the archive.
func openMessage(t *testing.T, m client.MessageDetail, change ...func(*Options)) *browser {
	t.Helper()
	return open(t, map[string]any{"GET /api/v1/dlq/messages/" + messageID: m, "GET /api/v1/archive/messages/" + messageID: m}, change...)
}

// seen are the fields of a form of the page of a message.
func seen(m client.MessageDetail, more ...string) url.Values {
	form := url.Values{"seen": {seenState(&m)}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

func TestNumbersOfAValueStayExact(t *testing.T) {
	t.Parallel()
	for _, path := range messagePages {
		page := openMessage(t, letter()).get(path)
		require.Equal(t, http.StatusOK, page.Code)
		require.Contains(t, page.text, "9007199254740993")
	}
}

func TestAnOldLinkToAMessageLeadsIntoTheArchive(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/archive/messages/" + messageID: letter()})
	require.Equal(t, "/archive/"+messageID, b.get("/messages/"+messageID).Header().Get("Location"))
	require.Equal(t, http.StatusNotFound, b.get("/messages/550e8400-e29b-41d4-a716-446655440009").Code)
}

func TestAnArchivedHopLeadsToThePageInTheArchive(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter())
	b.api["GET /api/v1/dlq/messages/"+messageID+"/chain"] = client.Chain{Hops: []client.Hop{
		{ID: "550e8400-e29b-41d4-a716-446655440009", Status: client.StatusRESOLVED, Archived: true}, {ID: messageID, Status: client.StatusPENDING},
	}}
	page := b.get("/messages/" + messageID)
	require.Contains(t, page.text, `href="/archive/550e8400-e29b-41d4-a716-446655440009"`)
}

func TestAMessageIsShownThoughItsHistoryIsNot(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter())
	b.api["GET /api/v1/dlq/messages/"+messageID+"/chain"] = apiError{http.StatusNotImplemented, "SYS_DLQ_NEEDS_DATABASE", "set database.host"}
	page := b.get("/messages/" + messageID)
	require.Equal(t, http.StatusOK, page.Code)
	require.Contains(t, page.text, "set database.host")
}

func TestStrangersCannotWriteIntoThePageOfAMessage(t *testing.T) {
	t.Parallel()
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e\x00\x1b[2J"
	m := letter(func(m *client.MessageDetail) {
		m.ErrorMessage, m.OriginalTopic, m.DlqTopic, m.Origin.Topic = evil, evil, evil, evil
		m.Value, m.Key, m.StackTrace, m.Suspicion = bytesOf(evil), bytesOf(evil), new(evil+"\n\tat "+evil), new(evil)
		m.Headers = client.Headers{header(evil, evil)}
		m.Workflow = &client.Workflow{WorkflowID: evil, URL: new("javascript:alert(1)")}
		m.TraceID, m.TraceURL, m.Origin.URL = new(evil), new("javascript:alert(1)"), new("javascript:alert(1)")
		m.Status = client.StatusRETRYING
	})
	b := openMessage(t, m)
	paths := []string{messagePages[0] + "/edit"}
	for _, page := range messagePages {
		for _, view := range []string{"", "hex", "text", url.QueryEscape(evil)} {
			paths = append(paths, page+"?view="+view)
		}
	}
	for _, path := range paths {
		page := b.get(path)
		require.Equal(t, http.StatusOK, page.Code)
		require.NotContains(t, page.text, "<script>alert", path)
		require.NotContains(t, page.text, "<img", path)
		require.NotContains(t, page.text, `"javascript:`, path)
		require.NotContains(t, page.text, "\x1b", path)
	}
}

func TestTheTraceAndTheRecordsOfAMessageHaveLinks(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) {
		m.TraceID, m.TraceURL = new("0af7"), new("https://tempo.example/trace/0af7")
		m.Origin.URL, m.Source = new("https://kafka.example/orders.v1?p=1&o=2"), &client.Source{Offset: 42, URL: new("https://kafka.example/orders.dlq.v1?p=0&o=42")}
		m.Target = &client.MessageDetail_Target{Topic: "orders.v1", URL: new("https://kafka.example/orders.v1?p=1&o=99")}
	})
	b := openMessage(t, m)
	for _, path := range messagePages {
		text := b.get(path).text
		require.Contains(t, text, `href="https://tempo.example/trace/0af7" rel="noreferrer noopener">Open the trace</a>`, path)
		require.Contains(t, text, `href="https://kafka.example/orders.v1?p=1&amp;o=2" rel="noreferrer noopener">Open in Kafka</a>`, path)
		require.Contains(t, text, `href="https://kafka.example/orders.dlq.v1?p=0&amp;o=42"`, path)
	}
	require.Contains(t, b.get("/messages/"+messageID).text, `href="https://kafka.example/orders.v1?p=1&amp;o=99"`)
	require.NotContains(t, openMessage(t, letter()).get("/messages/"+messageID).text, "Open in Kafka")
}

func TestTheLastErrorIsTheLastRetrys(t *testing.T) {
	t.Parallel()
	text := openMessage(t, letter(func(m *client.MessageDetail) {
		m.Attempts = []client.MessageDetail_Attempts{
			{Number: 1, Result: "failed", Error: new("first try")}, {Number: 2, Result: "failed", Error: new("second try"), Category: new(client.CategoryTransient)},
		}
	})).get("/messages/" + messageID).text
	require.NotContains(t, text, "first try")
	require.Less(t, strings.Index(text, "second try"), strings.Index(text, "no stock"))
}

func TestTheRootCauseStandsBeforeItsWrappersWithOwnFramesOpen(t *testing.T) {
	t.Parallel()
	faults := stackOf(&client.MessageDetail{OwnLines: new([]int64{1, 6}), StackTrace: new("a.Outer: outer\n\tat shop.A.run(A.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:9)\n" +
		"Caused by: b.Root: inner\nsecond line\n" +
		"\tat org.springframework.B.call(B.java:2)\n\tat shop.C.pay(C.java:3)\n\t... 14 more\n")}).Faults
	require.Len(t, faults, 2)
	require.Equal(t, "b.Root: inner\nsecond line", faults[0].Head)
	require.Equal(t, []frames{
		{false, []string{"at org.springframework.B.call(B.java:2)"}}, {true, []string{"at shop.C.pay(C.java:3)"}}, {false, []string{"... 14 more"}},
	}, faults[0].Frames)
	require.Equal(t, "a.Outer: outer", faults[1].Head)
	require.False(t, faults[1].Frames[1].IsOwn)
}

func TestAnExceptionOfPythonStandsAboveItsFrames(t *testing.T) {
	t.Parallel()
	faults := stackOf(&client.MessageDetail{OwnLines: new([]int64{1, 2}), StackTrace: new("Traceback (most recent call last):\n  File \"/app/pay.py\", line 3, in pay\n    x()\nKeyError: 'a'\n\n" +
		"During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n" +
		"  File \"/usr/lib/python3/dist-packages/kafka/c.py\", line 9, in poll\n    raise ValueError\nValueError: b\nwith a second line\n")}).Faults
	require.Len(t, faults, 2)
	require.Equal(t, "KeyError: 'a'", faults[0].Head)
	require.True(t, faults[0].Frames[0].IsOwn)
	require.Equal(t, "ValueError: b\nwith a second line", faults[1].Head)
	require.Len(t, faults[1].Frames, 1)
	require.False(t, faults[1].Frames[0].IsOwn)
}

func TestAStackOfAnUnknownFormIsShownOpenAndNamesNoOwnCode(t *testing.T) {
	t.Parallel()
	s := stackOf(&client.MessageDetail{StackTrace: new("E: x\n#0 /app/pay.php(31): pay()\n\tfrom somewhere")})
	require.Len(t, s.Faults, 1)
	require.True(t, s.Faults[0].Frames[0].IsOwn)
	require.Empty(t, s.Own())
	require.Empty(t, stackOf(&client.MessageDetail{}).Faults)
}

func TestOwnFramesAreNamedOnceAndFromTheRootCause(t *testing.T) {
	t.Parallel()
	s := stackOf(&client.MessageDetail{OwnLines: new([]int64{1, 3, 4, 5}), StackTrace: new("a.Outer: outer\n\tat shop.A.run(A.java:1)\n" +
		"Caused by: b.Root: inner\n\tat shop.C.pay(C.java:3)\n\tat shop.C.pay(C.java:3)\n\tat shop.B.go(B.java:2)\n")})
	require.Equal(t, []string{"shop.C.pay(C.java:3)", "shop.B.go(B.java:2)"}, s.Own())
	require.Equal(t, "b.Root: inner", s.Root("outer"))
	require.Empty(t, s.Root("b.Root: inner"))
}

func TestALargeValueIsCutOnThePageAndWholeInTheDownload(t *testing.T) {
	t.Parallel()
	large := `["` + strings.Repeat("あ", 100_000) + `"]`
	b := openMessage(t, letter(func(m *client.MessageDetail) { m.Value = bytesOf(large) }))
	for _, path := range messagePages {
		for _, view := range []string{viewJSON, viewText, viewHex} {
			page := b.get(path + "?view=" + view)
			require.Less(t, len(page.text), 200_000)
			require.NotContains(t, page.text, "\ufffd", "a character was cut")
			require.Contains(t, page.text, `href="`+path+`/value?part=value" download>Download all 293.0 KiB`)
		}
		require.Equal(t, large, b.get(path+"/value?part=value").text)
	}
}

func TestALongTextInJSONIsNotCutInSilence(t *testing.T) {
	t.Parallel()
	text := `"` + strings.Repeat("a", 100_000) + `"`
	b := openMessage(t, letter(func(m *client.MessageDetail) { m.Value, m.Key = bytesOf(text), bytesOf(text) }))
	for _, path := range messagePages {
		page := b.get(path + "?view=" + viewJSON)
		require.Less(t, len(page.text), 200_000)
		for _, part := range []string{"value", "key"} {
			require.Contains(t, page.text, `href="`+path+`/value?part=`+part+`" download>Download all 97.7 KiB`)
		}
	}
}

func TestADownloadedValueNeverRuns(t *testing.T) {
	t.Parallel()
	b := openMessage(t, letter(func(m *client.MessageDetail) { m.Value = bytesOf("<script>alert(1)</script>"); m.Key = bytesOf("") }))
	for _, path := range messagePages {
		got := b.get(path + "/value?part=value")
		require.Equal(t, "application/octet-stream", got.Header().Get("Content-Type"))
		require.Equal(t, `attachment; filename="value.bin"`, got.Header().Get("Content-Disposition"))
		require.Equal(t, "nosniff", got.Header().Get("X-Content-Type-Options"))
		require.Contains(t, got.Header().Get("Content-Security-Policy"), "sandbox")
		require.Equal(t, http.StatusOK, b.get(path+"/value?part=key").Code)
		for _, part := range []string{"", "pointed", "../value"} {
			require.Equal(t, http.StatusNotFound, b.get(path+"/value?part="+url.QueryEscape(part)).Code, part)
		}
	}
}

func TestHeadersOfSpringAreNumbers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key, value, kind, text string
	}{
		"partition":      {"kafka_dlt-original-partition", "\x00\x00\x00\x02", "int32", "2"},
		"offset":         {"kafka_dlt-original-offset", "\x7f\xff\xff\xff\xff\xff\xff\xff", "int64", "9223372036854775807"},
		"digits":         {"x-original-offset", "1234", "text", "1234"},
		"another binary": {"signature", "\x00\x01", "hex", "0001"},
		"text":           {"traceparent", "00-ab", "text", "00-ab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := viewHeader(test.key, new([]byte(test.value)))
			require.Equal(t, test.kind, h.Kind)
			require.Equal(t, test.text, h.Text)
		})
	}
	require.Equal(t, "null", viewHeader("x", nil).Kind)
}

func TestHeadersThatComeOffAreMarked(t *testing.T) {
	t.Parallel()
	text := openMessage(t, letter(func(m *client.MessageDetail) {
		failure := header("kafka_dlt-exception-message", "no price")
		failure.RemovedOnRetry = new(true)
		m.Headers = client.Headers{failure, header("tenant", "acme")}
	})).get("/messages/" + messageID).text
	require.Contains(t, text, `<bdi>kafka_dlt-exception-message</bdi> <small class="chip">comes off</small>`)
	require.Contains(t, text, `<bdi>tenant</bdi></th>`)
}

func TestManyHeadersMakeABoundedPage(t *testing.T) {
	t.Parallel()
	m := letter(func(m *client.MessageDetail) {
		for range 2000 {
			m.Headers = append(m.Headers, header("x", strings.Repeat("v", 1000)))
		}
	})
	b := openMessage(t, m)
	for _, path := range messagePages {
		page := b.get(path)
		require.Less(t, len(page.text), 1<<20)
		require.Contains(t, page.text, "headers more are left out")
	}
	require.Contains(t, b.get("/messages/"+messageID+"/edit").text, "more headers than a form can hold")
}

func TestCommandsAreSafeToPaste(t *testing.T) {
	t.Parallel()
	require.Equal(t, "orders.v1", quote("orders.v1"))
	require.Equal(t, `'a b'`, quote("a b"))
	require.Equal(t, `'$(reboot)'\''; x'`, quote("$(reboot)'; x"))
	require.Equal(t, `$'a\012reboot\012\033[2J\'\\'`, quote("a\nreboot\n\x1b[2J'\\"))
	require.NotContains(t, quote("a\u202eb"), "\u202e")
	require.Equal(t, "''", quote(""))
}

func TestWhetherTheConsumerGotPastAMessageHasItsOwnSign(t *testing.T) {
	t.Parallel()
	for verified, sign := range map[client.Verified]string{client.VerifiedYes: "M3 8.5l3.5 3.5L13 4.5", client.VerifiedNo: "M4 4l8 8M12 4l-8 8"} {
		m := letter(func(m *client.MessageDetail) { m.Status, m.Verified = client.StatusRESOLVED, &verified })
		require.Regexp(t, `<span class="status s-`+string(verified)+`"><svg[^>]*><path d="`+sign+`"`, openMessage(t, m).get("/messages/"+messageID).text)
	}
}
