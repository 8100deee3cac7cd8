package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync"
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

func count(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func TestEveryCallReportsAnUnavailableDatabase(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	unreachable := "postgres://postgres@" + listener.Addr().String() + "/dlq?sslmode=disable"
	require.NoError(t, listener.Close())
	closed := dbtest.Pool(t, dbtest.URL(t))
	closed.Close()
	for name, pool := range map[string]*pgxpool.Pool{"refused": dbtest.Pool(t, unreachable), "closed": closed} {
		p := postgres.New(pool, dlqtest.Topics(t))
		id := dlq.NewID()
		lane := dlqtest.Lane(dlqtest.Bulk("orders", 1), 0)
		for call, do := range map[string]func(context.Context) error{
			"Ingest":   func(ctx context.Context) error { _, err := p.Ingest(ctx, dlqtest.Arrivals(2), nil); return err },
			"Topics":   func(ctx context.Context) error { _, err := p.Topics(ctx); return err },
			"List":     func(ctx context.Context) error { _, err := p.List(ctx, dlq.ListQuery{}); return err },
			"Detail":   func(ctx context.Context) error { _, err := dlqtest.Detail(ctx, p, id); return err },
			"Message":  func(ctx context.Context) error { _, err := p.Message(ctx, id); return err },
			"Delete":   func(ctx context.Context) error { return p.Delete(ctx, nil, id) },
			"MarkDead": func(ctx context.Context) error { _, err := p.MarkDead(ctx, nil, id); return err },
			"Ping":     p.Ping,
			"Claim":    func(ctx context.Context) error { _, err := p.Claim(ctx, id, dlqtest.Owner(), dlq.ID{}); return err },
			"Finalize": func(ctx context.Context) error {
				_, _, err := p.Finalize(ctx, dlqtest.Owner(), dlqtest.Delivered(id))
				return err
			},
			"Owners":    func(ctx context.Context) error { _, err := p.Owners(ctx, time.Now()); return err },
			"Now":       func(ctx context.Context) error { _, err := p.Now(ctx); return err },
			"JobOwners": func(ctx context.Context) error { _, err := p.JobOwners(ctx, time.Now()); return err },
			"Release":   func(ctx context.Context) error { _, err := p.Release(ctx, dlqtest.Owner(), ""); return err },
			"CreateJob": func(ctx context.Context) error {
				_, err := p.CreateJob(ctx, nil, dlqtest.Bulk("orders", 1))
				return err
			},
			"ClaimedPage":     func(ctx context.Context) error { _, err := p.ClaimedPage(ctx, lane, dlq.PageBytes); return err },
			"NextPage":        func(ctx context.Context) error { _, _, err := p.NextPage(ctx, lane, nil, true); return err },
			"FinalizePage":    func(ctx context.Context) error { _, err := p.FinalizePage(ctx, lane, nil); return err },
			"OpenLane":        func(ctx context.Context) error { _, err := p.OpenLane(ctx, id, 0, dlq.LaneAttempt{}); return err },
			"ReleasePage":     func(ctx context.Context) error { return p.ReleasePage(ctx, lane) },
			"StopJob":         func(ctx context.Context) error { _, err := p.StopJob(ctx, nil, id, dlq.JobPausing, ""); return err },
			"PauseJob":        func(ctx context.Context) error { _, err := p.PauseJob(ctx, nil, id, ""); return err },
			"HasClosedTarget": func(ctx context.Context) error { _, err := p.HasClosedTarget(ctx, id); return err },
			"ResumeJob":       func(ctx context.Context) error { _, err := p.ResumeJob(ctx, nil, id); return err },
			"SetJobRate":      func(ctx context.Context) error { return p.SetJobRate(ctx, nil, id, 1) },
			"SetStepLimit":    func(ctx context.Context) error { return p.SetStepLimit(ctx, id, nil) },
			"RunningRetries":  func(ctx context.Context) error { _, err := p.RunningRetries(ctx); return err },
			"PreviewJob":      func(ctx context.Context) error { _, err := p.PreviewJob(ctx, dlq.JobSpec{}); return err },
			"EndJob":          func(ctx context.Context) error { _, err := p.EndJob(ctx, nil, id, dlq.JobFailed, ""); return err },
			"Bulk":            func(ctx context.Context) error { _, err := p.Job(ctx, id); return err },
			"Bulks":           func(ctx context.Context) error { _, err := p.Jobs(ctx, dlq.JobQuery{PageSize: 1}); return err },
			"ArchiveBatch":    func(ctx context.Context) error { _, err := p.ArchiveBatch(ctx, dlq.ArchiveRun{}, 0, 1); return err },
			"PurgeBatch":      func(ctx context.Context) error { _, err := p.PurgeBatch(ctx, dlq.ArchiveRun{}, 0, 1); return err },
		} {
			require.ErrorIs(t, do(t.Context()), dlq.ErrUnavailable, "%s, %s", name, call)
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := do(cancelled); name == "refused" {
				require.ErrorIs(t, err, context.Canceled, call)
				require.NotErrorIs(t, err, dlq.ErrUnavailable, call)
			}
		}
	}
}

func TestEveryWriteReportsAReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	require.NoError(t, postgres.New(pool, dlqtest.Topics(t)).Ping(t.Context()))
	name := pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()
	_, err := pool.Exec(t.Context(), `ALTER DATABASE `+name+` SET default_transaction_read_only = on`)
	require.NoError(t, err)
	p := postgres.New(dbtest.Pool(t, pool.Config().ConnString()), dlqtest.Topics(t))
	require.ErrorIs(t, p.Ping(t.Context()), dlq.ErrReadOnly)
	_, err = p.Ingest(t.Context(), dlqtest.Arrivals(1), nil)
	require.ErrorIs(t, err, dlq.ErrReadOnly)
	_, err = p.Topics(t.Context())
	require.NoError(t, err)
}

