package webhook

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"dlqmanager/dlq"
)

// raw starts a TCP server. It calls answer for each connection.
func raw(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				request, err := http.ReadRequest(bufio.NewReader(connection))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				answer(connection)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// text answers with the text, and closes the connection.
func text(answer string) func(net.Conn) {
	return func(c net.Conn) { _, _ = io.WriteString(c, answer) }
}

// endless writes begin, and then repeated until the client closes the connection.
func endless(begin, repeated string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, begin)
		for err == nil {
			_, err = io.WriteString(c, repeated)
		}
	}
}

// drip writes one byte every 10 ms until the client closes the connection.
func drip(begin string) func(net.Conn) {
	return func(c net.Conn) {
		_, err := io.WriteString(c, begin)
		for err == nil {
			time.Sleep(10 * time.Millisecond)
			_, err = io.WriteString(c, "x")
		}
	}
}

// stays writes the answer, and waits until the client closes the connection.
func stays(answer string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, answer)
		silent(c)
	}
}

// silent writes nothing, and waits until the client closes the connection.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func gzipBomb() string {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	_, _ = io.CopyN(w, zeros{}, 10<<20)
	_ = w.Close()
	return bomb.String()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// refusalOf is the result of a request. category is the category of the error, and empty if the message was delivered. maybe is
// DeliveryError.MaybeMessage.
type refusalOf struct {
	category    dlq.Category
	maybe, only bool
	text        string
}

func status(code int, headers ...string) func(net.Conn) {
	return text(fmt.Sprintf("HTTP/1.1 %d X\r\n%s\r\n\r\nsorry", code, strings.Join(append(headers, "Content-Length: 5"), "\r\n")))
}

