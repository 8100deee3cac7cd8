package api_test

import (
	"context"
	"time"

	"dlqmanager/api"
	"dlqmanager/dlq"
	inmemory "dlqmanager/store/memory"
)

// memory is the store of the tests: the API's methods, and those of ingest and
// workflows.
type memory interface {
	api.Store
	StoreArrivals(context.Context, []dlq.Arrival) (int, error)
	Claim(context.Context, dlq.ID, dlq.Owner) (dlq.Claim, error)
	Envelope(context.Context, dlq.ID, dlq.Owner) (dlq.Envelope, error)
	Finalize(context.Context, dlq.Owner, dlq.Outcome) (dlq.Message, bool, error)
	CountBulk(context.Context, dlq.ID) (dlq.BulkRetry, error)
	OpenLane(context.Context, dlq.ID, int, dlq.LaneAttempt) (dlq.Lane, error)
	ClaimPage(context.Context, dlq.Lane, bool) (dlq.LaneClaim, error)
	FinalizePage(context.Context, dlq.Lane, []dlq.PageOutcome) (dlq.PageResult, error)
	PauseBulk(context.Context, dlq.ID, string) (dlq.BulkRetry, error)
	ResumeBulk(context.Context, dlq.ID) (dlq.BulkRetry, error)
	SetBulkRate(context.Context, dlq.ID, int) error
	ArchiveBatch(ctx context.Context, olderThan time.Duration, limit int) (int64, error)
	CountAction(context.Context, dlq.ID) (dlq.BulkAction, error)
	Act(context.Context, dlq.BulkAction, int) (dlq.ActionStep, error)
}

func newMemory(topics *dlq.Topics) memory { return inmemory.New(topics) }
