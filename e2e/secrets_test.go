package e2e

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dlqmanager/internal/kafkatest"
	"dlqmanager/internal/temporaltest"
	"dlqmanager/workflows"
)

// Each secret and each part of a message has a mark of its own, so that an excerpt of a message is found too.
const (
	databaseSecret = "zq7DatabaseSecret"
	migratorSecret = "zq7MigratorSecret"
	kafkaSecret    = "zq7KafkaSecret"
	temporalSecret = "zq7TemporalSecret"
	bearerSecret   = "zq7BearerSecret" // a token that is unknown
	keyMark        = "zq7RecordKey"
	valueMark      = "zq7RecordValue"
	headerMark     = "zq7RecordHeader"
	editMark       = "zq7EditedRecord"
	letterMark     = "zq7LetterHandedIn"
	requestMark    = "zq7IdempotencyKey"
)

var (
	secretMarks = []string{databaseSecret, migratorSecret, kafkaSecret, temporalSecret, bearerSecret}
	recordMarks = []string{keyMark, valueMark, headerMark, editMark, letterMark, requestMark}
)

// requireAbsent fails if the text has a mark, as it is, in hexadecimal or inside base64.
func requireAbsent(t *testing.T, where string, text []byte, marks ...string) {
	t.Helper()
	require.NotEmpty(t, text, where)
	for _, mark := range marks {
		for _, form := range formsOf(mark) {
			if i := bytes.Index(text, []byte(form)); i >= 0 {
				t.Errorf("%s shows %s: …%s…", where, mark, text[max(0, i-200):min(len(text), i+200)])
			}
		}
	}
}

// formsOf lists the ways in which an encoder may write a mark. In base64, bytes before and after the mark
// share characters with it; these characters are left out.
func formsOf(mark string) []string {
	forms := []string{mark, hex.EncodeToString([]byte(mark)), url.QueryEscape(mark)}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), mark...))
		forms = append(forms, encoded[(before*8+5)/6:len(encoded)-1])
	}
	return forms
}

func TestMarksAreFoundInEveryForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a" + valueMark, fmt.Sprintf("%x", "ab"+valueMark+"c")} {
		require.True(t, containsAny(text, formsOf(valueMark)), text)
	}
	for before := range 7 {
		for after := range 7 {
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("b", before) + valueMark + strings.Repeat("a", after)))
			require.True(t, containsAny(text, formsOf(valueMark)), text)
		}
	}
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// secretly adds marked credentials to the environment of a system.
func (s *system) secretly(kafkaPassword string) {
	s.env = append(s.env,
		"DLQ_LOG_LEVEL=debug", "DLQ_AUDIT_LOG=true", "DLQ_DATABASE_PASSWORD="+databaseSecret,
		"DLQ_DATABASE_MIGRATIONS_USER="+s.variable("DLQ_DATABASE_USER"), "DLQ_DATABASE_MIGRATIONS_PASSWORD="+migratorSecret,
		"DLQ_KAFKA_SECURITY_PROTOCOL=SASL_PLAINTEXT", "DLQ_KAFKA_SASL_MECHANISM=PLAIN", "DLQ_KAFKA_SASL_USER=app",
		"DLQ_KAFKA_SASL_PASSWORD="+kafkaPassword, "DLQ_TEMPORAL_API_KEY="+temporalSecret, "DLQ_TEMPORAL_TLS_ENABLED=false")
}

