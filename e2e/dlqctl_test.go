package e2e

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"dlqmanager/internal/kafkatest"
)

// operator is a system with a person at dlqctl.
type operator struct {
	*system

	api     *program
	produce func(messages int)
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	cluster := kafkatest.FakeCluster(t)
	o := &operated{system: newSystem(t, cluster)}
	o.fakeTopics = func(messages int) { o.produceDeadLetters(cluster, messages) }
	o.startWorker()
	api := o.startAPI()
	o.arrive(200)
	return &operator{o.system, api, o.arrive}
}

// command is dlqctl with the arguments. TOPIC stands for the dead-letter topic.
func (o *operator) command(line string, more ...string) *exec.Cmd {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	o.t.Cleanup(cancel)
	args := append(strings.Fields(strings.ReplaceAll(line, "TOPIC", o.dlqTopic)), more...)
	command := exec.CommandContext(ctx, filepath.Join(programs, "dlqctl"), args...)
	command.Env = []string{"DLQ_URL=" + o.base, "DLQCTL_CONFIG=" + filepath.Join(o.t.TempDir(), "config.yaml"), "TERM=xterm", "NO_COLOR=1"}
	return command
}

// says runs dlqctl without a terminal and returns its output.
func (o *operator) says(code int, line string, more ...string) string {
	o.t.Helper()
	command := o.command(line, more...)
	var failed bytes.Buffer
	command.Stderr = &failed
	out, _ := command.Output()
	require.Equal(o.t, code, command.ProcessState.ExitCode(), "%s\n%s%s", line, out, failed.String())
	return string(out)
}

// screen is a run of dlqctl in a pseudo terminal.
type screen struct {
	o       *operator
	command *exec.Cmd
	file    *os.File
	text    lockedBuffer
	done    chan struct{}
}

func (o *operator) screen(line string, more ...string) *screen {
	o.t.Helper()
	s := &screen{o: o, command: o.command(line, more...), done: make(chan struct{})}
	file, err := pty.StartWithSize(s.command, &pty.Winsize{Rows: 24, Cols: 100})
	require.NoError(o.t, err)
	s.file = file
	go func() {
		defer close(s.done)
		buffer := make([]byte, 4096)
		for {
			n, err := file.Read(buffer)
			_, _ = s.text.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	o.t.Cleanup(func() { _ = file.Close() })
	return s
}

// shows waits until the screen has shown a text.
func (s *screen) shows(pattern string) {
	s.o.t.Helper()
	text := regexp.MustCompile(pattern)
	require.Eventually(s.o.t, func() bool { return text.MatchString(s.text.tail(1 << 20)) }, 20*time.Second, 20*time.Millisecond, "%s", screenful{s})
}

// screenful is the text of a screen for the report of a failed test.
type screenful struct{ *screen }

func (s screenful) String() string { return strconv.Quote(s.text.tail(2000)) }

func (s *screen) types(text string) {
	s.o.t.Helper()
	_, err := s.file.WriteString(text)
	require.NoError(s.o.t, err)
}

// ends waits for the end and compares the exit code.
func (s *screen) ends(code int) string {
	s.o.t.Helper()
	_ = s.command.Wait()
	<-s.done
	require.Equal(s.o.t, code, s.command.ProcessState.ExitCode(), s.text.tail(1<<20))
	return s.text.tail(1 << 20)
}

const ctrlC = "\x03"

// An operator goes the way from the alert to the repaired topic, only with dlqctl.
func TestAnOperatorRepairsATopicWithDlqctl(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	require.Contains(t, o.says(0, "topics list"), o.dlqTopic+"  200")
	require.Contains(t, o.says(0, "doctor"), "sign-in   you are anonymous")
	group := strings.TrimPrefix(strings.TrimSpace(o.says(0, "groups list --topic TOPIC --sort pending --limit 1 -o name")), "groups/")
	o.says(0, "groups note "+group, "--owner", "alice", "--note", "the provider is away")
	o.says(0, "groups hold "+group+" --until 8h")
	require.Contains(t, o.says(0, "groups get "+group), "alice")
	o.says(0, "groups open "+group)

	message := strings.TrimSpace(o.says(0, "messages list TOPIC --status PENDING --limit 1 -o name"))
	require.Contains(t, o.says(0, "messages get "+message), "payment")
	require.Contains(t, o.says(0, "messages retry "+message, "--reason", "one first"), "RESOLVED")
	require.Contains(t, o.says(0, "messages chain "+message, "--jq", ".hops[].status"), "RESOLVED")
	require.Contains(t, o.says(0, "retries list"), "SUCCEEDED")

	require.Len(t, strings.Split(strings.TrimSpace(o.says(0, "export TOPIC --status PENDING")), "\n"), 199)
	var tried atomic.Int64
	process := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tried.Add(1) }))
	t.Cleanup(process.Close)
	o.says(0, "listen TOPIC --limit 3 --status PENDING --to "+process.URL)
	o.says(0, "listen TOPIC --id "+message+" --to "+process.URL)
	require.EqualValues(t, 4, tried.Load())

	plan := o.says(0, "plan retry TOPIC -o name --group "+group)
	o.says(5, "apply --yes plans/"+strings.TrimPrefix(o.changedPlan(plan), "plans/"))
	last := lastLine(o.says(0, "retry TOPIC --all --yes --follow", "--reason", "the provider is back"))
	require.Contains(t, last, `"state":"COMPLETED"`)
	require.Contains(t, o.says(0, "topics list -o csv --fields dlq_topic,counts.PENDING"), o.dlqTopic+",0\n")
	require.Contains(t, o.says(0, "jobs list --topic TOPIC"), "COMPLETED")
	require.Contains(t, o.says(0, "audit list --topic TOPIC --action dlq:job:create -o wide"), "the provider is back")
}