func TestAnExhaustedPoolIsUnavailable(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := postgres.New(pool, dlqtest.Topics(t)).Message(ctx, dlq.NewID())
	require.ErrorIs(t, err, dlq.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestABrokenConnectionIsUnavailableOnce(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	stored, err := p.Ingest(t.Context(), dlqtest.Arrivals(1), nil)
	require.NoError(t, err)
	require.Len(t, stored, 1)
	admin, err := pgx.Connect(t.Context(), dbtest.URL(t))
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	_, err = admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := p.Topics(t.Context())
		if err != nil {
			require.ErrorIs(t, err, dlq.ErrUnavailable)
		}
		return err == nil
	}, 10*time.Second, time.Millisecond)
}

func TestArchivingWhileMessagesChangeLosesNothing(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	const messages = 1200
	arrivals := dlqtest.Arrivals(messages)
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)

	working, done := context.WithCancel(t.Context())
	var workers, archivers sync.WaitGroup
	failures := make(chan error, 16)
	for w := range 4 {
		workers.Go(func() {
			for i := w; i < messages; i += 4 {
				owner := dlqtest.Owner()
				if _, err := p.Claim(t.Context(), arrivals[i].ID, owner, dlq.ID{}); err != nil {
					failures <- err
					return
				}
				result := []dlq.Result{dlq.ResultDelivered, dlq.ResultRejected, dlq.ResultFailed}[i%3]
				_, _, err := p.Finalize(t.Context(), owner, dlqtest.Outcome(arrivals[i].ID, result))
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	for range 3 {
		archivers.Go(func() {
			for working.Err() == nil {
				if _, err := p.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 7); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	workers.Wait()
	done()
	archivers.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	for {
		moved, err := p.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 100)
		require.NoError(t, err)
		if moved == 0 {
			break
		}
	}
	require.EqualValues(t, messages/3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'PENDING'`))
	require.EqualValues(t, messages/3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages`))
	require.EqualValues(t, messages/3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE status = 'RESOLVED'`))
	require.EqualValues(t, messages/3, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE status = 'DEAD'`))
	require.EqualValues(t, messages, count(t, pool, `SELECT count(DISTINCT seq) FROM
		(SELECT seq FROM dlq.dlq_messages UNION ALL SELECT seq FROM dlq.dlq_messages_archive) AS every_message`))
	require.EqualValues(t, messages, count(t, pool, `SELECT count(*) FROM dlq.dlq_message_bodies`), "bodies stay until the purge")
	require.EqualValues(t, 2*messages/3, count(t, pool, `SELECT count(*) FROM dlq.dlq_retry_attempts`))
}

func TestAPurgeLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	a := dlqtest.Arrival()
	_, err := p.Ingest(t.Context(), []dlq.Arrival{a}, nil)
	require.NoError(t, err)
	owner := dlqtest.Owner()
	_, err = p.Claim(t.Context(), a.ID, owner, dlq.ID{})
	require.NoError(t, err)
	_, _, err = p.Finalize(t.Context(), owner, dlq.Outcome{ID: a.ID, Result: dlq.ResultRejected, Category: dlq.CategoryBadData})
	require.NoError(t, err)
	_, err = p.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 1)
	require.NoError(t, err)
	purged, err := p.PurgeBatch(t.Context(), dlq.ArchiveRun{}, 0, 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, purged)
	for _, table := range []string{"dlq_messages", "dlq_messages_archive", "dlq_message_bodies", "dlq_retry_attempts"} {
		require.Zero(t, count(t, pool, "SELECT count(*) FROM dlq."+table), table)
	}
}

// Another program may know only the documented columns.
func TestARowWithOnlyTheDocumentedColumnsIsAMessage(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	var id dlq.ID
	require.NoError(t, pool.QueryRow(t.Context(), `INSERT INTO dlq.dlq_messages (original_topic, error_message, payload)
		VALUES ('orders', 'boom', '{"order": 1}') RETURNING id`).Scan((*[16]byte)(&id)))

	topics, err := p.Topics(t.Context())
	require.NoError(t, err)
	require.Len(t, topics, 1)
	require.Equal(t, "orders", topics[0].DLQTopic)
	require.Equal(t, map[dlq.Status]int64{dlq.StatusPending: 1}, topics[0].Counts)
	page, err := p.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders"}, PageSize: 1})
	require.NoError(t, err)
	require.Len(t, page.Messages, 1)
	d, err := dlqtest.Detail(t.Context(), p, id)
	require.NoError(t, err)
	require.JSONEq(t, `{"order": 1}`, string(d.Record.Value))

	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	envelopes := claim.Page
	require.Len(t, envelopes, 1)
	require.JSONEq(t, `{"order": 1}`, string(envelopes[0].Record.Value))
	require.Nil(t, envelopes[0].Record.Key)
}

// Another program may set any created_at, and a server's clock may go back. Lists are
// sorted by time, retries by the order of arrival.
func TestListsFollowTheTimeAndRetriesTheArrival(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := pool.Exec(t.Context(), `
		INSERT INTO dlq.dlq_messages (original_topic, dlq_topic, error_message, created_at, status)
		SELECT 'orders', 'orders.dlq', n::text, timestamptz '2026-02-20 10:30:00Z' + n % 5 * interval '1 h', CASE WHEN n % 3 = 0 THEN 'DEAD' ELSE 'PENDING' END
		FROM generate_series(0, 9) AS n ORDER BY n`)
	require.NoError(t, err)
	names := func(q dlq.ListQuery) (names string) {
		q.Topic, q.PageSize = "orders", 2
		for page := (dlq.Page{HasNext: true}); page.HasNext; {
			page, err = p.List(t.Context(), q)
			require.NoError(t, err)
			for _, m := range page.Messages {
				names += m.ErrorMessage
				key := m.Keyset()
				q.After = &key
			}
		}
		return names
	}
	require.Equal(t, "9483726150", names(dlq.ListQuery{}))
	require.Equal(t, "0516273849", names(dlq.ListQuery{OldestFirst: true}))
	from := time.Date(2026, 2, 20, 11, 30, 0, 0, time.UTC)
	require.Equal(t, "837261", names(dlq.ListQuery{Filter: dlq.Filter{CreatedFrom: from, CreatedTo: from.Add(3 * time.Hour)}}))
	topics, err := p.Topics(t.Context())
	require.NoError(t, err)
	require.Equal(t, from.Add(3*time.Hour), topics[0].NewestArrival)
	require.Equal(t, from.Add(-time.Hour), *topics[0].OldestPending)

	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	var seqs []int64
	for _, e := range claim.Page {
		seqs = append(seqs, e.Seq)
	}
	require.Equal(t, []int64{2, 3, 5, 6, 8, 9}, seqs)
}

// The messages of a frequent key are found by their topic rather than by the key.
func TestAFrequentKeyIsListedToo(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := []dlq.Arrival{dlqtest.Arrival(dlqtest.Key("k")), dlqtest.Arrival(dlqtest.Key("other")), dlqtest.Arrival(dlqtest.Key("k"))}
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	check := func() {
		page, err := p.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: "orders", Key: []byte("k")}, PageSize: 1})
		require.NoError(t, err)
		require.Len(t, page.Messages, 1)
		require.Equal(t, arrivals[2].ID, page.Messages[0].ID)
		require.True(t, page.HasNext)
		require.EqualValues(t, 2, page.Total)
	}
	check()
	_, err = pool.Exec(t.Context(), `
		INSERT INTO dlq.dlq_message_bodies (message_id, key, key_hash, headers)
		SELECT gen_random_uuid(), 'k', $1::int, '' FROM generate_series(1, 20000)`, dlq.KeyHash([]byte("k"), dlq.ID{}))
	require.NoError(t, err)
	check()
}

