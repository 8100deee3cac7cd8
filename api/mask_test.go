package api_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/api"
	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// Texts of these tests that must be hidden: in the value, in the key and in a header.
const (
	hiddenEmail = "alice.meyer@zq7.example"
	hiddenKey   = "customer-Xr8sLt3n"
	hiddenUser  = "user-Yt9uMv4o"
)

var hiddenTexts = []string{hiddenEmail, hiddenKey, hiddenUser}

func masked(t testing.TB, rules ...dlq.MaskRule) func(*api.Options) {
	t.Helper()
	if rules == nil {
		rules = []dlq.MaskRule{{Topics: []string{"orders.*"}, Value: []string{"customer.email"}, Key: []string{"*"}, Headers: []string{"x-user"}, As: "mask"}}
	}
	masking, err := dlq.NewMasking(rules, []byte("a secret of 16 bytes"))
	require.NoError(t, err)
	return func(o *api.Options) { o.Masking = masking }
}

// personal makes a message that has the hidden texts in all fields that may quote them.
func personal(a *dlq.Arrival) {
	all := strings.Join(hiddenTexts, " ")
	value := []byte(`{"id":12345678901234567890,"customer":{"email":"` + hiddenEmail + `"},"note":"mail to ` + hiddenEmail + ` or ` + hiddenUser + `"}`)
	a.Record.Value, a.Payload, a.Record.Key = value, value, []byte(hiddenKey)
	a.ErrorMessage, a.ErrorClass, a.CauseClass = "cannot charge the customer "+all, "Failed."+hiddenUser, "Cause: "+all
	a.StackTrace = "Failed: cannot charge " + all + "\n\tat shop.Orders.charge(Orders.java:12)\nCaused by: X: " + all
	a.TraceID, a.CorrelationID, a.Suspicion, a.DecodeError = hiddenKey, hiddenKey, "the header has "+all, "no field "+all
	a.Record.Headers = []dlq.Header{
		{Key: "x-user", Value: []byte(hiddenUser)}, {Key: "kafka_dlt-exception-message", Value: []byte(a.ErrorMessage)},
		{Key: "kafka_dlt-exception-stacktrace", Value: []byte(a.StackTrace)}, {Key: "tenant", Value: []byte("acme")},
		{Key: "request", Value: []byte(base64.StdEncoding.EncodeToString(value))}, {Key: "hex", Value: []byte(hex.EncodeToString([]byte(hiddenKey)))},
	}
	a.Fingerprint = (*dlq.Grouping)(nil).Fingerprint(a)
}

// requireHidden requires that a text has no hidden text, not even in base64.
func requireHidden(t testing.TB, text, label string) {
	t.Helper()
	for _, hidden := range hiddenTexts {
		forms := []string{hidden, hex.EncodeToString([]byte(hidden))}
		for shift := range 3 {
			encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), hidden...))
			forms = append(forms, encoded[4:len(encoded)-4])
		}
		for _, form := range forms {
			require.NotContains(t, strings.ToLower(text), strings.ToLower(form), label)
		}
	}
}

