package postgres

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dlqtest"
)

// explained is a statement with values for its parameters.
type explained struct {
	args pgx.NamedArgs
	// after is the first statement of the transaction.
	after string
	// filter and query put a filter or the order of a list into the statement.
	filter *dlq.Filter
	query  *dlq.ListQuery
	search *dlq.ListQuery // in searchSQL
	// act is the job whose filter is put into actSQL.
	act *dlq.Job
	// operations are put into operationsSQL.
	operations *dlq.OperationQuery
	// jobs are put into jobsSQL.
	jobs *dlq.JobQuery
	// groups are put into a statement on groups.
	groups *dlq.GroupQuery
	// series is put into seriesSQL.
	series *dlq.SeriesQuery
	// uses are the indexes of a custom plan and of a generic plan, sorted by name. If two plans
	// are equally good, there are two lists.
	uses string
}

// TestEveryStatement runs EXPLAIN for every statement on a filled database, and checks the indexes of
// its plan. So the text of every statement is valid as it is in the source.
func TestEveryStatement(t *testing.T) {
	t.Parallel()
	pool := filled(t)
	s := New(pool, dlqtest.Topics(t))
	lane := startJob(t, s, dlq.Filter{})
	first, _, err := s.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	id := first.Page[0].ID
	_, err = s.FinalizePage(t.Context(), lane, dlqtest.Outcomes(first.Page[:50], dlq.ResultFailed))
	require.NoError(t, err)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_idempotency_keys (key, request, message_ids, used_at)
			SELECT uuid_send(gen_random_uuid()), '', '{}', now() - n * interval '1 minute' FROM generate_series(1, 20000) AS n`,
		`INSERT INTO dlq.dlq_edits (original_id, copy_id) SELECT gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 2000)`,
		`UPDATE dlq.dlq_messages SET updated_at = now() - interval '1 year' WHERE status = 'DEAD' AND seq % 100 = 0`,
		`INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, state, lanes, upper_bound, snapshot_at, ended_at)
			SELECT gen_random_uuid(), 'w', 'topic-' || n, 'COMPLETED', 4, 0, now(), now() FROM generate_series(1, 2000) AS n`,
		`INSERT INTO dlq.dlq_job_lanes (job_id, lane)
			SELECT id, n FROM dlq.dlq_jobs, generate_series(0, 3) AS n WHERE state = 'COMPLETED'`,
		`INSERT INTO dlq.dlq_retry_attempts (message_id, number, workflow_id, owner_token, started_at, result, category, error)
			SELECT id, 1, 'w', 'job-' || seq % 1000, now(), 'failed', '', '' FROM dlq.dlq_messages WHERE seq <= 20000`,
		`INSERT INTO dlq.dlq_exhausted_outbox (dlq_topic, seq, message_id, retry_count, max_retries, error)
			SELECT dlq_topic, seq, id, 3, 3, 'boom' FROM dlq.dlq_messages WHERE status = 'DEAD'`,
		`INSERT INTO dlq.dlq_job_queues (job_id, lane, topic, partition, key_hash, closed, tries, due_at, reason, category)
			SELECT id, n % 5 - 1, 't', CASE WHEN n % 5 = 0 THEN n ELSE -1 END, CASE WHEN n % 5 = 0 THEN -1 ELSE n END, n % 5 = 0, 1, now() + interval '1 hour', '', ''
			FROM dlq.dlq_jobs, generate_series(0, 9) AS n`,
		`INSERT INTO dlq.dlq_job_waiting (job_id, queue_id, lane, seq, message_id, key_hash)
			SELECT job_id, id, greatest(lane, 0), n, gen_random_uuid(), greatest(key_hash, 0) FROM dlq.dlq_job_queues, generate_series(1, 3) AS n`,
		`INSERT INTO dlq.dlq_ingest_offsets (topic_id, partition, topic, next_offset, leader_epoch)
			SELECT gen_random_uuid(), n, 't', n, 1 FROM generate_series(1, 20000) AS n`,
		`INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, spec, upper_bound, snapshot_at, state, ended_at)
			SELECT gen_random_uuid(), 'w', 't', '{}', 0, now(), 'COMPLETED', now() FROM generate_series(1, 2000) AS n`,
		`INSERT INTO dlq.dlq_job_samples SELECT id, n, now() - n * interval '5 seconds', n, 0, 0, 0, 0 FROM dlq.dlq_jobs, generate_series(1, 10) AS n`,
		`INSERT INTO dlq.dlq_plans (id, spec, upper_bound, snapshot_at, effect, summary, expires_at)
			SELECT gen_random_uuid(), '{}', 0, now(), '{}', '{}', now() - n * interval '1 minute' FROM generate_series(1, 5000) AS n`,
		`INSERT INTO dlq.dlq_audit (id, at, subject, method, address, action, topic, target, target_id, reason, request_id, workflow_id, outcome)
			SELECT gen_random_uuid(), now() - n * interval '1 minute', 's-' || n % 1000, 'token', '', 'dlq:message:dead', 't-' || n % 1000, 'message', gen_random_uuid(), '', '', '', 'done'
			FROM generate_series(1, 20000) AS n`,
		`INSERT INTO dlq.dlq_groups (id, version, scope, rule, class, frame, message, dlq_topic, first_seen)
			SELECT gen_random_uuid(), 1, 'pricing', 'frame', 'c', 'f', '', 'topic-' || n % 100, now() - n * interval '1 minute' FROM generate_series(1, 10000) AS n`,
		`INSERT INTO dlq.dlq_group_count_sums (group_id, dlq_topic, original_topic, status, messages)
			SELECT id, dlq_topic, 'orders', s, 1 FROM dlq.dlq_groups, unnest('{PENDING,DEAD,RESOLVED}'::text[]) AS s`,
		`INSERT INTO dlq.dlq_group_arrivals (group_id, arrived, last_seen) SELECT id, 3, first_seen FROM dlq.dlq_groups`,
		`INSERT INTO dlq.dlq_arrivals (group_id, step, at, dlq_topic, original_topic, arrived)
			SELECT id, step, date_trunc(step, now()) - n * ('1 ' || step)::interval, 't-' || n % 10, 'o-' || n % 10, 1
			FROM (SELECT id FROM dlq.dlq_groups LIMIT 2000) AS g, unnest('{minute,hour}'::text[]) AS step, generate_series(1, 60) AS n`,
		`INSERT INTO dlq.dlq_arrivals (group_id, step, at, dlq_topic, original_topic, arrived)
			SELECT '00000000-0000-0000-0000-000000000000', step, date_trunc(step, now()) - n * ('1 ' || step)::interval, 't-' || t, 'o-' || t, 1
			FROM generate_series(1, 20) AS t, unnest('{minute,hour}'::text[]) AS step, generate_series(1, 700) AS n`,
		`INSERT INTO dlq.dlq_group_signatures (group_id, bits) SELECT id, 0::bit(8192) FROM dlq.dlq_groups`,
		`INSERT INTO dlq.dlq_group_fixes (group_id, topic, partition, end_offset) SELECT id, 't', n, 0 FROM dlq.dlq_groups, generate_series(1, 3) AS n`,
		`INSERT INTO dlq.dlq_targets (topic, topic_id) SELECT 't-' || n, gen_random_uuid() FROM generate_series(1, 20000) AS n`,
		`INSERT INTO dlq.dlq_watermark_groups (consumer_group, error) SELECT 'g-' || n, '' FROM generate_series(1, 20000) AS n`,
		`INSERT INTO dlq.dlq_watermarks (target_id, consumer_group, partition, committed_offset) SELECT n, 'g-' || n, 0, 1 FROM generate_series(1, 20000) AS n`,
		`INSERT INTO dlq.dlq_job_blocked_keys (job_id, key_hash, topic, key) SELECT id, n, 't', 'k' FROM dlq.dlq_jobs, generate_series(1, 10) AS n`,
	} {
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	action, err := s.CreateJob(t.Context(), nil, dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "orders.dlq"}))
	require.NoError(t, err)
	_, err = s.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, time.Hour, planRows)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)

	yes := true
	list := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq"}, PageSize: 20}
	granted := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Within: "^(orders.*)$"}, PageSize: 20}
	grantedArgs := listArgs(granted)
	grantedArgs["granted"] = []string{"orders.dlq"}
	oldest := &dlq.ListQuery{Filter: list.Filter, PageSize: 20, OldestFirst: true}
	search := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", ErrorContains: "oom"}, PageSize: 20}
	key := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Key: []byte("20")}, PageSize: 20}
	ofGroup := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Group: id}, PageSize: 20}
	trace := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", TraceID: "t"}, PageSize: 20}
	origin := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", OriginOffset: new(int64), OriginPartition: new(int32)}, PageSize: 20}
	suspicious := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Suspicious: &yes}, PageSize: 20}
	class := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Class: "Timeout"}, PageSize: 20}
	records := &dlq.ListQuery{Filter: dlq.Filter{Topic: "orders.dlq", Headers: map[string]string{"a": "b"}, Payload: map[string]string{"a": "b"}}, PageSize: 20}
	searchArgs, _ := searchOf(records, nil)
	searchArgs["look"] = 2000
	classArgs := listArgs(class)
	classArgs["groups"] = [][16]byte{id}
	newest, ranked := &dlq.GroupQuery{}, &dlq.GroupQuery{Sort: dlq.GroupsByPending}
	group := pgx.NamedArgs{"id": uuid(id), "ids": [][16]byte{id}, "groups": [][16]byte{id}, "messages": [][16]byte{id}, "reason": "", "all_payloads": true,
		"within": "", "topic": "", "state": "", "sort": "pending", "limit": 51, "after_rank": nil, "after_id": nil, "operation": nil,
		"owner": nil, "ticket": nil, "note": nil, "until": nil, "count": nil, "rate": nil, "at": time.Now(),
		"topics": []string{"t"}, "partitions": []int32{0}, "end_offsets": []int64{1}}
	created1 := maps.Clone(group)
	maps.Copy(created1, pgx.NamedArgs{"versions": []int32{1}, "scopes": []string{"s"}, "rules": []string{"frame"}, "classes": []string{"c"},
		"frames": []string{"f"}, "messages": []string{""}, "dlq_topics": []string{"topic-1"}, "max_groups": 10})
	change, held := maps.Clone(group), pgx.NamedArgs{"until": "", "count": "", "rate": ""}
	change["state"] = "held"
	job := pgx.NamedArgs{"id": uuid(lane.Job), "token": lane.Owner.Token, "workflow_id": lane.Owner.WorkflowID,
		"reason": "", "state": "CANCELLED", "from": []string{"RUNNING"}, "rate_limit": 1, "step_limit": nil, "limit": 10}
	message := pgx.NamedArgs{"id": uuid(id), "ids": [][16]byte{id}, "token": lane.Owner.Token, "workflow_id": lane.Owner.WorkflowID,
		"dead_letter_topics": s.topics.NoTargets(), "left_status": "PENDING", "none_status": "DEAD", "delta": 0,
		"left_resolution": nil, "none_resolution": "exhausted", "target_partition": nil, "target_offset": nil, "target_topic": "t-1", "target_topic_id": nil,
		"result": "failed", "category": "", "error": "", "is_attempt": true, "outbox": true, "claimed_before": time.Now(), "started_before": time.Now()}
	scope := s.bulkArgs(&lane.Spec)
	maps.Copy(scope, job)
	maps.Copy(scope, pgx.NamedArgs{"matched": 1, "multi_target": false, "lanes": 4})
	maps.Copy(scope, pgx.NamedArgs{"resolved": "", "dead": "", "retrying": "", "exhausted": "", "no_origin": "", "foreign": "", "rows": 20,
		"target": dlq.TargetJob, "started_before": time.Now(), "beside": dlq.KindRetry.Beside(),
		"changed": []string{"PENDING"}, "upper_bound": 1 << 40, "snapshot_at": time.Now()})
	conflict := maps.Clone(scope)
	conflict["id"] = uuid(dlq.NewID()) // of a new job
	created := pgx.NamedArgs{"id": uuid(dlq.NewID()), "workflow_id": "w", "topic": "t", "spec": lane.Spec, "rate_limit": 0, "lanes": 4,
		"upper_bound": 0, "snapshot_at": time.Now(), "ids": [][16]byte{id}, "previous_ids": [][16]byte{id},
		"effect": dlq.Effect{}, "summary": dlq.PlanSummary{}, "seconds": 1.5}
	claimed := claimArgs(s, &lane)
	claimed["scheduled_at"], claimed["attempt"] = time.Now(), 1
	acts := func(what dlq.JobKind, f dlq.Filter) explained {
		f.Topic = action.Spec.Topic
		job := dlq.Job{ID: action.ID, Spec: dlq.JobSpec{Kind: what, Filter: f}}
		_, args := actOf(&job, dlq.ChangeBatch)
		return explained{args: args, after: batchPlanSQL, act: &job}
	}
	arrivals := func(group dlq.ID) pgx.NamedArgs {
		return pgx.NamedArgs{"topic": "t-1", "group": uuid(group), "within": "", "step": dlq.StepMinute,
			"from": time.Now().Add(-time.Hour), "to": time.Now(), "limit": dlq.MaxSeries}
	}
	with := func(e explained, uses string) explained { e.uses = uses; return e }
	ofKind := func(kind dlq.JobKind) pgx.NamedArgs {
		return pgx.NamedArgs{"id": uuid(id), "kind": kind, "statuses": kind.Statuses(), "revive_after": dlq.ReviveAfter}
	}
	actionJob := acts(dlq.KindDead, dlq.Filter{}).args
	maps.Copy(actionJob, pgx.NamedArgs{"state": "CANCELLED", "reason": "", "limit": 1000, "upper_bound": 1 << 40, "snapshot_at": time.Now()})
	limitedJobs := pgx.NamedArgs{"limit": 20, "within": "t.*", "limits": []string{""}, "dead_letter_topics": "d"}
	asked := dlq.Operation{ID: dlq.NewID()}
	for _, ended := range []pgx.NamedArgs{job, actionJob} {
		maps.Copy(ended, pgx.NamedArgs{"operation": nil, "operation_id": uuid(dlq.NewID()), "outcome": dlq.OperationDone, "target": dlq.TargetJob})
	}
	old := pgx.NamedArgs{"microseconds": time.Hour.Microseconds(), "limit": 100, "run_id": "run", "workflow_id": "w"}

	batch := newIngest(nil, []dlq.Advance{{Partition: dlq.Partition{TopicID: dlqtest.TopicID}, Topic: "t"}}, true)
	partitions := pgx.NamedArgs{"topic_ids": [][16]byte{dlqtest.TopicID}, "partitions": []int32{3}}

	verify := verifyArgs(nil, pgx.NamedArgs{"id": uuid(lane.Job), "ids": [][16]byte{id}, "limit": 20000, "holder": uuid(id), "seconds": 1, "epoch": 1, "at": time.Now(),
		"fetched_groups": []string{"g-1"}, "errors": []string{""}, "groups": []string{"g-1"}, "targets": []int32{1}, "partitions": []int32{0}, "offsets": []int64{1},
		"changed": []int32{}, "published": []int32{1}, "ats": []time.Time{time.Now()}})

	const (
		attempts  = "dlq_retry_attempts_pkey"
		groups    = "dlq_groups_pkey"
		signed    = "dlq_group_signatures_pkey"
		fixes     = "dlq_group_fixes_pkey"
		sums      = "dlq_group_count_sums_pkey"
		bodies    = "dlq_message_bodies_pkey"
		jobs      = "dlq_jobs_pkey"
		lanes     = "dlq_job_lanes_pkey"
		live      = "idx_dlq_jobs_live"
		messages  = "dlq_messages_pkey"
		offsets   = "dlq_ingest_offsets_pkey"
		outbox    = "dlq_exhausted_outbox_pkey"
		targets   = "uq_dlq_targets"
		verdict   = bodies + " " + messages + " dlq_targets_pkey dlq_watermark_groups_pkey dlq_watermarks_pkey idx_dlq_message_bodies_origin idx_dlq_messages_archive_previous idx_dlq_messages_previous dlq_messages_archive_pkey"
		status    = "idx_dlq_messages_status"
		alone     = "idx_dlq_messages_retrying"
		byTopic   = "idx_dlq_messages_dlq_topic idx_dlq_messages_original_topic"
		byArrival = "idx_dlq_messages_dlq_topic_pending idx_dlq_messages_original_topic_pending"
		blocked   = "idx_dlq_job_blocked_keys"
		closed    = "idx_dlq_job_queues_closed"
		due       = "idx_dlq_job_queues_due"
		queued    = "dlq_job_waiting_pkey"
		ofKey     = "idx_dlq_job_waiting_key"
		act       = jobs + " " + messages
	)
	// and adds the indexes of dlq_retrying to each list.
	and := func(lists string) string {
		var with []string
		for list := range strings.SplitSeq(lists, " | ") {
			names := append(strings.Fields(list), jobs, lanes, live, alone, messages)
			slices.Sort(names)
			with = append(with, strings.Join(slices.Compact(names), " "))
		}
		return strings.Join(with, " | ")
	}
	sorted := func(list string) string {
		names := strings.Fields(list)
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	listOfKey := and(messages + " idx_dlq_message_bodies_key | " + messages + " idx_dlq_message_bodies_key idx_dlq_messages_original_topic")
	cases := map[string][]explained{
		"messageSQL":  {{args: message, uses: messages}},
		"attemptsSQL": {{args: group, uses: attempts}},
		"detailsSQL":  {{args: group, uses: "dlq_edits_pkey " + bodies + " dlq_messages_archive_pkey " + messages + " uq_dlq_edits_copy"}},
		"weightsSQL":  {{args: group, uses: bodies + " " + messages + " " + attempts}},
		"chainSQL": {{args: message, after: byIndexSQL, uses: "dlq_edits_pkey " + bodies + " dlq_messages_archive_pkey " + messages + " " + attempts +
			" idx_dlq_messages_archive_previous idx_dlq_messages_previous uq_dlq_edits_copy"}},
		"deleteSQL":  {{args: ofKind(dlq.KindDelete), uses: outbox + " " + bodies + " " + messages + " " + attempts}},
		"changeSQL":  {{args: ofKind(dlq.KindDead), uses: messages}, {args: ofKind(dlq.KindRevive), uses: messages}},
		"replaceSQL": {{args: pgx.NamedArgs{"id": uuid(id), "copy": uuid(dlq.NewID()), "dead_letter_topics": s.topics.NoTargets()}, uses: messages}},
		"copyOfSQL":  {{args: message, uses: "dlq_edits_pkey"}},

		"useKeySQL":     {{args: pgx.NamedArgs{"key": id[:], "request": id[:], "ids": [][16]byte{id}}, uses: ""}},
		"usedKeySQL":    {{args: pgx.NamedArgs{"key": id[:]}, uses: "dlq_idempotency_keys_pkey"}},
		"forgetKeysSQL": {{uses: "dlq_idempotency_keys_pkey idx_dlq_idempotency_keys_used_at"}},

		"listSQL": {
			{args: listArgs(list), query: list, after: inOrderSQL, uses: and(byTopic)},
			{args: listArgs(oldest), query: oldest, after: inOrderSQL, uses: and(byTopic)},
			{args: listArgs(search), query: search, after: inOrderSQL, uses: and(byTopic)},
			{args: listArgs(key), query: key, uses: listOfKey},
			{args: listArgs(suspicious), query: suspicious, after: inOrderSQL, uses: and("idx_dlq_messages_dlq_topic_suspicious idx_dlq_messages_original_topic_suspicious")},
		},
		"countSQL":          {{args: listArgs(list), query: list, after: inOrderSQL, uses: and(byTopic)}},
		"listGrantedSQL":    {{args: grantedArgs, query: granted, after: inOrderSQL, uses: and(messages + " idx_dlq_messages_dlq_topic")}},
		"countGrantedSQL":   {{args: grantedArgs, query: granted, after: inOrderSQL, uses: and("idx_dlq_messages_dlq_topic")}},
		"grantedSQL":        {{args: grantedArgs, after: byIndexSQL, uses: "dlq_topic_count_sums_pkey"}},
		"grantedArchiveSQL": {{args: grantedArgs, after: byIndexSQL, uses: "idx_dlq_messages_archive_topics"}},
		"countAnyOrderSQL":  {{args: listArgs(search), query: search, after: inOrderSQL, uses: and(" | idx_dlq_messages_original_topic")}}, // or a sequential scan
		"listKeySQL": {
			{args: listArgs(key), query: key, after: byIndexSQL, uses: messages + " idx_dlq_message_bodies_key"},
			{args: listArgs(trace), query: trace, after: byIndexSQL, uses: messages + " idx_dlq_message_bodies_trace"},
			{args: listArgs(origin), query: origin, after: byIndexSQL, uses: messages + " idx_dlq_message_bodies_origin"},
		},
		"listFewSQL":        {{args: classArgs, query: class, after: byIndexSQL, uses: and("idx_dlq_messages_group idx_dlq_messages_ungrouped " + bodies)}},
		"countFewSQL":       {{args: classArgs, query: class, after: byIndexSQL, uses: and("idx_dlq_messages_group idx_dlq_messages_ungrouped " + bodies)}},
		"possibleGroupsSQL": {{args: classArgs}},
		"searchSQL":         {{args: searchArgs, search: records, after: inOrderSQL, uses: and(byTopic + " " + bodies)}},
		"signSQL":           {{args: pgx.NamedArgs{"groups": [][16]byte{id}, "bits": []pgtype.Bits{(&signature{}).bits()}}, uses: signed}},
		"topicsSQL":         {{args: pgx.NamedArgs{"within": ""}, after: inOrderSQL, uses: and("idx_dlq_messages_dlq_topic")}},
		"topicsBesideSQL":   {{args: pgx.NamedArgs{"topic": "topic-1"}, after: byIndexSQL, uses: "dlq_topic_count_sums_pkey"}},
		"readOnlySQL":       {{}}, "foldCountsSQL": {{}}, "deleteEmptyCountsSQL": {{}},
		"deleteOldArrivalsSQL": {{args: pgx.NamedArgs{"step": dlq.StepMinute, "kept": dlq.StepMinute.Kept()}, after: byIndexSQL, uses: "idx_dlq_arrivals_at"}},
		"seriesSQL": {
			{args: arrivals(dlq.ID{}), after: byIndexSQL, uses: "dlq_arrivals_pkey"},
			{args: arrivals(id), after: byIndexSQL, uses: "dlq_arrivals_pkey"},
			{args: arrivals(dlq.ID{}), after: byIndexSQL, series: &dlq.SeriesQuery{Topic: "t-1"}, uses: "idx_dlq_arrivals_dlq_topic idx_dlq_arrivals_original_topic"},
			{args: arrivals(id), after: byIndexSQL, series: &dlq.SeriesQuery{Topic: "t-1", Group: id}, uses: "dlq_arrivals_pkey"},
		},

		"listGroupSQL":     {{args: listArgs(ofGroup), query: ofGroup, after: inOrderSQL, uses: and(messages + " idx_dlq_messages_group")}},
		"countGroupSQL":    {{args: listArgs(ofGroup), query: ofGroup, after: inOrderSQL, uses: and("idx_dlq_messages_group")}},
		"createGroupsSQL":  {{args: created1, uses: and(groups + " idx_dlq_groups_dlq_topic idx_dlq_messages_group")}},
		"oldGroupsSQL":     {{args: old, uses: "dlq_group_arrivals_pkey " + sums + " idx_dlq_messages_archive_group idx_dlq_messages_group | dlq_group_arrivals_pkey " + sums + " " + groups + " idx_dlq_messages_archive_group idx_dlq_messages_group | dlq_group_arrivals_pkey " + sums + " idx_dlq_groups_first_seen idx_dlq_messages_archive_group idx_dlq_messages_group"}},
		"spareGroupsSQL":   {{args: pgx.NamedArgs{"dlq_topics": []string{"topic-1"}, "wanted": []int32{1}, "max_groups": 10}, uses: "dlq_group_arrivals_pkey " + sums + " idx_dlq_groups_dlq_topic idx_dlq_messages_archive_group idx_dlq_messages_group"}},
		"removeGroupsSQL":  {{args: pgx.NamedArgs{"unused": [][16]byte{id}}, uses: "dlq_group_arrivals_pkey " + sums + " " + signed + " " + groups + " idx_dlq_messages_archive_group idx_dlq_messages_group"}},
		"knownGroupsSQL":   {{args: group, uses: groups}},
		"fixesSQL":         {{args: group, uses: fixes + " " + groups}},
		"reopenSQL":        {{args: group, uses: fixes + " " + groups}},
		"newestGroupsSQL":  {{args: group, groups: newest, after: byIndexSQL, uses: sums + " idx_dlq_groups_first_seen"}},
		"rankedGroupsSQL":  {{args: group, groups: ranked, uses: groups + " | "}},
		"groupBacklogsSQL": {{args: pgx.NamedArgs{"new_age": dlq.NewGroupAge, "causes": dlq.MaxBacklogCauses}, after: inOrderSQL, uses: "idx_dlq_messages_group"}},
		"heldDeadSQL":      {{uses: "dlq_group_count_sums_pkey idx_dlq_groups_held"}},
		"groupsSQL":        {{args: group, groups: newest, after: onceByIndexSQL, uses: "dlq_arrivals_pkey dlq_group_arrivals_pkey " + sums + " " + groups + " idx_dlq_messages_group"}},
		"changeGroupSQL":   {{args: change, uses: fixes + " " + groups + " | dlq_group_arrivals_pkey " + fixes + " " + groups}},
		"fixGroupSQL":      {{args: group, uses: fixes + " " + groups}},
		"openHeldSQL":      {{args: held, uses: "dlq_arrivals_pkey dlq_group_arrivals_pkey " + groups + " idx_dlq_groups_held"}},

		"lockPositionsSQL":   {{args: batch.positionArgs(), after: byIndexSQL, uses: offsets}},
		"knownSQL":           {{args: created, after: byIndexSQL, uses: bodies + " " + messages}},
		"previousSQL":        {{args: created, after: byIndexSQL, uses: jobs + " dlq_messages_archive_pkey " + messages + " dlq_targets_pkey"}},
		"advanceSQL":         {{args: batch.positionArgs(), after: byIndexSQL, uses: offsets}},
		"cameBackSQL":        {{args: pgx.NamedArgs{"jobs": [][16]byte{lane.Job}}, after: byIndexSQL, uses: jobs}},
		"storeExhaustedSQL":  {{args: created, after: byIndexSQL, uses: messages}},
		"endSuspendedSQL":    {{args: pgx.NamedArgs{"seconds": 60}}},
		"payloadSQL":         {{args: pgx.NamedArgs{"payload": "{}"}}},
		"startPositionsSQL":  {{args: partitions, uses: offsets}},
		"pendingSQL":         {{}},
		"positionsSQL":       {{args: partitions, uses: offsets}},
		"shareIngestLockSQL": {{args: pgx.NamedArgs{"lock": ingestLock}}},

		"claimSQL":       {{args: message, uses: bodies + " " + messages + " | dlq_audit_pkey " + bodies + " " + messages}},
		"claimedSQL":     {{args: message, uses: bodies + " " + messages}},
		"envelopeSQL":    {{args: message, uses: bodies + " " + messages}},
		"finalizeSQL":    {{args: message, uses: messages + " " + targets + " | " + messages + " " + attempts + " " + targets}},
		"noteTargetsSQL": {{args: pgx.NamedArgs{"ids": [][16]byte{id}, "target_topics": []string{"t-1"}, "target_topic_ids": [][16]byte{id}}, uses: messages + " " + targets}},

		"verdictsSQL":          {{args: verify, after: byIndexSQL, uses: sorted(verdict)}},
		"verifyBulkSQL":        {{args: verify, after: byIndexSQL, uses: sorted(verdict + " " + jobs + " " + status)}},
		"leaseWatermarksSQL":   {{args: verify}},
		"watermarkGroupsSQL":   {{args: verify}},
		"watermarkTargetsSQL":  {{args: verify}},
		"publishWatermarksSQL": {{args: verify, uses: "dlq_targets_pkey"}},

		"nowSQL":        {{}},
		"ownersSQL":     {{args: message, uses: live + " " + alone}},
		"strayPagesSQL": {{after: byIndexSQL, uses: lanes + " " + jobs + " " + messages + " dlq_topic_count_sums_pkey " + live + " idx_dlq_messages_retrying"}},
		"jobOwnersSQL":  {{args: scope, uses: live}},
		"releasableSQL": {{args: message, after: byIndexSQL, uses: alone}},

		"addJobSampleSQL": {{args: pgx.NamedArgs{"id": uuid(lane.Job), "tick": 256, "step": 2, "at": time.Now(), "retried": 1, "failed": 1, "dead": 1,
			"changed": 0, "skipped": 1}, after: byIndexSQL, uses: "dlq_job_samples_pkey " + jobs + " | dlq_job_samples_pkey " + live}},
		"jobSamplesSQL": {{args: job, after: byIndexSQL, uses: "dlq_job_samples_pkey"}},

		"jobsSQL": {
			{args: job, after: byIndexSQL, uses: lanes + " dlq_job_samples_pkey " + jobs + " " + live + " " + closed + " " + due},
			{args: limitedJobs, jobs: &dlq.JobQuery{Within: "t.*"}, after: inOrderSQL,
				uses: lanes + " dlq_job_samples_pkey " + jobs + " idx_dlq_jobs_started_at " + closed + " " + due},
		},
		"lockSQL":     {{args: pgx.NamedArgs{"lock": createLock}}},
		"conflictSQL": {{args: conflict, uses: jobs + " " + live}},
		"snapshotSQL": {{}}, "newestSQL": {{args: scope, after: inOrderSQL, uses: byArrival}},
		"createJobSQL":  {{args: created}},
		"createPlanSQL": {{args: created}}, "planSQL": {{args: job, uses: jobs + " dlq_plans_pkey"}},
		"deletePlansSQL": {{after: byIndexSQL, uses: "dlq_plans_pkey idx_dlq_plans_expires_at"}},
		"countJobSQL":    {{args: scope, uses: jobs + " " + lanes}},
		"scopeSQL":       {{args: scope, uses: jobs}},
		"sendableSQL":    {{args: scope, after: byIndexSQL, uses: byArrival}},
		"previewSQL":     {{args: scope, uses: and(" | idx_dlq_messages_dlq_topic | " + groups + " | " + groups + " idx_dlq_messages_dlq_topic | " + groups + " " + byTopic)}},
		"sampleSQL":      {{args: scope, after: inOrderSQL, uses: messages + " " + byArrival}},

		"lockJobSQL":       {{args: job, uses: jobs}},
		"setStateSQL":      {{args: job, uses: jobs}},
		"claimedLanesSQL":  {{args: claimed, after: lanePlanSQL, uses: lanes + " " + jobs}},
		"clearPageSQL":     {{args: claimed, uses: lanes}},
		"closedTargetSQL":  {{args: claimed, uses: "idx_dlq_job_queues_closed"}},
		"resumeBulkSQL":    {{args: job, uses: jobs + " " + due}},
		"endJobSQL":        {{args: job, uses: lanes + " " + jobs + " idx_dlq_audit_target | " + lanes + " " + jobs + " idx_dlq_audit_target " + live}},
		"deleteWaitingSQL": {{args: job, uses: ofKey + " | " + queued}},
		"deleteBlockedSQL": {{args: job, uses: blocked}},
		"deleteQueuesSQL":  {{args: job, uses: "dlq_job_queues_pkey " + due}},
		"setRateSQL":       {{args: job, uses: jobs}},
		"setStepLimitSQL":  {{args: job, uses: jobs}},

		"openLaneSQL":   {{args: claimed, uses: lanes + " " + jobs}},
		"laneExistsSQL": {{args: claimed, uses: lanes}},
		"lockLateSQL":   {{args: lateArgs(&lane, inOrder(dlqtest.Outcomes(first.Page, dlq.ResultDelivered))), after: batchPlanSQL, uses: messages}},
		"keepLateSQL": {{args: lateArgs(&lane, inOrder(dlqtest.Outcomes(first.Page, dlq.ResultDelivered))), after: batchPlanSQL,
			uses: sorted(jobs+" "+lanes+" "+queued+" "+outbox+" "+messages+" "+attempts+" "+targets) + " | " +
				sorted(live+" "+lanes+" "+queued+" "+outbox+" "+messages+" "+attempts+" "+targets)}},

		"unpublishedSQL": {{args: pgx.NamedArgs{"most": 1}, after: byIndexSQL, uses: outbox}},
		"publishLockSQL": {{args: pgx.NamedArgs{"lock": publishLock}}},
		"exhaustedSQL": {{args: pgx.NamedArgs{"topic": "orders.dlq", "seq": 0, "id": [16]byte{}, "bytes": dlq.PageBytes},
			after: byIndexSQL, uses: outbox + " " + bodies + " dlq_messages_archive_pkey " + messages}},
		"publishedSQL": {{args: publishedArgs("orders.dlq", []dlq.Exhausted{{ID: id, Seq: 2, EndedAt: time.Now()}}, []bool{true}), after: byIndexSQL, uses: outbox}},

		"changeableSQL": {{args: actionJob, after: byIndexSQL, uses: and(byTopic)}},
		"explainJobSQL": {{args: actionJob, uses: jobs}},
		"actSQL": {
			with(acts(dlq.KindDead, dlq.Filter{}), and(act+" "+byTopic)),
			with(acts(dlq.KindDelete, dlq.Filter{ErrorContains: "oom"}), and(act+" "+outbox+" "+bodies+" "+attempts+" "+byTopic)),
			with(acts(dlq.KindRevive, dlq.Filter{Key: []byte("20")}), and(act+" idx_dlq_message_bodies_key")),
			with(acts(dlq.KindRevive, dlq.Filter{IDs: []dlq.ID{id}}), and(act)),
			with(acts(dlq.KindRestore, dlq.Filter{Archived: true}),
				"dlq_edits_pkey dlq_groups_pkey dlq_job_lanes_pkey dlq_jobs_pkey dlq_message_bodies_pkey dlq_messages_archive_pkey "+
					"idx_dlq_jobs_live idx_dlq_messages_archive_dlq_topic idx_dlq_messages_archive_original_topic idx_dlq_messages_retrying"),
		},
		"restoreSQL":    {{args: message, after: batchPlanSQL, uses: "dlq_edits_pkey dlq_groups_pkey dlq_message_bodies_pkey dlq_messages_archive_pkey"}},
		"beforeCopySQL": {{args: pgx.NamedArgs{"lock": ingestLock}}},

		"recordSQL":       {{args: pgx.NamedArgs{"operation": asked}}},
		"operationsOfSQL": {{args: pgx.NamedArgs{"targets": uuids([]dlq.ID{id}), "tokens": []string{"run"}}, after: byIndexSQL, uses: "dlq_audit_runs_pkey idx_dlq_audit_target"}},
		"operationsSQL": {
			{args: pgx.NamedArgs{"limit": 100}, uses: "idx_dlq_audit_at"},
			{args: pgx.NamedArgs{"limit": 100, "subject": "s-1"}, operations: &dlq.OperationQuery{Subject: "s-1"}, uses: "idx_dlq_audit_subject"},
			{args: pgx.NamedArgs{"limit": 100, "topic": "t-1"}, operations: &dlq.OperationQuery{Topic: "t-1"}, uses: "idx_dlq_audit_topic"},
			{args: pgx.NamedArgs{"limit": 100, "target_id": uuid(id)}, operations: &dlq.OperationQuery{TargetID: id}, uses: "idx_dlq_audit_target"},
			{args: pgx.NamedArgs{"limit": 100, "topic": "t-1", "within": "t.*", "limits": []string{"t.*"}, "dead_letter_topics": "d"},
				operations: &dlq.OperationQuery{Topic: "t-1", Within: "t.*"}, uses: "dlq_jobs_pkey idx_dlq_audit_topic"},
			{args: pgx.NamedArgs{"limit": 100, "after_at": time.Now(), "after_id": uuid(id)}, operations: &dlq.OperationQuery{After: &dlq.Place{}}, uses: "idx_dlq_audit_at"},
			{args: pgx.NamedArgs{"limit": 100}, operations: &dlq.OperationQuery{SingleRetries: true}, uses: "idx_dlq_audit_retries"},
			{args: pgx.NamedArgs{"limit": 100, "topic": "t-1"}, operations: &dlq.OperationQuery{SingleRetries: true, Topic: "t-1"}, uses: "idx_dlq_audit_retries | idx_dlq_audit_topic"},
		},
		"singleRetriesSQL": {{args: pgx.NamedArgs{"operations": uuids([]dlq.ID{id})}, after: byIndexSQL,
			uses: sorted("dlq_audit_pkey dlq_audit_runs_pkey dlq_messages_archive_pkey idx_dlq_audit_target " + messages + " " + attempts)}},
		"auditedTopicsSQL":     {{args: pgx.NamedArgs{"within": "^(t-1)$", "most": 100}, after: byIndexSQL, uses: "idx_dlq_audit_topic"}},
		"operationsByTopicSQL": {{args: pgx.NamedArgs{"limit": 100, "topics": []string{"t-1", "t-2"}}, operations: &dlq.OperationQuery{}, uses: "idx_dlq_audit_topic"}},
		"purgeAuditSQL":        {{args: old}}, // the plans of this statement and of the next are inside functions

		"serverInfoSQL": {{}}, "missingRightsSQL": {{uses: " | pg_class_relname_nsp_index"}}, "waitingTopicsSQL": {{}},

		"archiveBatchSQL": {{args: old}},
		"recordRunsSQL":   {{args: old, uses: "idx_dlq_audit_at"}},
		"purgeBatchSQL":   {{args: old, uses: bodies + " | " + outbox + " " + bodies + " " + attempts + " idx_dlq_messages_archive_updated_at"}},

		"inOrderSQL": {{}}, "byIndexSQL": {{}}, "onceByIndexSQL": {{}}, "lanePlanSQL": {{}}, "shortWaitSQL": {{}}, "batchPlanSQL": {{}}, "ingestTimeoutSQL": {{}},
		"idleTimeoutSQL": {{}}, "lockTimeoutSQL": {{}}, "userTimeoutSQL": {{}}, "keepaliveSQL": {{}}, "isolationSQL": {{}},
		"timeLimitSQL": {{args: pgx.NamedArgs{"milliseconds": "1000"}}}, "batchTimeSQL": {{args: actionJob}},
	}
	maps.Copy(cases, statementsOfPages(&lane, first.Page, claimed, search, key))
	texts := statements(t)
	require.ElementsMatch(t, slices.Collect(maps.Keys(texts)), slices.Collect(maps.Keys(cases)), "every statement is explained")
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		for _, c := range cases[name] {
			for _, mode := range planModes {
				if (c.after == lanePlanSQL || c.after == batchPlanSQL) && mode != "force_generic_plan" {
					continue // these settings include the mode
				}
				sql := withVerdict(texts[name])
				switch {
				case c.query != nil:
					sql = listed(sql, c.query)
				case c.search != nil:
					_, sql = searchOf(c.search, nil)
				case c.filter != nil:
					sql = filtered(sql, c.filter)
				case c.act != nil:
					sql, _ = actOf(c.act, dlq.ChangeBatch)
				case c.groups != nil:
					sql = grouped(sql, c.groups)
				case c.series != nil:
					sql = ofTopic(sql, c.series)
				case c.jobs != nil:
					sql = jobsWith("true" + jobConditions(c.jobs))
				case c.operations != nil:
					sql = strings.Replace(sql, filterMark, "true"+operationConditions(c.operations), 1)
				}
				var before []string
				if c.after != "" {
					before = []string{c.after}
				}
				plan := explain(t, pool, mode, sql, c.args, before...)
				allowed := strings.Split(c.uses, " | ")
				for i := range allowed {
					allowed[i] = sorted(allowed[i])
				}
				require.Contains(t, allowed, indexesOf(plan), "%s, %s\n%s", name, mode, plan)
			}
		}
	}
}

var indexName = regexp.MustCompile(`(?:using|Bitmap Index Scan on) (\w+)`)

// indexesOf are the indexes of a plan, each once, sorted by name.
func indexesOf(plan string) string {
	found := map[string]bool{}
	for _, match := range indexName.FindAllStringSubmatch(plan, -1) {
		found[match[1]] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " ")
}
