package ctl_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func exported(id, value string) string {
	return fmt.Sprintf(`{"id": %q, "dlq_topic": "orders.dlq.v1", "value": {"base64": "%s", "text": "=1+1", "size": 4}, "cursor": "after-%s", "n": 9007199254740993}`, id, value, id)
}

// stream answers with these lines. If complete is set, it also writes the last line of an export.
func stream(complete bool, lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		if complete {
			lines = append(lines, `{"end": {"count": 1, "cursor": "the-end"}}`)
		}
		_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	}
}

const exportPath = "GET /api/v1/dlq/orders.dlq.v1/export"

func TestAnExportWritesEachLineAsItCame(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{exportPath: stream(true, exported("a", "e30="), exported("b", "e30="))})
	ran := s.dlqctl(t, "export", "orders.dlq.v1")
	require.Zero(t, ran.code, ran.err)
	require.Equal(t, exported("a", "e30=")+"\n"+exported("b", "e30=")+"\n", ran.out)
	require.Equal(t, "id,value.text\na,'=1+1\nb,'=1+1\n", s.dlqctl(t, "export", "orders.dlq.v1", "-o", "csv", "--fields", "id,value.text").out)
	require.Contains(t, s.dlqctl(t, "export", "orders.dlq.v1", "-o", "table").err, "-o jsonl or -o csv")
}

func TestAnExportContinuesAfterItWasCutOff(t *testing.T) {
	t.Parallel()
	var queries []string
	s := server(t, map[string]http.HandlerFunc{exportPath: func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Query().Encode())
		switch len(queries) {
		case 1:
			stream(false, exported("a", ""))(w, r)
		case 2:
			fail(http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "starting")(w, r)
		default:
			stream(true, exported("b", ""))(w, r)
		}
	}})
	ran := s.dlqctl(t, "export", "orders.dlq.v1", "--limit", "5", "--status", "DEAD", "--fields", "id")
	require.Zero(t, ran.code, ran.err)
	require.Equal(t, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", ran.out)
	require.Equal(t, "limit=5&status=DEAD", queries[0])
	require.Equal(t, "cursor=after-a&limit=4&status=DEAD", queries[len(queries)-1])
	require.Contains(t, ran.err, "The API answers again")
}

func TestAnExportThatCannotGoOnSaysWhereToContinue(t *testing.T) {
	t.Parallel()
	forbidden := `{"error": {"code": "SYS_DLQ_INTERNAL_ERROR", "message": "a row is damaged", "request_id": "req_1", "details": []}}`
	s := server(t, map[string]http.HandlerFunc{exportPath: stream(false, exported("a", ""), forbidden)})
	ran := s.dlqctl(t, "export", "orders.dlq.v1")
	require.Equal(t, 1, ran.code)
	require.Contains(t, ran.err, "a row is damaged")
	require.Contains(t, ran.err, "Continue with --cursor after-a")
}

func TestListenDeliversToAProcessOnThisMachine(t *testing.T) {
	t.Parallel()
	var bodies []string
	process := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Dlq-Message-Id")+" "+string(content))
		if len(bodies) == 2 {
			http.Error(w, "still\x1b broken", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(process.Close)
	s := server(t, map[string]http.HandlerFunc{exportPath: stream(true, exported("a", "e30="), exported("b", "e30="))})
	ran := s.dlqctl(t, "listen", "orders.dlq.v1", "--to", process.URL, "--value")
	require.Equal(t, 3, ran.code, ran.err)
	require.Equal(t, []string{"a {}", "b {}"}, bodies)
	require.Regexp(t, `^a  200  \S+\nb  500  \S+  still\\u001b broken`, ran.out)
	require.Contains(t, ran.err, "1 of 2 messages were refused")

	ran = s.dlqctl(t, "listen", "orders.dlq.v1", "--to", process.URL)
	require.Zero(t, ran.code, ran.err)
	require.Contains(t, bodies[2], `a {"id":`, "the whole message")

	for _, address := range []string{"http://192.0.2.1:3000/", "http://example.com/", "file:///etc/passwd", "127.0.0.1:3000", ""} {
		require.Equal(t, 2, s.dlqctl(t, "listen", "orders.dlq.v1", "--to", address).code, address)
	}
	process.Close()
	require.Contains(t, s.dlqctl(t, "listen", "orders.dlq.v1", "--to", process.URL).err, "is the process running?")
}

func TestListenFollowsUntilCtrlC(t *testing.T) {
	t.Parallel()
	process := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(process.Close)
	var mutex sync.Mutex
	var cursors []string
	arrivals, isBusy := 0, false
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq/orders.dlq.v1": func(w http.ResponseWriter, r *http.Request) {
			arrivals++
			tag := fmt.Sprintf(`"%d"`, min(arrivals, 2)) // a message arrives before the second request
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("ETag", tag)
			answer(`{"messages": [], `+noMore+`}`)(w, r)
		},
		exportPath: func(w http.ResponseWriter, r *http.Request) {
			mutex.Lock()
			if isBusy = len(cursors) == 1 && !isBusy; isBusy {
				stream(false, `{"error": {"code": "SYS_DLQ_UNAVAILABLE", "message": "the database restarts", "request_id": "req_1", "details": []}}`)(w, r)
				mutex.Unlock()
				return
			}
			cursors = append(cursors, r.URL.Query().Get("cursor"))
			id := fmt.Sprintf("m%d", len(cursors))
			mutex.Unlock()
			at := fmt.Sprintf(`,"created_at":"2026-01-31T08:%02d:00Z"}`, len(cursors))
			lines := []string{strings.TrimSuffix(exported(id, ""), "}") + at}
			if len(cursors) == 2 { // a message that became visible late, a message that was delivered, and a new message
				lines = []string{strings.TrimSuffix(exported("late", ""), "}") + `,"created_at":"2026-01-31T08:00:59Z"}`, exported("m1", ""), lines[0]}
			}
			stream(true, lines...)(w, r)
		},
	})
	s.interrupts = make(chan os.Signal)
	s.wait = func(out *output) {
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "m2  200") }, wait, tick)
		s.interrupts <- os.Interrupt
	}
	ran := s.dlqctl(t, "listen", "orders.dlq.v1", "--to", process.URL, "--follow")
	require.Equal(t, 130, ran.code, ran.err)
	require.Contains(t, ran.err, "the database restarts", "the second export outlasts that")
	require.Equal(t, []string{"", ""}, cursors, "what may have become visible since is read again")
	require.Equal(t, []string{"m1", "late", "m2"}, regexp.MustCompile(`(?m)^\S+`).FindAllString(ran.out, -1))
}