// The test calls every route that reads, also for senders who may reveal messages.
func TestNoAnswerHasWhatIsHidden(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t))
	w.retries.fail(&dlq.DeliveryError{Category: dlq.CategoryTransient, Err: fmt.Errorf("shop answered 503: %s", strings.Join(hiddenTexts, " "))})
	ids := w.add(3, personal)
	retried := w.json(http.MethodPost, retryPath(ids[0]), `{"reason":"again"}`, bearer("operator"))
	require.Equal(t, http.StatusOK, retried.status, retried.body)
	requireHidden(t, retried.body, "retry")
	require.Contains(t, retried.body, "shop answered 503: ")
	plan, _ := w.planned(bodies["POST /api/v1/plans"], bearer("admin"))
	requireHidden(t, plan.body, "plan")
	job := w.json(http.MethodPost, jobsPath, `{"kind":"revive","topic":"orders.dlq.v1","error":"`+hiddenUser+`","payload":{"customer.email":"`+hiddenEmail+`"},"key":"`+
		hiddenKey+`","headers":{"x-user":"`+hiddenUser+`"},"not":{"error":["`+hiddenEmail+`"]}}`, bearer("admin"))
	require.Less(t, job.status, 300, job.body)
	requireHidden(t, job.body, "job")
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, "/api/v1/dlq/messages/"+ids[2].String()+"/dead", bearer("admin")).status)
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)

	for route, permission := range tableOfRoutes(t) {
		method, path, _ := strings.Cut(route, " ")
		if method != http.MethodGet || strings.Contains(path, "pprof") { // a profile has memory of this test
			continue
		}
		id := ids[0].String()
		switch {
		case strings.Contains(path, "/groups/"):
			id = w.groupOf(ids[0].String())
		case strings.Contains(path, "/plans/"):
			id = plan.field(t, "id").(string)
		case strings.Contains(path, "/jobs/"):
			id = job.field(t, "id").(string)
		case strings.Contains(path, "/archive/"):
			id = ids[2].String()
		}
		for _, role := range dlq.Roles {
			if slices.Contains(role.Permissions(), dlq.Permission(permission)) {
				got := w.callRoute(route, id, string(role))
				require.Equal(t, http.StatusOK, got.status, route+got.body)
				requireHidden(t, got.body, route)
			}
		}
	}
	for _, line := range w.logs.All() {
		encoded, err := json.Marshal(line.ContextMap())
		require.NoError(t, err)
		requireHidden(t, line.Message+string(encoded), "log")
	}

	got := w.call(http.MethodGet, messagePath(ids[0]), bearer("admin"))
	require.Equal(t, true, got.field(t, "masked"))
	require.Subset(t, got.field(t, "masked_paths"), []any{"value.customer.email", "key", "headers.x-user", "error_message", "stack_trace"})
	require.Contains(t, got.body, `"id":12345678901234567890`)
	require.Contains(t, got.field(t, "stack_trace"), "at shop.Orders.charge(Orders.java:12)")
	stored, err := dlqtest.Detail(t.Context(), w.store, ids[0])
	require.NoError(t, err)
	require.Equal(t, hiddenKey, string(stored.Record.Key), "what is sent back is never masked")
}

func TestAGroupWhoseMessagesWereDeletedShowsNothingThatIsHidden(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t))
	id := w.add(1, personal, func(a *dlq.Arrival) {
		a.StackTrace, a.CauseClass = "", "" // so that the class of the group is the class of the error
		a.Fingerprint = (*dlq.Grouping)(nil).Fingerprint(a)
	})[0]
	group := groupsPath + "/" + w.groupOf(id.String())
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, messagePath(id)+"/dead", bearer("admin")).status)
	deleted := w.call(http.MethodDelete, messagePath(id), bearer("admin"))
	require.Less(t, deleted.status, 300, deleted.body)
	got := w.call(http.MethodGet, group, bearer("admin"))
	require.Equal(t, http.StatusOK, got.status, got.body)
	requireHidden(t, got.body, "group")
}

func messagePath(id dlq.ID) string { return "/api/v1/dlq/messages/" + id.String() }