func TestAPlanHasTheTimeoutOfItsCaller(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	shortTimeout := dbtest.Pool(t, url+"&statement_timeout=300&pool_max_conns=1")
	p := postgres.New(shortTimeout, dlqtest.Topics(t))
	spec := dlqtest.Bulk("orders", 1).Spec
	first, err := p.PreviewJob(t.Context(), spec) // so that its statements are prepared
	require.NoError(t, err)
	tx, err := dbtest.Pool(t, url).Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), `LOCK dlq.dlq_messages`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err = p.PreviewScope(ctx, spec, first.Scope)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A page whose messages are all locked is not the end of the lane.
func TestALockedPageIsNotTheEnd(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	arrivals := dlqtest.Arrivals(dlq.PageSize + 1)
	_, err := p.Ingest(t.Context(), arrivals, nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	last := arrivals[dlq.PageSize].ID
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_messages WHERE id <> $1 FOR UPDATE`, [16]byte(last))
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	require.Empty(t, claim.Page)
	require.NotZero(t, claim.Wait)
	claim, _, err = p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 1)
	require.Equal(t, last, claim.Page[0].ID)
}

// EndJob and the lanes lock the same rows. The transaction that waited must see the changes of the
// other transaction.
func TestNothingIsLeftRetryingWhenTheEndRacesWithTheLanes(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(20*dlq.PageSize), nil)
	require.NoError(t, err)
	for range 5 {
		b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 4))
		require.NoError(t, err)
		var lanes sync.WaitGroup
		started := make(chan struct{}, 8)
		failures := make([]error, 4)
		for number := range 4 {
			lanes.Go(func() {
				lane := dlqtest.Lane(b, number)
				for first := true; ; first = false {
					claim, _, err := p.NextPage(t.Context(), lane, nil, true)
					page := claim.Page
					if err == nil && len(page) > 0 {
						_, err = p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(page, dlq.ResultWaiting))
					}
					if errors.Is(err, dlq.ErrFenced) || claim.Stopped {
						started <- struct{}{}
						return
					}
					if first {
						started <- struct{}{}
					}
					if failures[number] = err; err != nil || len(page) == 0 && claim.Wait == 0 {
						return
					}
				}
			})
		}
		<-started
		_, err = p.EndJob(t.Context(), nil, b.ID, dlq.JobCancelled, "")
		require.NoError(t, err)
		lanes.Wait()
		require.NoError(t, errors.Join(failures...))
		require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING'`))
	}
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_messages WHERE retry_count <> 0`))
}

func TestAChangeOfStatusDoesNotWriteTheBody(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	a := dlqtest.Arrival()
	_, err := p.Ingest(t.Context(), []dlq.Arrival{a}, nil)
	require.NoError(t, err)
	version := func() (v string) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT xmin || ' ' || ctid FROM dlq.dlq_message_bodies`).Scan(&v))
		return v
	}
	before := version()
	owner := dlqtest.Owner()
	_, err = p.Claim(t.Context(), a.ID, owner, dlq.ID{})
	require.NoError(t, err)
	_, _, err = p.Finalize(t.Context(), owner, dlqtest.Delivered(a.ID))
	require.NoError(t, err)
	_, err = p.ArchiveBatch(t.Context(), dlq.ArchiveRun{}, 0, 1)
	require.NoError(t, err)
	require.Equal(t, before, version())
}

func TestIngestReportsAReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	_, err := pool.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	require.NoError(t, err)
	p := postgres.New(dbtest.Pool(t, pool.Config().ConnString()), dlqtest.Topics(t))
	_, err = p.Ingest(t.Context(), dlqtest.Arrivals(1), nil)
	require.ErrorIs(t, err, dlq.ErrReadOnly)
	require.ErrorIs(t, err, dlq.ErrUnavailable)
}
