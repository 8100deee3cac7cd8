package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// oddRows are rows that may be written by hand: unusual values that the table allows.
var oddRows = map[string]string{
	"created at infinity":        `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'e', 'infinity')`,
	"created at -infinity":       `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'e', '-infinity')`,
	"created in the year 20000":  `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'e', '20000-01-01')`,
	"created in 4713 BC":         `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'e', '4713-01-01 BC')`,
	"updated at infinity":        `INSERT INTO dlq.dlq_messages (original_topic, error_message, updated_at) VALUES ('orders', 'e', 'infinity')`,
	"done at -infinity":          `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at) VALUES ('orders', 'e', 'DEAD', '-infinity')`,
	"retried at infinity":        `INSERT INTO dlq.dlq_messages (original_topic, error_message, last_retry_at) VALUES ('orders', 'e', 'infinity')`,
	"negative counts":            `INSERT INTO dlq.dlq_messages (original_topic, error_message, retry_count, max_retries) VALUES ('orders', 'e', -7, -3)`,
	"counts at their end":        `INSERT INTO dlq.dlq_messages (original_topic, error_message, retry_count, max_retries) VALUES ('orders', 'e', 2147483646, 2147483647)`,
	"no topic":                   `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('', '')`,
	"two lines in a topic":       `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES (E'or\nders.dlq', 'e')`,
	"no ballast":                 `INSERT INTO dlq.dlq_messages (original_topic, error_message, ballast) VALUES ('orders', 'e', NULL)`,
	"RETRYING, without an owner": `INSERT INTO dlq.dlq_messages (original_topic, error_message, status) VALUES ('orders', 'e', 'RETRYING')`,
	"RETRYING, half an owner":    `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, workflow_id) VALUES ('orders', 'e', 'RETRYING', 'w')`,
	"RETRYING, in the future":    `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, last_retry_at) VALUES ('orders', 'e', 'RETRYING', now() + interval '1 year')`,
	"RETRYING, at infinity":      `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, last_retry_at) VALUES ('orders', 'e', 'RETRYING', 'infinity')`,
	"RETRYING, no retries left":  `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, retry_count) VALUES ('orders', 'e', 'RETRYING', 99)`,
	"RESOLVED, never retried":    `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at) VALUES ('orders', 'e', 'RESOLVED', '2020-01-01')`,
	"PENDING, no retries left":   `INSERT INTO dlq.dlq_messages (original_topic, error_message, retry_count) VALUES ('orders', 'e', 3)`,
}

// The owner of the message is a bulk retry that does not exist, so no lane has the message.
func TestAMessageOfAnUnknownBulkRetryIsReleased(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	for _, dlqTopic := range []string{"orders.dlq", ""} {
		id := insert(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, status, workflow_id, owner_token)
			VALUES ('orders', '`+dlqTopic+`', 'e', 'RETRYING', 'retry-all-x', 'x')`)
		owner := dlq.Owner{WorkflowID: "retry-all-x", Token: "x"}
		owners, err := p.Owners(t.Context(), time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Equal(t, []dlq.Owner{owner}, owners)
		released, err := p.Release(t.Context(), owner, "gone")
		require.NoError(t, err)
		require.EqualValues(t, 1, released)
		message, err := p.Message(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusPending, message.Status)
		owners, err = p.Owners(t.Context(), time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Empty(t, owners)
	}
}

// There are so many messages that the sweep must read each message only once.
func TestHandWrittenMessagesDoNotBlockTheSweep(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(5), nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 5)
	for _, sql := range []string{
		`UPDATE dlq.dlq_job_lanes SET page = page || page[1:1]`,
		`INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, status, workflow_id, owner_token, last_retry_at)
			SELECT 'topic-' || n % 600, 'shared.dlq', 'e', 'RETRYING', 'retry-all-x', 'x', '2020-01-01' FROM generate_series(1, 30000) AS n`,
		`INSERT INTO dlq.dlq_messages (original_topic, error_message, status, workflow_id, owner_token, last_retry_at)
			VALUES ('orders', 'e', 'RETRYING', 'w', 't', '2020-01-01')`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	for range 2 {
		owners, err := p.Owners(t.Context(), time.Now().Add(-time.Minute))
		require.NoError(t, err)
		require.Equal(t, []dlq.Owner{{WorkflowID: "retry-all-x", Token: "x"}, {WorkflowID: "w", Token: "t"}}, owners)
		_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_messages WHERE workflow_id = 'retry-all-x' AND original_topic <> 'topic-0'`)
		require.NoError(t, err)
	}
	released, err := p.Release(t.Context(), dlq.Owner{WorkflowID: "retry-all-x", Token: "x"}, "gone")
	require.NoError(t, err)
	require.EqualValues(t, 50, released)
}

