package postgres

import (
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// statementsOfPages are the statements of page_sql.go for TestEveryStatement. claimed are the parameters of statements
// that list messages.
func statementsOfPages(lane *dlq.Lane, first []dlq.PageEnvelope, claimed pgx.NamedArgs, search, key *dlq.ListQuery) map[string][]explained {
	const (
		jobs     = "dlq_jobs_pkey"
		lanes    = "dlq_job_lanes_pkey"
		bodies   = "dlq_message_bodies_pkey"
		messages = "dlq_messages_pkey"
		queues   = "dlq_job_queues_pkey"
		waiting  = "dlq_job_waiting_pkey"
	)
	named := endArgs(lane.Owner, dlqtest.Outcomes(first, dlq.ResultDelivered))
	named["unnamed"] = [][16]byte{first[0].ID}
	candidates, single := candidatesOf(lane, first), candidatesOf(lane, first[:1])
	candidates["places"] = []pgtype.TID{{Valid: true}}
	candidates["sorted_ids"], candidates["is_locked"] = candidates["ids"], true
	maps.Copy(single, pgx.NamedArgs{"lane": lane.Number, "results": []string{"failed"}, "categories": []string{""}, "errors": []string{""},
		"topics": []string{"t"}, "partitions": []int32{-1}, "closed": []bool{false}, "tries": []int{0}, "waits": []float64{1}, "reasons": []string{""},
		"queue_keys": []int32{17}, "queue": int64(0), "left_queues": []int64{0}, "wait": 1.0, "cursor": 0, "page": [][16]byte{first[0].ID}, "waiting": 0, "retried": 0, "failed": 0, "dead": 0, "skipped": 0,
		"pages": 2, "known_pages": 1, "step_limit": nil, "next_at": time.Now()})
	of := func(args pgx.NamedArgs, uses string) []explained {
		return []explained{{args: args, after: lanePlanSQL, uses: uses}}
	}
	listed := func(byTopic string) []explained {
		const scope = jobs + " " + lanes + " " + bodies
		return []explained{
			{args: claimed, after: lanePlanSQL, uses: scope + " " + byTopic},
			{args: claimed, after: lanePlanSQL, filter: &search.Filter, uses: scope + " " + byTopic},
			{args: claimed, after: lanePlanSQL, filter: &key.Filter, uses: scope + " " + messages + " idx_dlq_message_bodies_key"},
			{args: claimed, after: lanePlanSQL, filter: &dlq.Filter{IDs: []dlq.ID{first[0].ID}}, uses: scope + " " + messages},
		}
	}
	return map[string][]explained{
		"endPageSQL":            of(endArgs(lane.Owner, dlqtest.Outcomes(first[50:], dlq.ResultFailed)), messages+" dlq_retry_attempts_pkey uq_dlq_targets"),
		"nameTargetsSQL":        of(named, messages+" uq_dlq_targets"),
		"lockLaneSQL":           of(claimed, lanes),
		"lockLimitsSQL":         of(claimed, jobs),
		"jobOfLaneSQL":          of(claimed, jobs+" idx_dlq_job_queues_due idx_dlq_jobs_live"),
		"closedTargetsSQL":      of(claimed, "idx_dlq_job_queues_closed"),
		"nextQueueSQL":          of(claimed, waiting+" idx_dlq_job_queues_due"),
		"listNextSQL":           listed("idx_dlq_messages_dlq_topic_pending"),
		"listNextOfOriginalSQL": listed("idx_dlq_messages_original_topic_pending"),
		"scanEndSQL":            of(claimed, lanes+" idx_dlq_messages_dlq_topic_pending idx_dlq_messages_original_topic_pending"),
		"tryQueueSQL":           of(claimed, queues),
		"listQueueSQL":          of(claimed, waiting+" "+jobs+" "+bodies+" "+messages+" idx_dlq_job_queues_due"),
		"lockListedSQL":         of(candidates, jobs+" "+messages),
		"earlierWaitingSQL":     of(candidates, queues+" idx_dlq_job_waiting_key"),
		"retriedSinglySQL":      of(candidates, "idx_dlq_messages_retrying"),
		"retriedByJobsSQL":      of(candidates, jobs+" "+lanes+" "+messages+" idx_dlq_jobs_live"),
		"failedKeysSQL":         of(candidates, bodies+" idx_dlq_job_blocked_keys"),
		"claimListedSQL":        of(candidates, jobs),
		"noSingleRetrySQL":      of(candidates, "idx_dlq_messages_retrying"),
		"recordsSQL":            of(candidates, bodies+" "+messages),
		"noteAttemptsSQL":       of(single, messages),
		"noteExhaustedSQL":      of(single, messages),
		"noteFailedKeysSQL":     of(single, bodies),
		"noteQueuesSQL":         of(single, ""),
		"leaveQueueSQL":         of(single, waiting),
		"waitSQL":               of(single, "uq_dlq_job_queues"),
		"deleteEmptyQueuesSQL":  of(single, queues+" "+waiting),
		"postponeQueuesSQL":     of(single, queues),
		"untriedQueueSQL":       of(single, queues),
		"openTargetsSQL":        of(single, "idx_dlq_job_queues_closed"),
		"saveLaneSQL":           of(single, lanes),
		"chargeJobSQL":          of(single, jobs),
		"ownedSQL":              of(claimed, lanes+" "+bodies+" "+messages),
	}
}
