package ctl_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"dlqmanager/cmd/dlqctl/ctl"
)

// full is a standard output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAFullDiskIsAnError(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq":           answer(page),
		"GET /readyz":               answer(`{"status": "ok", "checks": {"database": "ok"}}`),
		"GET /api/v1/me":            answer(`{"subject": "alice", "method": "none", "grants": []}`),
		"GET /api/v1/jobs/" + jobID: answer(job("COMPLETED", "")),
	})
	for _, args := range []string{"topics list", "topics list -o csv", "doctor", "--help", "--version", "jobs watch " + jobID} {
		var failed output
		code := ctl.Program{
			Stdin: strings.NewReader(""), Stdout: full{}, Stderr: &failed, Version: "test", Getenv: func(name string) string { return s.env[name] },
		}.Run(t.Context(), strings.Fields(args))
		require.Equal(t, 1, code, args)
		require.Equal(t, 1, strings.Count(failed.String(), "no space left on device"), "%s: %s", args, failed.String())
	}
}

// After a mistake in the flags, no request is sent. A person must not read an error about a change that was made.
func TestAMistakeInTheOutputFlagsChangesNothing(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	var asked []string
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		answer(`{}`)(w, r)
	}))
	t.Cleanup(counting.Close)
	s := run{env: map[string]string{"DLQ_URL": counting.URL}}
	for _, command := range []string{
		"messages dead m", "messages retry m", "archive restore m", "groups open g", "groups fix g", "jobs pause j", "jobs rate j 5",
		"apply p --yes", "retry t --all --yes", "delete t --all --yes --follow", "plan retry t",
	} {
		for _, mistake := range []string{"--fields bogus", "--jq .["} {
			ran := s.dlqctl(t, strings.Fields(command+" "+mistake)...)
			require.Equal(t, 2, ran.code, "%s %s: %s", command, mistake, ran.err)
		}
	}
	require.Equal(t, 2, s.dlqctl(t, "messages", "delete", "m", "-o", "name").code, "the answer has no id")
	require.Empty(t, asked)
}

func TestDoctorTakesNoOtherServerForAHealthyOne(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /readyz": answer(`{}`), "GET /api/v1/me": answer(`{}`)})
	ran := s.dlqctl(t, "doctor")
	require.Equal(t, 1, ran.code)
	require.Contains(t, ran.out, "this is no DLQ manager")
}

func TestDoctorTakesANoticeForNoFailure(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /readyz": answer(`{"status": "ready", "checks": {"identity": "ok; the identity provider does not answer"}}`), "GET /api/v1/me": answer(`{}`)})
	ran := s.dlqctl(t, "doctor")
	require.Zero(t, ran.code, ran.err)
	require.Contains(t, ran.out, "the identity provider does not answer")
}

func TestAnAnswerThatIsNoPlanStartsNothing(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/plans/p": answer(`{}`), "POST /api/v1/plans": answer(`{"id": "p", "matched": 3}`), "POST /api/v1/jobs": answer(job("RUNNING", "")),
	})
	for _, args := range []string{"apply p --yes", "plan retry t", "retry t --all --yes"} {
		ran := s.dlqctl(t, strings.Fields(args)...)
		require.Equal(t, 1, ran.code, args)
		require.Contains(t, ran.err, "the answer is no plan", args)
	}
}

func TestTheTokenFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request was sent on") }))
	t.Cleanup(thief.Close)
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/dlq": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief.URL, http.StatusFound) },
		"POST /api/v1/dlq/messages/m/dead": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		},
	})
	s.env["DLQ_TOKEN"] = "secret"
	for _, args := range [][]string{{"topics", "list"}, {"messages", "dead", "m"}} {
		ran := s.dlqctl(t, args...)
		require.Equal(t, 1, ran.code)
		require.Contains(t, ran.err, "sends on to "+thief.URL)
	}
}

// A spreadsheet must not run the text of a dead letter.
func TestNoCellOfCSVIsAFormula(t *testing.T) {
	t.Parallel()
	for text, safe := range map[string]bool{
		"=1": false, "+1": false, "-1": false, "@SUM(1)": false, " =1": false, "\n=1": false, "\t1": false, "\r1": false, "\ufeff=1": false, "\u00a0=1": false,
		"＝1": false, "＋1": false, "－1": false, "＠1": false, "\u0000=1": false, "a=1": true, " a": true, "": true, "'=1": true, "日本": true,
	} {
		s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq": answer(`{"topics": [{"dlq_topic": ` + quoted(t, text) + `}]}`)})
		rows, err := csv.NewReader(strings.NewReader(s.dlqctl(t, "topics", "list", "-o", "csv", "--fields", "dlq_topic,counts.PENDING").out)).ReadAll()
		require.NoError(t, err)
		want := "'" + text
		if safe {
			want = text
		}
		require.Equal(t, strings.ReplaceAll(want, "\r\n", "\n"), rows[1][0], "%q", text)
	}
}

func TestCSVOfAnEmptyListHasItsTitles(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"GET /api/v1/jobs":                 answer(`{"jobs": [], ` + noMore + `}`),
		"GET /api/v1/dlq/messages/m/chain": answer(`{"id": "m", "hops": [], "truncated": false}`),
	})
	require.Equal(t, "id,kind\n", s.dlqctl(t, "jobs", "list", "-o", "csv", "--fields", "id,kind,id").out)
	require.Equal(t, "id,dlq_topic,status,resolution,created_at,retry_count\n", s.dlqctl(t, "messages", "chain", "m", "-o", "csv").out)
}