// COPY keeps the given order of arrival and does not advance the sequence.
func TestCopiedMessagesAreRetried(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := pool.CopyFrom(t.Context(), pgx.Identifier{"dlq", "dlq_messages"}, []string{"original_topic", "error_message", "seq"},
		pgx.CopyFromRows([][]any{{"orders", "e", int64(70)}, {"orders", "e", int64(71)}}))
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	b, err = p.CountJob(t.Context(), b.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, b.Matched)
}

// A dump may have been restored in part.
func TestAMessageWithoutItsBodyDoesNotStopIngest(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(3)
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (id, original_topic, error_message) VALUES ($1, 'orders', 'kept')`,
		[16]byte(arrivals[1].ID))
	require.NoError(t, err)
	stored, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	require.Len(t, stored, 2)
	kept, err := dlqtest.Detail(t.Context(), p, arrivals[1].ID)
	require.NoError(t, err)
	require.Equal(t, "kept", kept.ErrorMessage)
	require.Equal(t, arrivals[1].Record.Value, kept.Record.Value)
}

func insert(t *testing.T, pool *pgxpool.Pool, sql string) (id dlq.ID) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql+` RETURNING id`).Scan((*[16]byte)(&id)))
	return id
}

// retry retries a message and returns the refusal, if any. It first releases a message
// that has an owner.
func retry(t *testing.T, p *postgres.Store, id dlq.ID) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	owner := dlqtest.Owner()
	_, err := p.Claim(ctx, id, owner, dlq.ID{})
	if owned, ok := err.(*dlq.OwnedError); ok { //nolint:errorlint // the store's own
		_, err = p.Release(ctx, owned.Owner, "gone")
		require.NoError(t, err)
		_, err = p.Claim(ctx, id, owner, dlq.ID{})
	}
	if err != nil {
		return err
	}
	envelope, err := p.Envelope(ctx, id, owner)
	require.NoError(t, err)
	require.Equal(t, id, envelope.ID)
	_, _, err = p.Finalize(ctx, owner, dlqtest.Failed(id))
	return err
}

func TestAnOddRowDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	for name, sql := range oddRows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			p := postgres.New(pool, dlqtest.Topics(t))
			odd := insert(t, pool, sql)
			sound := dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders"))
			_, err := p.Ingest(t.Context(), []dlq.Arrival{sound}, nil)
			require.NoError(t, err)

			m, err := p.Message(t.Context(), odd)
			require.NoError(t, err)
			_, err = dlqtest.Detail(t.Context(), p, odd)
			require.NoError(t, err)
			_, err = p.Topics(t.Context())
			require.NoError(t, err)
			for _, oldestFirst := range []bool{false, true} {
				listed := pageThrough(t, p, dlq.ListQuery{Filter: dlq.Filter{Topic: m.OriginalTopic}, PageSize: 1, OldestFirst: oldestFirst})
				require.Contains(t, listed, odd)
				listed = pageThrough(t, p, dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1, OldestFirst: oldestFirst})
				require.Contains(t, listed, sound.ID)
			}
			_, err = p.PreviewJob(t.Context(), dlq.JobSpec{Kind: dlq.KindRetry, Filter: dlq.Filter{Topic: "orders"}})
			require.NoError(t, err)

			err = retry(t, p, odd)
			if err != nil {
				var refused *dlq.NotRetryableError
				require.ErrorAs(t, err, &refused)
			}
			m, err = p.Message(t.Context(), odd)
			require.NoError(t, err)
			require.NotEqual(t, dlq.StatusRetrying, m.Status)
			_, err = dlqtest.Detail(t.Context(), p, odd)
			require.NoError(t, err)
			_, err = p.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, time.Hour, 10)
			require.NoError(t, err)
			_, err = p.PurgeBatch(t.Context(), dlq.ArchiveRun{}, 365*24*time.Hour, 10)
			require.NoError(t, err)
			require.NoError(t, retry(t, p, sound.ID))
		})
	}
}

// pageThrough reads a list by its cursors, and checks that no message is listed twice.
func pageThrough(t *testing.T, p *postgres.Store, q dlq.ListQuery) (ids []dlq.ID) {
	t.Helper()
	for range 10 {
		page, err := p.List(t.Context(), q)
		require.NoError(t, err)
		for i := range page.Messages {
			require.NotContains(t, ids, page.Messages[i].ID)
			ids = append(ids, page.Messages[i].ID)
		}
		if !page.HasNext {
			return ids
		}
		last := page.Messages[len(page.Messages)-1]
		q.After = &dlq.Keyset{CreatedAt: last.CreatedAt, Seq: last.Seq}
	}
	require.Fail(t, "the list never ends")
	return nil
}

// A cursor must work with equal and infinite times.
func TestOddRowsAreListedOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for _, created := range []string{"infinity", "infinity", "20000-01-01", "-infinity", "-infinity"} {
		insert(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'e', '`+created+`')`)
	}
	p := postgres.New(pool, dlqtest.Topics(t))
	for _, oldestFirst := range []bool{false, true} {
		require.Len(t, pageThrough(t, p, dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1, OldestFirst: oldestFirst}), 5)
	}
}