func TestSecretsAndPayloadsAppearInNoOutput(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "app", kafkaSecret))
	s := newSystem(t, cluster)
	s.secretly(kafkaSecret)
	secretMarks := append(slices.Clone(secretMarks), s.authenticate())
	worker, api := s.startWorker(), s.startAPI()
	s.produceMarked(cluster, 3)
	s.eventually("they are stored", func() bool { return s.pending() == 3 })

	ids := s.ids()
	retried := s.show(http.MethodPost, "/api/v1/dlq/messages/"+ids[0]+"/retry", "")
	require.Contains(t, retried, "RESOLVED")
	s.editAndHandIn(ids[1])
	require.Contains(t, s.show(http.MethodPost, "/api/v1/jobs", `{"unknown":"`+valueMark+`"}`), "unknown field")
	s.show(http.MethodPost, "/api/v1/jobs", `{"kind": "retry", "topic":"`+s.dlqTopic+`","key":"`+keyMark+`","reason":"a reason"}`)
	// Five messages, with the edited copy and the letter that was handed in.
	s.eventually("the bulk retry ended", func() bool { return s.rows("status = 'RESOLVED'") == 5 })
	require.NoError(t, cluster.CreateTopic("nowhere.dlq.v1", 1, nil))
	s.dlqTopic, s.topic = "nowhere.dlq.v1", "nowhere.v1" // a topic that does not exist
	s.produceMarked(cluster, 2)
	s.eventually("they are stored", func() bool { return s.pending() == 2 })
	s.show(http.MethodPost, "/api/v1/jobs", `{"kind":"dead","topic":"nowhere.dlq.v1","key":"`+keyMark+`","reason":"a reason"}`)
	s.eventually("the bulk change ended", func() bool { return s.rows("status = 'DEAD'") == 2 })
	other := s.retryRefused(cluster, worker)

	for _, path := range []string{
		"/docs", "/docs/page.js", "/openapi.json", "/metrics", "/healthz", "/readyz", "/nowhere", "/api/v1/me", "/api/v1/audit", "/api/v1/dlq",
		"/api/v1/dlq/" + s.dlqTopic + "?page=x", "/api/v1/dlq/messages/x",
	} {
		requireAbsent(t, path, []byte(s.show(http.MethodGet, path, "")), append(recordMarks, secretMarks...)...)
	}
	// These answers show records and filters.
	for _, path := range []string{"/api/v1/dlq/messages/" + ids[0], "/api/v1/jobs", "/api/v1/jobs"} {
		requireAbsent(t, path, []byte(s.show(http.MethodGet, path, "")), secretMarks...)
	}
	s.sendUnreadable()
	token := s.token
	s.token = "" // so the requests send an unknown token
	refused := s.show(http.MethodGet, "/api/v1/dlq", "")
	require.Contains(t, refused, "401 Unauthorized")
	requireAbsent(t, "a refusal", []byte(refused), secretMarks...)
	s.token = token
	s.base = strings.TrimSuffix(other.ready, "/readyz")
	requireAbsent(t, "the worker's metrics", []byte(s.show(http.MethodGet, "/metrics", "")), append(recordMarks, secretMarks...)...)

	for _, name := range []string{"api", "worker"} {
		printed := s.run(name, "config")
		require.Contains(t, string(printed), "[redacted]")
		requireAbsent(t, name+" config", printed, secretMarks...)
	}
	require.NoError(t, api.end())
	require.NoError(t, other.end())
	for name, p := range map[string]*program{"the API's log": api, "the worker's log": worker, "the other worker's log": other} {
		log := p.log.tail(1 << 30)
		require.Contains(t, log, `"level":"debug"`, name)
		requireAbsent(t, name, []byte(log), append(recordMarks, secretMarks...)...)
	}
	s.requireCleanHistories(ids[0], append(recordMarks, secretMarks...), workflows.RetryMessageType, workflows.RetryAllType, workflows.ChangeAllType)
}

// sendUnreadable sends requests of the administrator that end early or are malformed.
func (s *system) sendUnreadable() {
	s.t.Helper()
	secret := "Authorization: Bearer " + s.token + "\r\n"
	const line, body = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n", `{"key":"` + valueMark + `"}`
	for name, content := range map[string]string{
		"headers end early": line + secret, "headers end within a line": line + strings.TrimSuffix(secret, "\r\n"),
		"body ends early": line + secret + "Content-Length: 1000\r\n\r\n" + body, "bad chunk": line + secret + "Transfer-Encoding: chunked\r\n\r\n" + body,
		"blank in a name": line + secret + "X Y: z\r\n\r\n" + body, "bad length": line + secret + "Content-Length: x\r\n\r\n" + body,
		"no version": "POST /" + bearerSecret + "\r\n" + secret + "\r\n" + body, "bad value": line + strings.TrimSuffix(secret, "\r\n") + "\x00\r\n\r\n" + body,
		"body first": body + "\r\n" + secret + "\r\n",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		require.NoError(s.t, err)
		_, err = io.WriteString(connection, content)
		require.NoError(s.t, err)
		_ = connection.(*net.TCPConn).CloseWrite() // the server may have closed the connection already
		answer, err := io.ReadAll(connection)
		require.NoError(s.t, err, name)
		require.NoError(s.t, connection.Close())
		require.Contains(s.t, string(answer), " 4", name)
		requireAbsent(s.t, name, answer, append(recordMarks, s.token, bearerSecret)...)
	}
}