func TestAServerThatMisbehaves(t *testing.T) {
	t.Parallel()
	transient, away := refusalOf{category: dlq.CategoryTransient, maybe: true}, refusalOf{category: dlq.CategoryTransient}
	bad, auth, wrong := refusalOf{category: dlq.CategoryBadData}, refusalOf{category: dlq.CategoryAuth}, refusalOf{category: dlq.CategoryAuth, only: true}
	with := func(r refusalOf, text string) refusalOf { r.text = text; return r }
	for name, test := range map[string]struct {
		answer func(net.Conn)
		want   refusalOf
	}{
		"200":                               {text("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), refusalOf{}},
		"204":                               {text("HTTP/1.1 204 No Content\r\n\r\n"), refusalOf{}},
		"HTTP/1.0 that closes":              {text("HTTP/1.0 200 OK\r\n\r\nfine"), refusalOf{}},
		"200 with the header of 489":        {text("HTTP/1.1 200 OK\r\nUpstash-NonRetryable-Error: true\r\nContent-Length: 0\r\n\r\n"), refusalOf{}},
		"200 with an endless body":          {endless("HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 1<<16)), refusalOf{}},
		"200 with a slow body":              {drip("HTTP/1.1 200 OK\r\n\r\n"), refusalOf{}},
		"200 with a body that is cut":       {text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfi"), refusalOf{}},
		"200 with a broken chunk":           {text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), refusalOf{}},
		"103 before 204":                    {text("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"), refusalOf{}},
		"489":                               {status(489, "Upstash-NonRetryable-Error: true"), with(bad, "http:shop answered 489: sorry")},
		"489 without the header":            {status(489), bad},
		"500 with the header of 489":        {status(500, headerNonRetryable+": TRUE"), with(bad, "500")},
		"503 with another value":            {status(503, headerNonRetryable+": false"), away},
		"400":                               {status(400), bad},
		"413":                               {status(413), bad},
		"415":                               {status(415), bad},
		"422":                               {status(422), bad},
		"431":                               {status(431), bad},
		"401":                               {status(401), wrong},
		"403":                               {status(403), auth},
		"404":                               {status(404), auth},
		"405":                               {status(405), wrong},
		"410":                               {status(410), wrong},
		"418":                               {status(418), auth},
		"408":                               {status(408), transient},
		"409":                               {status(409), transient},
		"425":                               {status(425), transient},
		"429":                               {status(429), refusalOf{category: dlq.CategoryRateLimit}},
		"500":                               {status(500), with(transient, "http:shop answered 500 Internal Server Error: sorry")},
		"501":                               {status(501), transient},
		"502":                               {status(502), away},
		"503":                               {status(503), away},
		"504":                               {status(504), away},
		"999":                               {status(999), transient},
		"a redirect to the metadata":        {status(302, "Location: http://169.254.169.254/latest/meta-data/"), with(wrong, "a redirect, which is not followed")},
		"a redirect of the method":          {status(307, "Location: /elsewhere"), wrong},
		"300 without a location":            {status(300), wrong},
		"304":                               {text("HTTP/1.1 304 Not Modified\r\n\r\n"), wrong},
		"500 with an endless body":          {endless("HTTP/1.1 500 X\r\n\r\n", strings.Repeat("x", 1<<16)), transient},
		"500 with a slow body":              {drip("HTTP/1.1 500 X\r\n\r\n"), transient},
		"500 with binary":                   {text("HTTP/1.1 500 X\r\nContent-Length: 4\r\n\r\n\x00\xffab"), with(transient, "\u2400\uFFFDab")},
		"500 with a gzip bomb":              {text("HTTP/1.1 500 X\r\nContent-Encoding: gzip\r\n\r\n" + gzipBomb()), with(transient, "bytes, compressed)")},
		"a huge header":                     {endless("HTTP/1.1 200 OK\r\nA: ", strings.Repeat("x", 1<<16)), transient},
		"endless headers":                   {endless("HTTP/1.1 200 OK\r\n", "A: b\r\n"), transient},
		"endless 1xx":                       {endless("", "HTTP/1.1 102 Processing\r\n\r\n"), transient},
		"a slow header":                     {drip("HTTP/1.1 200 OK\r\nA: "), with(transient, "no answer within")},
		"no answer":                         {silent, with(transient, "no answer within")},
		"a connection that is closed":       {text(""), transient},
		"an answer that is cut":             {text("HTTP/1.1 20"), transient},
		"another protocol":                  {text("SSH-2.0-OpenSSH_9.6\r\n"), transient},
		"two lengths":                       {text("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), transient},
		"a negative length":                 {text("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), transient},
		"a header without a colon":          {text("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"), transient},
		"a status that is no number":        {text("HTTP/1.1 abc OK\r\n\r\n"), transient},
		"101":                               {text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), transient},
		"101 that stays open":               {stays("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), transient},
		"a second answer nobody asked for":  {text("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 500 X\r\n\r\n"), refusalOf{}},
		"500 with the header of 489, twice": {status(500, headerNonRetryable+": true", headerNonRetryable+": false"), bad},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, raw(t, test.answer), func(_ *Options, e *Endpoint) { e.Timeout = 2 * time.Second })
			started := time.Now()
			err := b.errorOf(message("k", "v"))
			require.Less(t, time.Since(started), 10*time.Second)
			require.Equal(t, test.want.category == "", err == nil, "%v", err)
			if err == nil {
				return
			}
			var refused *dlq.DeliveryError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, test.want, refusalOf{refused.Category, refused.MaybeMessage, refused.TargetOnly, test.want.text}, "%v", err)
			require.Contains(t, err.Error(), test.want.text)
			require.LessOrEqual(t, len(err.Error()), maxAnswerText+100)
		})
	}
}

func TestAServerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	unused := serve(t, func(http.ResponseWriter, *http.Request) {})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, test := range []struct {
		url, text string
		category  dlq.Category
	}{
		{"http://" + closed.Addr().String(), "connection refused", dlq.CategoryTransient},
		{secure.URL, "certificate", dlq.CategoryAuth},
		{"https" + strings.TrimPrefix(unused, "http"), "does not look like a TLS handshake", dlq.CategoryAuth},
		{"http://nowhere.invalid", "lookup nowhere.invalid", dlq.CategoryTransient},
	} {
		b := newBench(t, test.url+"/?token=s3cret-query", func(o *Options, _ *Endpoint) { o.resolver = noNames() })
		var refused *dlq.DeliveryError
		require.ErrorAs(t, b.errorOf(message("", "x")), &refused, test.url)
		require.ErrorContains(t, refused, test.text)
		require.Equal(t, test.category, refused.Category, test.url)
		require.False(t, refused.MaybeMessage, test.url)
		require.NotContains(t, refused.Error(), "s3cret-query")
	}
}

func TestAnswersAreQuotedInPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", maxAnswerText)
	b := newBench(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(489)
		_, _ = io.WriteString(w, "x"+long)
	}), nil)
	err := b.errorOf(message("", "x"))
	require.LessOrEqual(t, len(err.Error()), maxAnswerText+100)
	require.True(t, strings.HasSuffix(err.Error(), "üü…"), err)
}

// An endpoint may answer with the request that it got, as debugging pages do.
func TestNoSecretIsInErrorsAndLogs(t *testing.T) {
	t.Parallel()
	const query = "s3cret/query+value"
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(489)
		_, _ = fmt.Fprintf(w, "%s %v %s %s %s", r.URL, r.Header, signingSecret, strings.TrimPrefix(signingSecret, secretPrefix), strings.ReplaceAll(bearerToken, "/", `\/`))
	}
	var captured strings.Builder
	for _, address := range []string{serve(t, echo), raw(t, text(bearerToken+signingSecret)), "http://127.0.0.1:1"} {
		b := newBench(t, address+"/in?token="+query, nil)
		err := b.errorOf(message("", "x"))
		require.Error(t, err)
		for ; err != nil; err = errors.Unwrap(err) {
			fmt.Fprintf(&captured, "%s %+v %#v\n", err, err, err)
		}
		for _, entry := range b.logs.All() {
			fmt.Fprintf(&captured, "%s %v\n", entry.Message, entry.ContextMap())
		}
		fmt.Fprintf(&captured, "%v\n", b.metrics.results)
	}
	for _, secret := range []string{signingSecret, signingSecret[6:], bearerToken, strings.ReplaceAll(bearerToken, "/", `\/`), query, "s3cret%2F"} {
		require.NotContains(t, captured.String(), secret)
	}
	require.Contains(t, captured.String(), "[redacted]")
}

// The endpoint may quote the token of a request that was in flight while the file was replaced.
func TestATokenThatWasReplacedDuringItsRequestIsNotQuoted(t *testing.T) {
	t.Parallel()
	var b *bench
	b = newBench(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = os.WriteFile(b.endpoint.TokenFile, []byte("another token"), 0o600)
		w.WriteHeader(489)
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}), nil)
	for range 2 {
		require.ErrorContains(t, b.errorOf(message("", "x")), "489: Bearer [redacted]")
	}
	require.Equal(t, []string{"another token", bearerToken}, b.publisher.targets["http:shop"].token.known())
}

// Another request may have read the file between the two replacements, also while the file was being written.
func TestATokenThatWasReplacedTwiceDuringItsRequestIsNotQuoted(t *testing.T) {
	t.Parallel()
	var b *bench
	b = newBench(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, token := range []string{"another", "another token"} {
			_ = os.WriteFile(b.endpoint.TokenFile, []byte(token), 0o600)
			b.publisher.targets["http:shop"].token.current()
		}
		w.WriteHeader(489)
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	}), nil)
	require.ErrorContains(t, b.errorOf(message("", "x")), "489: Bearer [redacted]")
}