func TestAHandWrittenRetryIsReleased(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	noOwner := dlq.Owner{}
	for _, at := range []string{"NULL", "now() - interval '1 hour'", "now() + interval '1 year'", "'infinity'", "'-infinity'"} {
		id := insert(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, last_retry_at, updated_at)
			VALUES ('orders', 'e', 'RETRYING', `+at+`, COALESCE((`+at+`)::timestamptz, '2020-01-01'))`)
		now, err := p.Now(t.Context())
		require.NoError(t, err)
		owners, err := p.Owners(t.Context(), now.Add(-time.Minute))
		require.NoError(t, err)
		require.Equal(t, []dlq.Owner{noOwner}, owners, at)
		released, err := p.Release(t.Context(), noOwner, "no owner")
		require.NoError(t, err)
		require.EqualValues(t, 1, released)
		m, err := p.Message(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, dlq.StatusPending, m.Status)
		require.Zero(t, m.RetryCount)
	}
}

// A statement by hand can change more messages than one statement can release.
func TestAReleaseHasAnySize(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message, status)
		SELECT 'orders', 'e', 'RETRYING' FROM generate_series(1, 2500)`)
	require.NoError(t, err)
	released, err := postgres.New(pool, dlqtest.Topics(t)).Release(t.Context(), dlq.Owner{}, "no owner")
	require.NoError(t, err)
	require.EqualValues(t, 2500, released)
	require.EqualValues(t, 2500, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'PENDING'`))
}

func TestAnUnreadableJobDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	created, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	for _, sql := range []string{
		`INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, spec, lanes, upper_bound, snapshot_at, started_at)
			VALUES (gen_random_uuid(), '', 'a', '"nonsense"', 1, 0, now(), '-infinity')`,
		`INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, spec, lanes, upper_bound, snapshot_at, started_at)
			VALUES (gen_random_uuid(), 'w', 'b', '[1]', 1, 0, 'infinity', 'infinity')`,
	} {
		_, err = pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	now, err := p.Now(t.Context())
	require.NoError(t, err)
	owners, err := p.JobOwners(t.Context(), now)
	require.NoError(t, err)
	require.Len(t, owners, 3)
	require.Contains(t, owners, created.Owner())
	owners, err = p.JobOwners(t.Context(), now.Add(-time.Hour))
	require.NoError(t, err)
	require.Len(t, owners, 2, "one has only just been started")
	for _, owner := range owners {
		id, err := dlq.ParseID(owner.Token)
		require.NoError(t, err)
		ended, err := p.EndJob(t.Context(), nil, id, dlq.JobFailed, "gone")
		require.NoError(t, err)
		require.Equal(t, dlq.JobFailed, ended.State)
	}
	owners, err = p.JobOwners(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []dlq.Owner{created.Owner()}, owners)
}

func TestAJobWithAnyNumberOfLanesDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(1), nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO dlq.dlq_jobs (id, workflow_id, topic, lanes, upper_bound, snapshot_at)
		SELECT gen_random_uuid(), 'w', 'other', lanes, 1, now() FROM unnest(ARRAY[-2147483648, -1, 0, 2147483647]) AS lanes`)
	require.NoError(t, err)

	bulks, err := p.Jobs(t.Context(), dlq.JobQuery{PageSize: 20})
	require.NoError(t, err)
	require.Len(t, bulks.Entries, 5)
	_, err = p.Owners(t.Context(), time.Now())
	require.NoError(t, err)
	lane, err := p.OpenLane(t.Context(), b.ID, 0, dlq.LaneAttempt{Number: 1})
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 1)
}