// editAndHandIn sends an edited copy of a message, and hands in a letter that is not retried yet.
func (s *system) editAndHandIn(id string) {
	s.t.Helper()
	path, marked := "/api/v1/dlq/messages/"+id+"/retry", `{"card":"`+editMark+`"}`
	refused := s.show(http.MethodPost, path, `{"value":`+marked+`,"headers":{"spring_json_header_types":"`+editMark+`"}}`)
	require.Contains(s.t, refused, "400 Bad Request")
	edited := s.show(http.MethodPost, path, `{"value":`+marked+`,"key":"`+editMark+`","headers":{"customer":"`+editMark+`"},"reason":"a reason"}`)
	require.Contains(s.t, edited, "RESOLVED")
	require.Contains(s.t, edited, `"edited_from":"`+id)
	letters := "/api/v1/dlq/" + s.dlqTopic + "/messages"
	letter := `{"key":"` + keyMark + `","value":{"card":"` + letterMark + `"},"headers":{"customer":"` + letterMark + `"}}`
	require.Contains(s.t, s.show(http.MethodPost, letters, letter), "201 Created")
	require.Contains(s.t, s.show(http.MethodPost, letters, `{"value":"another"}`), "409 Conflict", "the same key")
	for _, answer := range []string{refused, edited} {
		requireAbsent(s.t, "the answer", []byte(answer), recordMarks...)
	}
}

// authenticate switches authentication on, and returns the token of an administrator.
func (s *system) authenticate() string {
	file := filepath.Join(s.t.TempDir(), "tokens.yaml")
	s.token = strings.TrimSpace(string(s.run("api", "token", "new", "-name", "ops", "-role", "admin", "-file", file)))
	s.env = append(s.env, "DLQ_AUTH_MODE=token", "DLQ_AUTH_TOKENS_FILE="+file)
	return s.token
}

// retryRefused replaces the worker by a worker whose logins Kafka refuses. Then it retries a message.
func (s *system) retryRefused(cluster *kfake.Cluster, worker *program) (other *program) {
	s.t.Helper()
	s.produceMarked(cluster, 1)
	s.eventually("it is stored", func() bool { return s.pending() == 1 })
	require.NoError(s.t, worker.end())
	cluster.ControlKey(kmsg.SASLAuthenticate.Int16(), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		text := "Authentication failed: Invalid username or password"
		response.ErrorCode, response.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &text
		return response, nil, true
	})
	address := freeAddress(s.t)
	other = s.launch("worker", address, "DLQ_WORKER_METRICS_PORT="+port(address))
	ids := s.ids()
	require.Contains(s.t, s.show(http.MethodPost, "/api/v1/dlq/messages/"+ids[len(ids)-1]+"/retry", ""), "Invalid username or password")
	return other
}

// produceMarked sends dead letters whose key, value and header are marked.
func (s *system) produceMarked(cluster *kfake.Cluster, messages int) {
	s.t.Helper()
	producer := newClient(s.t, cluster, kgo.SASL(plain.Auth{User: "app", Pass: kafkaSecret}.AsMechanism()))
	for range messages {
		require.NoError(s.t, producer.ProduceSync(s.t.Context(), &kgo.Record{
			Topic: s.dlqTopic, Key: []byte(keyMark), Value: []byte(`{"card":"` + valueMark + `"}`),
			Headers: []kgo.RecordHeader{
				{Key: "original_topic", Value: []byte(s.topic)}, {Key: "error", Value: []byte("boom")}, {Key: "customer", Value: []byte(headerMark)},
			},
		}).FirstErr())
	}
}

// show sends a request with a marked token and returns the whole answer.
func (s *system) show(method, path, body string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Authorization", "Bearer "+cmp.Or(s.token, bearerSecret))
	request.Header.Set("Cookie", "session="+bearerSecret)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", requestMark)
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return fmt.Sprint(response.Status, response.Header, string(content))
}

// run runs a command of a program and returns its output.
func (s *system) run(name string, args ...string) []byte {
	s.t.Helper()
	command := s.command(name, args...)
	command.Env = s.env
	output, err := command.CombinedOutput()
	require.NoError(s.t, err, "%s", output)
	return output
}

// variable returns the value that the programs get for a variable.
func (s *system) variable(name string) (value string) {
	for _, entry := range s.env {
		if text, found := strings.CutPrefix(entry, name+"="); found {
			value = text
		}
	}
	return value
}