func TestAMessageIsRevealedToOneSenderForAWhile(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t))
	ids := w.add(2, personal)
	path := messagePath(ids[0])
	for _, body := range []string{``, `{}`, `{"reason":" "}`, `{"reason":"x","for":"1h"}`} {
		_, got := w.send(http.MethodPost, path+"/unmask", strings.NewReader(body), bearer("admin"), "Content-Type: application/json")
		requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
	}
	requireHidden(t, w.call(http.MethodGet, path, bearer("admin")).body, "before")
	_, refused := w.send(http.MethodPost, path+"/unmask", strings.NewReader(`{"reason":"x"}`), bearer("operator"), "Content-Type: application/json")
	requireError(t, refused, http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
	requireError(t, w.json(http.MethodPost, "/api/v1/dlq/messages/"+someID+"/unmask", `{"reason":"x"}`, bearer("admin")), http.StatusNotFound, "SYS_DLQ_NOT_FOUND")

	shown := w.json(http.MethodPost, path+"/unmask", `{"reason":"ticket 4711"}`, bearer("admin"))
	require.Equal(t, http.StatusOK, shown.status, shown.body)
	for _, got := range []response{shown, w.call(http.MethodGet, path, bearer("admin"))} {
		require.Equal(t, map[string]any{"email": hiddenEmail}, got.field(t, "payload", "customer"))
		require.NotContains(t, got.body, `"masked`)
		until, err := time.Parse(time.RFC3339, got.field(t, "unmasked_until").(string))
		require.NoError(t, err)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), until, time.Minute)
	}
	requireHidden(t, w.call(http.MethodGet, path, bearer("admin+viewer")).body, "another subject")
	requireHidden(t, w.call(http.MethodGet, path, bearer("viewer")).body, "another subject")
	requireHidden(t, w.call(http.MethodGet, messagePath(ids[1]), bearer("admin")).body, "another message")
	requireHidden(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1", bearer("admin")).body, "lists stay")
	requireHidden(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1/export", bearer("admin")).body, "exports stay")
	var row map[string]any
	for _, o := range w.operations(bearer("admin")) {
		if o["action"] == "dlq:message:unmask" && o["outcome"] == "done" {
			row = o
		}
	}
	require.Equal(t, []any{"admin", "ticket 4711", ids[0].String(), "orders.dlq.v1", "done"}, []any{row["subject"], row["reason"], row["target_id"], row["topic"], row["outcome"]})
	require.Contains(t, row["detail"].(map[string]any)["parts"], "value.customer.email")

	_, err := w.pool.Exec(t.Context(), "UPDATE dlq.dlq_audit SET at = at - interval '11 minutes'")
	if err == nil { // the owner of the table may change it
		requireHidden(t, w.call(http.MethodGet, path, bearer("admin")).body, "after ten minutes")
	}
}

func TestAnArchivedMessageIsRevealedToo(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t))
	id := w.add(1, personal)[0]
	require.Equal(t, http.StatusOK, w.call(http.MethodPost, messagePath(id)+"/dead", bearer("admin")).status)
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	archived := "/api/v1/archive/messages/" + id.String()
	requireHidden(t, w.call(http.MethodGet, archived, bearer("admin")).body, "before")
	require.Contains(t, w.json(http.MethodPost, messagePath(id)+"/unmask", `{"reason":"x"}`, bearer("admin")).body, hiddenEmail)
	require.Contains(t, w.call(http.MethodGet, archived, bearer("admin")).body, hiddenEmail)
}

func TestAMessageWithHiddenPartsIsNotEdited(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t), func(o *api.Options) {
		targets, err := dlq.NewTargets(o.Topics, nil, []string{"*.retry"}, nil)
		require.NoError(t, err)
		o.Targets = targets
	})
	ids := w.add(3, personal)
	plain := w.add(1, func(a *dlq.Arrival) { a.Record.Key = nil })[0]
	for _, edit := range []string{`{"value":{"a":1}}`, `{"key":"***"}`, `{"headers":{}}`} {
		for token, text := range map[string]string{"operator": "only somebody with the permission", "admin": "/unmask with a reason"} {
			message, _ := requireError(t, w.json(http.MethodPost, retryPath(ids[0]), edit, bearer(token)), http.StatusForbidden, "SYS_DLQ_MASKED")
			require.Contains(t, message, text)
			require.Contains(t, message, "value.customer.email")
		}
	}
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryPath(plain), `{"value":{"a":1}}`, bearer("operator")).status, "nothing is hidden")
	require.Equal(t, http.StatusOK, w.json(http.MethodPost, retryPath(ids[1]), `{"reason":"as it is"}`, bearer("operator")).status)
	moved := w.json(http.MethodPost, retryPath(ids[2]), `{"target_topic":"orders.retry"}`, bearer("operator"))
	require.Equal(t, http.StatusOK, moved.status, moved.body)
	id, err := dlq.ParseID(moved.field(t, "id").(string))
	require.NoError(t, err)
	sent, err := dlqtest.Detail(t.Context(), w.store, id)
	require.NoError(t, err)
	require.Contains(t, string(sent.Record.Value), hiddenEmail, "an unchanged copy is not masked")
	require.Equal(t, hiddenKey, string(sent.Record.Key))

	require.Equal(t, http.StatusOK, w.json(http.MethodPost, messagePath(ids[0])+"/unmask", `{"reason":"x"}`, bearer("admin")).status)
	edited := w.json(http.MethodPost, retryPath(ids[0]), `{"value":{"a":1}}`, bearer("admin"))
	require.Equal(t, http.StatusOK, edited.status, edited.body)
}

