package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
)

func TestGetChainHasTheDocumentedBodyByteForByte(t *testing.T) {
	t.Parallel()
	root := documented(t)
	retried := time.Date(2026, 2, 20, 10, 31, 0, 0, time.UTC)
	partition, offset := int32(3), int64(1311)
	root.Status, root.Resolution, root.RetryCount, root.LastRetryAt, root.UpdatedAt = dlq.StatusResolved, dlq.ResolutionDelivered, 2, &retried, retried.Add(time.Second)
	root.Owner, root.TargetPartition, root.TargetOffset = dlq.Owner{WorkflowID: "w", Token: "r2"}, &partition, &offset
	back := documented(t)
	back.ID, back.PreviousID, back.RetryCount = parseID(t, "0199c0de-7000-7000-8000-000000000009"), root.ID, 2
	chain := dlq.Chain{Truncated: true, Hops: []dlq.Hop{
		{Message: root, Source: dlq.Source{Partition: 1, Offset: 42}, Archived: true, Attempts: []dlq.Attempt{{
			Number: 1, Owner: dlq.Owner{WorkflowID: "w", Token: "r1"}, StartedAt: retried.Add(-time.Minute), EndedAt: retried.Add(-time.Second),
			Result: dlq.ResultFailed, Category: dlq.CategoryTransient, Error: "no leader",
		}}},
		{Message: back, Source: dlq.Source{Partition: 1, Offset: 57}},
	}}
	got := start(t, with(&fixed{chain: chain, verdict: dlq.Verdict{Verified: dlq.VerifiedNo, Reason: dlq.ReasonCameBack}, operations: map[string]dlq.ID{"r2": back.ID}})).call(http.MethodGet, "/api/v1/dlq/messages/"+someID+"/chain")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, `{"id":"550e8400-e29b-41d4-a716-446655440000","truncated":true,"hops":[`+
		`{"id":"550e8400-e29b-41d4-a716-446655440000","previous_id":null,"status":"RESOLVED","resolution":"delivered",`+
		`"original_topic":"orders.events.v1","dlq_topic":"orders.events.dlq.v1","source":{"partition":1,"offset":42},`+
		`"created_at":"2026-02-20T10:30:00.000+00:00","retry_count":2,"max_retries":3,"archived":true,"edited_from":null,"replaced_by":null,"attempts":[`+
		`{"number":1,"started_at":"2026-02-20T10:30:00.000+00:00","ended_at":"2026-02-20T10:30:59.000+00:00",`+
		`"workflow":{"workflow_id":"w","run_id":"r1"},"operation_id":null,"target":{"topic":"orders.events.v1","partition":null,"offset":null},`+
		`"outcome":"failed","category":"transient","error":"no leader"},`+
		`{"number":2,"started_at":"2026-02-20T10:31:00.000+00:00","ended_at":"2026-02-20T10:31:01.000+00:00",`+
		`"workflow":{"workflow_id":"w","run_id":"r2"},"operation_id":"0199c0de-7000-7000-8000-000000000009","target":{"topic":"orders.events.v1","partition":3,"offset":1311},`+
		`"outcome":"delivered","category":null,"error":null}],"verified":"no","verified_reason":"came_back","archive_at":null,"purge_at":null},`+
		`{"id":"0199c0de-7000-7000-8000-000000000009","previous_id":"550e8400-e29b-41d4-a716-446655440000","status":"PENDING","resolution":null,`+
		`"original_topic":"orders.events.v1","dlq_topic":"orders.events.dlq.v1","source":{"partition":1,"offset":57},`+
		`"created_at":"2026-02-20T10:30:00.000+00:00","retry_count":2,"max_retries":3,"archived":false,"edited_from":null,"replaced_by":null,"attempts":[],"verified":null,"verified_reason":null,"archive_at":null,"purge_at":null}]}`, got.body)
}

func TestGetChainFindsAnArchivedMessageAndNoUnknownOne(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.add(1, func(a *dlq.Arrival) { a.RetryCount = a.MaxRetries })[0]
	require.Equal(t, false, w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()+"/chain").field(t, "truncated"))
	_, err := w.store.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 10)
	require.NoError(t, err)
	got := w.call(http.MethodGet, "/api/v1/dlq/messages/"+id.String()+"/chain")
	require.Equal(t, http.StatusOK, got.status)
	require.Contains(t, got.body, `"resolution":"exhausted"`)
	require.Contains(t, got.body, `"archived":true`)
	got = w.call(http.MethodGet, "/api/v1/dlq/messages/"+someID+"/chain")
	message, _ := requireError(t, got, http.StatusNotFound, "SYS_DLQ_NOT_FOUND")
	require.Equal(t, "dlq message not found: "+someID, message)
	requireError(t, w.call(http.MethodGet, "/api/v1/dlq/messages/x/chain"), http.StatusBadRequest, "SYS_DLQ_VALIDATION_ERROR")
}