// requireCleanHistories reads what Temporal stores of every workflow of the system.
func (s *system) requireCleanHistories(known string, marks []string, types ...string) {
	t := s.t
	temporal := temporaltest.Client(t)
	query := fmt.Sprintf("TaskQueue = '%s'", s.variable("DLQ_TEMPORAL_TASK_QUEUE"))
	var listed *workflowservice.ListWorkflowExecutionsResponse
	s.eventually("Temporal lists the workflows", func() bool {
		var err error
		listed, err = temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		missing := slices.Clone(types)
		for _, execution := range listed.GetExecutions() {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == execution.GetType().GetName() })
		}
		return len(missing) == 0
	})
	var all []byte
	for _, execution := range listed.GetExecutions() {
		id := execution.GetExecution().GetWorkflowId()
		described, err := temporal.DescribeWorkflowExecution(t.Context(), id, execution.GetExecution().GetRunId())
		require.NoError(t, err)
		history := marshal(t, described)
		events := temporal.GetWorkflowHistory(t.Context(), id, execution.GetExecution().GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(t, err)
			history = append(history, marshal(t, event)...)
		}
		requireAbsent(t, "the history of "+id, history, marks...)
		all = append(all, history...)
	}
	require.Contains(t, string(all), known, "an id is found in the same way")
	requireSchedulesClean(t, temporal, marks)
}

func requireSchedulesClean(t *testing.T, temporal client.Client, marks []string) {
	t.Helper()
	schedules, err := temporal.ScheduleClient().List(t.Context(), client.ScheduleListOptions{})
	require.NoError(t, err)
	for schedules.HasNext() {
		entry, err := schedules.Next()
		require.NoError(t, err)
		described, err := temporal.WorkflowService().DescribeSchedule(t.Context(),
			&workflowservice.DescribeScheduleRequest{Namespace: "default", ScheduleId: entry.ID})
		require.NoError(t, err)
		requireAbsent(t, "the schedule "+entry.ID, marshal(t, described), marks...)
	}
}

func marshal(t *testing.T, message proto.Message) []byte {
	t.Helper()
	content, err := proto.Marshal(message)
	require.NoError(t, err)
	return content
}

// Programs whose credentials are refused log why, without the credentials.
func TestRefusedSecretsAppearInNoOutput(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.FakeCluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "app", "another"))
	s := newSystem(t, cluster)
	s.secretly(kafkaSecret)
	database, databaseAsked := refusingPostgres(t)
	temporal, temporalAsked := refusingTemporal(t)
	s.env = append(s.env, "DLQ_DATABASE_HOST=127.0.0.1", "DLQ_DATABASE_PORT="+port(database), "DLQ_TEMPORAL_ADDRESS="+temporal)
	for _, name := range []string{"api", "worker"} {
		address := freeAddress(t)
		p := s.launch(name, address, "DLQ_SERVER_PORT="+port(address), "DLQ_WORKER_METRICS_PORT="+port(address))
		s.eventually("it is not ready", func() bool { return p.readiness() == http.StatusServiceUnavailable })
		passwords := []string{databaseSecret}
		if name == "worker" {
			passwords = append(passwords, migratorSecret)
		}
		for len(passwords) > 0 {
			asked := <-databaseAsked
			passwords = slices.DeleteFunc(passwords, func(password string) bool { return password == asked })
		}
		require.Equal(t, "Bearer "+temporalSecret, <-temporalAsked)
		s.eventually("it logs the refusals", func() bool {
			log := p.log.tail(1 << 30)
			return strings.Contains(log, "28P01") && strings.Contains(log, "the API key is unknown") && strings.Contains(log, "SASL")
		})
		s.base = "http://" + address
		for _, path := range []string{"/readyz", "/metrics", "/api/v1/dlq", "/nowhere"} {
			requireAbsent(t, name+path, []byte(s.show(http.MethodGet, path, "")), secretMarks...)
		}
		require.NoError(t, p.end())
		requireAbsent(t, name, []byte(p.log.tail(1<<30)), secretMarks...)
	}
}

// refusingPostgres asks every client for its password and refuses it.
func refusingPostgres(t *testing.T) (address string, passwords <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	received := make(chan string, 1000)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				backend := pgproto3.NewBackend(connection, connection)
				if _, err := backend.ReceiveStartupMessage(); err != nil {
					return
				}
				backend.Send(&pgproto3.AuthenticationCleartextPassword{})
				if backend.Flush() != nil || backend.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
					return
				}
				if message, err := backend.Receive(); err == nil {
					if password, ok := message.(*pgproto3.PasswordMessage); ok {
						received <- password.Password
					}
				}
				backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"})
				_ = backend.Flush()
			}()
		}
	}()
	return listener.Addr().String(), received
}

// refusingTemporal refuses every API key.
func refusingTemporal(t *testing.T) (address string, keys <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	received := make(chan string, 1000)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		headers, _ := metadata.FromIncomingContext(stream.Context())
		if keys := headers.Get("authorization"); len(keys) > 0 {
			received <- keys[0]
		}
		return status.Error(codes.Unauthenticated, "the API key is unknown")
	}))
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), received
}