// Every command of dlqctl in README works. The test replaces the topics and ids of the page by its own.
func TestTheCommandsOfTheReadmeWork(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	content, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	ran := 0
	for _, found := range regexp.MustCompile(`(?m)^\$ dlqctl (.*)$`).FindAllStringSubmatch(string(content), -1) {
		line := regexp.MustCompile(`shop\.[a-z.0-9]+`).ReplaceAllString(found[1], "TOPIC")
		line = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllStringFunc(line, func(string) string {
			return strings.TrimSpace(o.says(0, "messages list TOPIC --limit 1 --status PENDING -o name"))
		})
		if strings.HasPrefix(line, "retry") {
			o.produce(5)
			line += " --yes"
		}
		o.says(0, line)
		ran++
	}
	require.GreaterOrEqual(t, ran, 6)
}

// changedPlan changes a message of the plan, and returns its name.
func (o *operator) changedPlan(plan string) string {
	o.t.Helper()
	message := strings.TrimSpace(o.says(0, "messages list TOPIC --status PENDING --limit 1 -o name"))
	o.says(0, "messages dead "+message)
	o.says(0, "messages revive "+message)
	o.says(0, "messages delete "+message, "--reason", "not needed")
	return strings.TrimSpace(plan)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestATerminalShowsABarAndCtrlCAsks(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	s := o.screen("retry TOPIC --all --rate 5 --follow")
	s.shows(`Retry 200 messages of \S+\? Type yes: `)
	s.types("yes\r")
	s.shows(`\[#*-+\] +\d+% \d+ of 200`)
	require.NoError(t, pty.Setsize(s.file, &pty.Winsize{Rows: 24, Cols: 40}))
	s.shows(`\x1b\[K[^\x1b\r]{1,39}\r`)

	s.types(ctrlC)
	s.shows(`\[w\]atch on\? $`)
	s.types("w\r")
	s.shows(`(?s)atch on\? .*% \d+ of 200`)
	s.types(ctrlC)
	s.shows(`(?s)atch on\? .*atch on\? $`)
	s.types("p\r")
	text := s.ends(130)
	require.Contains(t, text, "the job is paused")
	job := regexp.MustCompile(`jobs resume ([0-9a-f-]{36})`).FindStringSubmatch(text)[1]
	o.eventually("the job is paused", func() bool { return strings.Contains(o.says(0, "jobs get "+job), "PAUSED") })
	o.says(0, "jobs resume "+job)

	s = o.screen("jobs watch " + job)
	s.shows(`% \d+ of 200`)
	s.types(ctrlC)
	s.shows(`atch on\? $`)
	s.types("l\r")
	require.Contains(t, s.ends(130), "the job goes on")

	s = o.screen("jobs watch " + job)
	s.shows(`% \d+ of 200`)
	s.types(ctrlC)
	s.shows(`atch on\? $`)
	s.types(ctrlC) // after a second Ctrl-C the job goes on
	require.Contains(t, s.ends(130), "the job goes on")

	s = o.screen("jobs watch " + job)
	s.shows(`% \d+ of 200`)
	s.types(ctrlC)
	s.shows(`atch on\? $`)
	s.types("c\r")
	require.Contains(t, s.ends(130), "the job is cancelled")
	o.eventually("the job is cancelled", func() bool { return strings.Contains(o.says(0, "jobs get "+job), "CANCELLED") })
}

// A person can leave a question by Ctrl-C. A supervisor that ends dlqctl by a signal is asked nothing.
func TestNoQuestionHoldsATerminal(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	s := o.screen("retry TOPIC --all")
	s.shows("Type yes: ")
	s.types(ctrlC)
	s.ends(130)
	s = o.screen("retry TOPIC --all --timeout 1s")
	s.shows("Type yes: ")
	s.ends(124)
	s = o.screen("retry TOPIC --all --rate 5 --yes --follow")
	s.shows(`% \d+ of 200`)
	require.NoError(t, s.command.Process.Signal(syscall.SIGTERM))
	text := s.ends(130)
	require.Contains(t, text, "the job goes on")
	require.NotContains(t, text, "atch on?")
}

func TestProductionAsksForTheTopic(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	o.says(0, "contexts set prod --production --config "+file+" --server "+o.base)
	s := o.screen("delete TOPIC --all --context prod --config " + file)
	s.shows(`Delete 200 messages of \S+\? This is production. Type the name of the topic: `)
	s.types("yes\r")
	require.Contains(t, s.ends(1), "nothing was changed")
	s = o.screen("delete TOPIC --all --context prod --config " + file)
	s.shows(`Type the name of the topic: `)
	s.types(o.dlqTopic + "\r")
	s.shows("The job runs")
	s.ends(0)
}

func TestTopShowsAndSteersJobs(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	s := o.screen("top")
	s.shows(`(?s)JOBS.*none.* 200 .*payment`)
	job := strings.TrimPrefix(strings.TrimSpace(o.says(0, "retry TOPIC --all --rate 5 --yes -o name")), "jobs/")
	s.shows(`> ` + job + `.*% \d+ of 200`)
	s.types("p")
	s.shows(`the job is paused`)
	s.shows(`PAUS`)
	s.types("r")
	s.shows(`the job is resumed`)
	s.types("c")
	s.shows(`cancel this job\?`)
	s.types("n")
	s.types("c")
	s.types("y")
	s.shows(`the job is cancelled`)
	s.types("q")
	require.True(t, strings.HasSuffix(s.ends(0), "\x1b[?25h\x1b[?1049l"), "the terminal is as before")
	o.says(2, "top") // without a terminal
}

func TestCtrlCInProductionAsksForTheTopicToo(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	file := filepath.Join(t.TempDir(), "config.yaml")
	o.says(0, "contexts set prod --production --config "+file+" --server "+o.base)
	s := o.screen("retry TOPIC --all --rate 5 --follow --context prod --config " + file)
	s.shows(`Type the name of the topic: `)
	s.types(o.dlqTopic + "\r")
	s.shows(`% \d+ of 200`)
	s.types(ctrlC)
	s.shows(`atch on\? $`)
	s.types("c\r")
	s.shows(`The retry of \S+: cancel\? This is production. Type the name of the topic: $`)
	s.types("c\r")
	require.Contains(t, s.ends(1), "nothing was changed")
}

// The text of a stranger cannot steer the terminal of its reader.
func TestATerminalObeysNoDeadLetter(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	hostile := o.command("messages send TOPIC -o name")
	hostile.Stdin = strings.NewReader(`{"value": {"v": "\u009b2J\u202e"}, "error": {"message": "\u001b]0;owned\u0007\u009b31m\u202egnp"}, "origin": {"topic": "x"}, "headers": [{"key": "h", "value": "\u001b[2J"}]}`)
	out, err := hostile.Output()
	require.NoError(t, err)
	message := strings.TrimSpace(string(out))
	for _, line := range []string{
		"messages get " + message, "messages list TOPIC --limit 3", "messages list TOPIC --limit 3 -o csv", "messages list TOPIC --limit 3 -o wide",
		"messages get -o json " + message, "messages get -o jsonl " + message, "messages get --jq .error_message " + message,
		"groups list", "plan retry TOPIC --id " + strings.TrimPrefix(message, "messages/"),
	} {
		text := o.screen(line).ends(0)
		require.NotRegexp(t, "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0080-\u009f\u202e]", text, line)
		if line != "groups list" { // the titles of groups leave such characters out
			require.Contains(t, text, "202e", line)
		}
	}
}

func TestFollowingOutlastsTheAPI(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	job := strings.TrimPrefix(strings.TrimSpace(o.says(0, "retry TOPIC --all --rate 20 --yes -o name")), "jobs/")
	command := o.command("jobs watch " + job)
	var failed lockedBuffer
	var out lockedBuffer
	command.Stdout, command.Stderr = &out, &failed
	require.NoError(t, command.Start())
	o.eventually("a first line", func() bool { return strings.Contains(out.tail(1<<20), "RUNNING") })
	o.api.kill(t)
	o.eventually("dlqctl notices", func() bool { return strings.Contains(failed.tail(1<<20), "The API is away") })
	address := strings.TrimPrefix(o.base, "http://")
	o.start("api", address, "DLQ_SERVER_PORT="+port(address))
	require.NoError(t, command.Wait(), failed.tail(1<<20))
	require.Contains(t, lastLine(out.tail(1<<20)), `"state":"COMPLETED"`)
	require.Contains(t, failed.tail(1<<20), "The API answers again")
}

func TestAClosedPipeEndsAList(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	command := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c",
		filepath.Join(programs, "dlqctl")+` messages list "$TOPIC" --limit 0 -o jsonl | head -1`)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "DLQ_URL=" + o.base, "TOPIC=" + o.dlqTopic} // and no HOME
	out, _ := command.CombinedOutput()
	require.JSONEq(t, o.says(0, "messages list TOPIC --limit 1 -o jsonl"), string(out))
}