func TestAFollowedJobHasTheTitlesOfCSVOnce(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/" + jobID: func(w http.ResponseWriter, r *http.Request) {
		answer(job(map[bool]string{true: "COMPLETED", false: "RUNNING"}[looks.Add(1) > 1], ""))(w, r)
	}})
	require.Equal(t, "state\nRUNNING\nCOMPLETED\n", s.dlqctl(t, "jobs", "watch", jobID, "-o", "csv", "--fields", "state").out)
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	content, err := json.Marshal(text)
	require.NoError(t, err)
	return string(content)
}

// endless is a standard input that never has data.
func endless(t *testing.T) io.Reader {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(writer.Close(), reader.Close()) })
	return reader
}

func TestEverythingThatLastsEndsInTime(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/dlq": answer(page)})
	for _, args := range [][]string{
		{"topics", "list", "--jq", "def f: f; f"},
		{"messages", "send", "t"},
		{"messages", "retry", "m", "--value", "-"},
		{"contexts", "set", "x", "--server", "http://127.0.0.1:1", "--token-stdin", "--config", t.TempDir() + "/c.yaml"},
	} {
		for _, end := range []struct {
			code    int
			timeout string
			signal  bool
		}{{124, "50ms", false}, {130, "1h", true}} {
			t.Run(args[0]+args[1], func(t *testing.T) {
				t.Parallel()
				interrupts := make(chan os.Signal, 1)
				if end.signal {
					interrupts <- os.Interrupt
				}
				var failed output
				code := ctl.Program{
					Stdin: endless(t), Stdout: io.Discard, Stderr: &failed, Interrupts: interrupts, Getenv: func(name string) string { return s.env[name] },
				}.Run(t.Context(), append(args, "--timeout", end.timeout))
				require.Equal(t, end.code, code, failed.String())
			})
		}
	}
}

func TestAnUnknownOutcomeSaysHowToLook(t *testing.T) {
	t.Parallel()
	s := server(t, map[string]http.HandlerFunc{
		"POST /api/v1/plans":               answer(`{"id": "` + jobID + `", "kind": "retry", "topic": "t", "matched": 3}`),
		"POST /api/v1/jobs":                func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		"POST /api/v1/dlq/messages/m/dead": fail(http.StatusConflict, "SYS_DLQ_CONFLICT", "it is RETRYING"),
	})
	ran := s.dlqctl(t, "retry", "t", "--all", "--yes", "--timeout", "100ms")
	require.Equal(t, 124, ran.code)
	require.Contains(t, ran.err, "Look with: dlqctl jobs get "+jobID)
	require.NotContains(t, s.dlqctl(t, "messages", "dead", "m").err, "Look with", "the server has refused")
	require.NotContains(t, s.dlqctl(t, "messages", "dead", "..").err, "Look with", "nothing was sent")
	require.NotContains(t, s.dlqctl(t, "messages", "dead", "m", "--server", "http://127.0.0.1:1").err, "Look with", "nobody is there")
}

func TestAnInterruptedHandInSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	var batches atomic.Int32
	s := server(t, map[string]http.HandlerFunc{"POST /api/v1/dlq/t/messages": func(w http.ResponseWriter, r *http.Request) {
		if _, _ = io.Copy(io.Discard, r.Body); batches.Add(1) > 1 {
			<-r.Context().Done()
		}
		answer(`{"messages": [{"id": "m"}]}`)(w, r)
	}})
	s.stdin = strings.Repeat("{}\n", 150)
	ran := s.dlqctl(t, "messages", "send", "t", "--timeout", "300ms")
	require.Equal(t, 124, ran.code)
	require.Contains(t, ran.err, "100 messages were handed in, continue with --skip 100")
}

func TestAFollowedJobIsWhatItWasAtLast(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/" + jobID: func(w http.ResponseWriter, r *http.Request) {
		if looks.Add(1) == 1 {
			answer(job("RUNNING", `, "failed": 1`))(w, r)
			return
		}
		answer(job("COMPLETED", ""))(w, r) // the answer lacks the number of failures
	}})
	require.Zero(t, s.dlqctl(t, "jobs", "watch", jobID).code)
}

// The token may expire while dlqctl follows a job. The job continues.
func TestAFollowedJobGoesOnWhenItCannotBeWatched(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	s := server(t, map[string]http.HandlerFunc{"GET /api/v1/jobs/" + jobID: func(w http.ResponseWriter, r *http.Request) {
		if looks.Add(1) > 1 {
			fail(http.StatusUnauthorized, "SYS_DLQ_UNAUTHENTICATED", "the token has expired")(w, r)
			return
		}
		answer(job("RUNNING", ""))(w, r)
	}})
	ran := s.dlqctl(t, "jobs", "watch", jobID)
	require.Equal(t, 4, ran.code)
	require.Contains(t, ran.err, "the job goes on; watch it with: dlqctl jobs watch "+jobID)
	require.NotContains(t, s.dlqctl(t, "jobs", "watch", "unknown").err, "goes on")
}
