package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
)

// ArchiveInput is the input of ArchiveMessages.
type ArchiveInput struct {
	// Retention is how long RESOLVED and DEAD messages stay in the main table.
	Retention time.Duration `json:"retention_ns"`
	// PurgeAfter is how long they stay in both tables together. Both times count from
	// the message's last change.
	PurgeAfter time.Duration `json:"purge_after_ns"`
	BatchSize  int           `json:"batch_size"`
}

// ArchiveResult counts what one run did.
type ArchiveResult struct {
	Archived int64 `json:"archived"`
	Purged   int64 `json:"purged"`
}

// ArchiveMessages moves old RESOLVED and DEAD messages to the archive table, and deletes
// archived messages that are older than PurgeAfter. A Temporal Schedule starts it.
func ArchiveMessages(ctx workflow.Context, in ArchiveInput) (ArchiveResult, error) {
	var (
		steps  *activities.Archive
		result ArchiveResult
	)
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Archiving messages that ended more than %s ago.", days(in.Retention)))
	err := workflow.ExecuteActivity(archiveOptions(ctx, "move to the archive"), steps.MoveToArchive,
		activities.ArchiveInput{OlderThan: in.Retention, BatchSize: in.BatchSize}).Get(ctx, &result.Archived)
	if err != nil {
		return result, err
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Archived %d messages. Purging messages that ended more than %s ago.",
		result.Archived, days(in.PurgeAfter)))
	err = workflow.ExecuteActivity(archiveOptions(ctx, "purge the archive"), steps.Purge,
		activities.ArchiveInput{OlderThan: in.PurgeAfter, BatchSize: in.BatchSize}).Get(ctx, &result.Purged)
	if err != nil {
		return result, err
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Archived %d and purged %d messages.", result.Archived, result.Purged))
	return result, nil
}

func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}
