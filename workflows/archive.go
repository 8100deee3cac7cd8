package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"dlqmanager/activities"
)

// ArchiveResult has the counts of a run.
type ArchiveResult struct {
	Archived int64 `json:"archived"`
	Purged   int64 `json:"purged"`
}

// ArchiveMessages moves old RESOLVED and DEAD messages to the archive table, and deletes
// old archived messages. A Temporal Schedule starts ArchiveMessages, without input: the worker's
// configuration says which messages are old.
func ArchiveMessages(ctx workflow.Context) (ArchiveResult, error) {
	var (
		steps  *activities.Archive
		result ArchiveResult
	)
	workflow.SetCurrentDetails(ctx, "Archiving old messages.")
	err := workflow.ExecuteActivity(archiveOptions(ctx, "move to the archive"), steps.MoveToArchive).Get(ctx, &result.Archived)
	if err != nil {
		return result, err
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Archived %d messages. Purging the archive.", result.Archived))
	err = workflow.ExecuteActivity(archiveOptions(ctx, "purge the archive"), steps.Purge).Get(ctx, &result.Purged)
	if err != nil {
		return result, err
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("Archived %d and purged %d messages.", result.Archived, result.Purged))
	return result, nil
}
