package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

func TestListsAndBulkRetriesShowWhatIsVerified(t *testing.T) {
	t.Parallel()
	w := start(t)
	store := w.store
	var err error
	store.VerifyGroups, err = dlq.NewVerifyGroups(map[string]string{"orders.*": "shipping"})
	require.NoError(t, err)
	ids := w.add(4)
	bulk, err := store.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq.v1", 1))
	require.NoError(t, err)
	lane, err := store.OpenLane(t.Context(), bulk.ID, 0, dlq.LaneAttempt{})
	require.NoError(t, err)
	claim, _, err := store.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	outcomes := dlqtest.Outcomes(claim.Page[:3], dlq.ResultDelivered)
	for i, to := range []dlq.Acknowledgement{{Topic: "orders.v1", TopicID: dlq.ID{1}, Partition: 2, Offset: 7}, {Topic: "orders.v1", TopicID: dlq.ID{1}, Partition: 2, Offset: 8},
		{Topic: "http:shop", Partition: dlq.AnyPartition}} {
		outcomes[i].Acknowledgement = &to
	}
	_, err = store.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)
	lease, _, err := store.LeaseWatermarks(t.Context(), dlq.ID{1}, time.Minute)
	require.NoError(t, err)
	scope, err := store.WatermarkScope(t.Context())
	require.NoError(t, err)
	at := time.Now()
	require.NoError(t, store.PublishWatermarks(t.Context(), lease, &dlq.Watermarks{At: at, Groups: map[string]string{"shipping": ""},
		Targets:   map[int32]time.Time{scope.Targets[0].ID: at},
		Committed: []dlq.Watermark{{Group: "shipping", Target: scope.Targets[0].ID, Partition: 2, Offset: 8}}}))

	for value, id := range map[string]dlq.ID{"yes": ids[0], "no": ids[1], "unknown": ids[2]} {
		got := w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?verified="+value)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, `{"messages":[{"id":"`+id.String()+`"`)
		require.Contains(t, got.body, `"verified":"`+value+`"`)
		require.Contains(t, got.body, `"total_count":1`)
	}
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+ids[2].String())
	require.Contains(t, got.body, `"target":{"topic":"http:shop","partition":null,"offset":null}`)
	require.Contains(t, got.body, `"verified":"unknown","verified_reason":"http_target"`)

	path := "/api/v1/jobs/" + bulk.ID.String()
	require.Contains(t, w.call(http.MethodGet, path+"?verified=true").body,
		`"verified":{"yes":1,"no":1,"unknown":1,"came_back":0,"unknown_reasons":{"http_target":1},"partial":false}`)
	require.NotContains(t, w.call(http.MethodGet, path).body, `"verified"`)
	require.Equal(t, http.StatusBadRequest, w.call(http.MethodGet, path+"?verified=maybe").status)
	require.Equal(t, http.StatusBadRequest, w.call(http.MethodGet, "/api/v1/dlq/orders.dlq.v1?verified=maybe").status)
	require.Equal(t, http.StatusBadRequest, w.json(http.MethodPost, "/api/v1/jobs", `{"kind":"retry","topic":"orders.dlq.v1","verified":"yes"}`).status)
}

func TestARampWaitsForVerificationOfFewMessages(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.add(1)
	for ramp, status := range map[string]int{
		`{"steps":[1,10],"confirm":"verified"}`:        http.StatusOK,
		`{"steps":[1,10],"confirm":"hope"}`:            http.StatusBadRequest,
		`{"steps":[10000,10000],"confirm":"verified"}`: http.StatusBadRequest,
	} {
		got := w.json(http.MethodPost, "/api/v1/jobs", `{"kind":"retry","topic":"orders.dlq.v1","ramp":`+ramp+`}`)
		require.Equal(t, status, got.status, got.body)
	}
}

func TestAWordThatIsNotKnownIsAnsweredWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	w := start(t)
	for body, want := range map[string]string{
		`{"kind":"retry","topic":"orders.dlq.v1","ramp":{"steps":[1],"confirm":"hope"}}`: "must be verified",
		`{"kind":"retry","topic":"orders.dlq.v1","order":"size"}`:                        "must be key or none",
		`{"kind":"send","topic":"orders.dlq.v1"}`:                                        "must be retry, revive, dead, delete or restore",
	} {
		got := w.json(http.MethodPost, "/api/v1/plans", body)
		requireError(t, got, http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
		require.Contains(t, got.body, `"message":"`+want+`"`)
	}
}