func TestFiltersThatCompareHiddenPartsNeedThePermission(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t))
	w.add(1, personal)
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic, a.Origin.Topic = "shop.dlq", "orders.v1" })
	w.add(1, func(a *dlq.Arrival) { a.DLQTopic, a.Origin.Topic = "stock.dlq", "stock" })
	const list = "/api/v1/dlq/orders.dlq.v1"
	for _, query := range []string{
		"error=alice", "key=" + hiddenKey, "header.x-user=a", "header.X-User=a", "payload.customer.email=a", "not.error=a", "not.key=a", "not.payload.customer.email=a",
		"header.kafka_dlt-exception-message=a",
	} {
		for _, path := range []string{list + "?", list + "/export?", "/api/v1/archive/messages?topic=orders.dlq.v1&", "/api/v1/dlq/orders.v1?", "/api/v1/dlq/shop.dlq?"} {
			message, fields := requireError(t, w.call(http.MethodGet, path+query, bearer("operator")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
			require.Contains(t, message, "dlq:message:unmask")
			require.NotEmpty(t, fields)
			require.Equal(t, http.StatusOK, w.call(http.MethodGet, path+query, bearer("admin")).status)
			if !strings.Contains(path, "/orders.v1") && !strings.Contains(path, "shop") {
				require.Equal(t, http.StatusOK, w.call(http.MethodGet, path+query, bearer("operator/stock.*+admin/orders.*")).status)
			}
		}
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, "/api/v1/dlq/stock.dlq?"+query, bearer("operator")).status, "no rule names the topic")
	}
	for _, query := range []string{"", "status=PENDING", "payload.id=1", "header.tenant=acme", "class=X"} {
		require.Equal(t, http.StatusOK, w.call(http.MethodGet, list+"?"+query, bearer("viewer")).status)
	}
	for _, filter := range []string{`"error":"a"`, `"key":"a"`, `"payload":{"customer.email":"a"}`, `"not":{"key":"a"}`, `"headers":{"x-user":"a"}`} {
		for _, path := range []string{plansPath, jobsPath} {
			body := `{"kind":"retry","topic":"orders.dlq.v1",` + filter + `}`
			requireError(t, w.json(http.MethodPost, path, body, bearer("operator")), http.StatusForbidden, "SYS_DLQ_FORBIDDEN")
			got := w.json(http.MethodPost, path, body, bearer("admin"))
			require.Less(t, got.status, 300, got.body)
		}
	}
}