// A row that was written by hand has no dead-letter topic, so a grant for some topics does not show it.
func TestRowsByHandAreCountedForThoseWhoSeeAllTopics(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(2), nil)
	require.NoError(t, err)
	insert(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders.dlq', 'e')`)
	insert(t, pool, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'e')`)
	for within, want := range map[string]map[string]int64{
		"": {"orders": 1, "orders.dlq": 3}, "^(orders.*)$": {"orders.dlq": 2}, "^(stock.dlq)$": {},
	} {
		topics, err := p.TopicsWithin(t.Context(), within)
		require.NoError(t, err)
		counts := map[string]int64{}
		for _, topic := range topics {
			counts[topic.DLQTopic] = topic.Counts[dlq.StatusPending]
		}
		require.Equal(t, want, counts, within)
	}
}

// An expression that PostgreSQL refuses must not make the creation of other jobs fail.
func TestAJobWhoseLimitsAreNoExpressionConflictsOnItsTopicsOnly(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), []dlq.Arrival{
		dlqtest.Arrival(dlqtest.FromTopic("orders.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("stock.dlq", "stock")),
	}, nil)
	require.NoError(t, err)
	action := func(topic string) (dlq.Job, error) {
		id := dlq.NewID()
		return p.CreateJob(t.Context(), nil, dlq.Job{ID: id, WorkflowID: id.String(),
			Spec: dlq.JobSpec{Kind: dlq.KindDead, Filter: dlq.Filter{Topic: topic}}})
	}
	bulk, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	dead, err := action("orders")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET spec = spec || '{"within": "^(("}'`)
	require.NoError(t, err)

	_, err = p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders.dlq", 1))
	var busyBulk *dlq.JobBusyError
	require.ErrorAs(t, err, &busyBulk)
	require.Equal(t, bulk.ID, busyBulk.Running)
	_, err = action("orders.dlq")
	var busyAction *dlq.JobBusyError
	require.ErrorAs(t, err, &busyAction)
	require.Equal(t, dead.ID, busyAction.Running)

	_, err = p.CreateJob(t.Context(), nil, dlqtest.Bulk("stock.dlq", 1))
	require.NoError(t, err)
	_, err = action("stock.dlq")
	require.NoError(t, err)
}

// Every limit that a grant makes must be recognised. A limit that is not recognised counts as no limit.
func TestTheLimitsOfAGrantAreRecognised(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), []dlq.Arrival{
		dlqtest.Arrival(dlqtest.FromTopic("Orders_1-a.dlq", "orders")), dlqtest.Arrival(dlqtest.FromTopic("stock.dlq", "orders")),
	}, nil)
	require.NoError(t, err)
	within := func(globs ...string) string {
		g, err := dlq.NewGrant(dlq.RoleOperator, globs)
		require.NoError(t, err)
		principal := dlq.Principal{Grants: []dlq.Grant{g}}
		return principal.Within(dlq.PermJobCreate)
	}
	for _, limits := range []string{within("Orders_1-?.dlq", "azAZ09._-", "x**", "??"), within("stock.*")} {
		_, err = p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1, dlqtest.Filter(dlq.Filter{Topic: "orders", Within: limits})))
		require.NoError(t, err)
		id := dlq.NewID()
		_, err = p.CreateJob(t.Context(), nil, dlq.Job{ID: id, WorkflowID: id.String(),
			Spec: dlq.JobSpec{Kind: dlq.KindDead, Filter: dlq.Filter{Topic: "orders", Within: limits}}})
		require.NoError(t, err)
	}
}

func TestAMessageOfAJobWithAnotherWorkflowIsReleased(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(1)
	_, err := s.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	job, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	claim, _, err := s.NextPage(t.Context(), dlqtest.Lane(job, 0), nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 1)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET workflow_id = 'by hand', in_page = false, last_retry_at = now() - interval '1 day'`)
	require.NoError(t, err)
	owners, err := s.Owners(t.Context(), time.Now().Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, []dlq.Owner{{WorkflowID: "by hand", Token: job.ID.String()}}, owners)
}

func TestAMessageThatWaitsIsQueuedInItsPlaceAlsoIfAnotherRetryHasDeliveredIt(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(1, dlqtest.Key("k"))
	_, err := s.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	owner := dlqtest.Owner()
	_, err = s.Claim(t.Context(), arrivals[0].ID, owner, dlq.ID{})
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0`)
	require.NoError(t, err)
	job, err := s.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	lane := dlqtest.Lane(job, 0)
	claim, _, err := s.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 1)
	_, isKept, err := s.Finalize(t.Context(), owner, dlqtest.Delivered(arrivals[0].ID))
	require.NoError(t, err)
	require.True(t, isKept)

	outcomes := dlqtest.Outcomes(claim.Page, dlq.ResultWaiting)
	outcomes[0].Wait = dlq.Wait{OfKey: true, Tries: 1}
	_, err = s.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)
	var seq [2]int64
	var key [2]int32
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT m.seq, w.seq, m.key_hash, w.key_hash
		FROM dlq.dlq_messages m JOIN dlq.dlq_job_waiting w ON w.message_id = m.id`).Scan(&seq[0], &seq[1], &key[0], &key[1]))
	require.Equal(t, seq[0], seq[1])
	require.Equal(t, dlq.TargetKey(key[0], "orders"), key[1])
}