func TestAPlanShowsItsFilterToThoseWhoMayUseItOnly(t *testing.T) {
	t.Parallel()
	w := startWithTokens(t, masked(t))
	w.add(1, personal)
	for _, filter := range []string{
		`"key":"` + hiddenKey + `"`, `"payload":{"customer.email":"` + hiddenEmail + `"}`, `"headers":{"x-user":"` + hiddenUser + `"}`, `"not":{"key":"` + hiddenKey + `"}`,
	} {
		made := w.json(http.MethodPost, plansPath, `{"kind":"dead","topic":"orders.dlq.v1",`+filter+`}`, bearer("admin"))
		require.Equal(t, http.StatusOK, made.status, made.body)
		var plan struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(made.body), &plan))
		path := plansPath + "/" + plan.ID
		for _, role := range []string{"viewer", "operator"} {
			read := w.call(http.MethodGet, path, bearer(role))
			require.Equal(t, http.StatusOK, read.status, read.body)
			requireHidden(t, read.body, role)
		}
		require.Regexp(t, "customer-Xr8sLt3n|alice.meyer|user-Yt9uMv4o", w.call(http.MethodGet, path, bearer("admin")).body, "the author may use the filter")
	}
}

func TestARecordThatAHiddenMessagePointsToIsHiddenToo(t *testing.T) {
	t.Parallel()
	a := dlq.Arrival{}
	personal(&a)
	w := start(t, masked(t), func(o *api.Options) { o.Pointers = pointers{1: a.Record} })
	id := w.add(1, func(a *dlq.Arrival) {
		a.Origin.Family, a.Origin.Offset, a.Record.Key, a.Record.Value, a.ErrorMessage = dlq.FamilyShareGroup, new(int64(1)), nil, nil, "no "+hiddenEmail
	})[0]
	got := w.call(http.MethodGet, messagePath(id))
	requireHidden(t, got.body, "pointed")
	require.Equal(t, "***", got.field(t, "error_message"))
	require.Contains(t, got.field(t, "masked_paths"), "value.customer.email")
	require.NotNil(t, got.field(t, "pointed", "value"))
}

func TestWhatTheRegistryDecodesLaterIsHidden(t *testing.T) {
	t.Parallel()
	w := start(t, masked(t, dlq.MaskRule{Topics: []string{"*"}, Value: []string{"a"}, Key: []string{"a"}, As: "mask"}), func(o *api.Options) { o.Decoder = decoder{} })
	id := w.add(1, func(a *dlq.Arrival) {
		a.Record.Value, a.Record.Key, a.Payload = []byte{0, 0, 0, 0, 7, 1}, []byte{0, 0, 0, 0, 7, 2}, nil
	})[0]
	got := w.call(http.MethodGet, messagePath(id))
	require.Equal(t, map[string]any{"a": "***"}, got.field(t, "payload"))
	require.Equal(t, map[string]any{"a": "***"}, got.field(t, "decoded_key", "payload"))
	require.Equal(t, "Kioq", got.field(t, "value", "base64"))
	require.Equal(t, "Kioq", got.field(t, "key", "base64"))
	require.Equal(t, 7.0, got.field(t, "schema", "id"))
}

func TestAListHidesTheErrorsOfMessagesThatAreTooLargeToRead(t *testing.T) {
	t.Parallel()
	w := start(t, masked(t))
	w.add(1, func(a *dlq.Arrival) {
		a.Record.Value, a.ErrorMessage = []byte(`{"customer":{"email":"`+hiddenEmail+`"},"x":"`+strings.Repeat("x", 2<<20)+`"}`), "no "+hiddenEmail
		a.Payload = a.Record.Value
	})
	got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1")
	requireHidden(t, got.body, "list")
	require.Contains(t, got.body, `"error_message":"***"`)
	requireHidden(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1/export").body, "export")
}

func TestWithoutADatabaseMessagesAreHiddenAndNotRevealed(t *testing.T) {
	t.Parallel()
	w := startWithoutDatabase(t, masked(t))
	id := w.add(1, personal)[0]
	requireHidden(t, w.call(http.MethodGet, messagePath(id), bearer("admin")).body, "message")
	requireHidden(t, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1", bearer("admin")).body, "list")
	requireError(t, w.json(http.MethodPost, messagePath(id)+"/unmask", `{"reason":"x"}`, bearer("admin")), http.StatusNotImplemented, "SYS_DLQ_NEEDS_DATABASE")
}
