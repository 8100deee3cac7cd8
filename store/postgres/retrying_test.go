package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// retrying are the ids of the RETRYING messages in each kind of list, which must agree.
func retrying(t *testing.T, p *postgres.Store, key []byte) []dlq.ID {
	t.Helper()
	var found []dlq.ID
	for i, statuses := range [][]dlq.Status{{dlq.StatusRetrying}, nil, {dlq.StatusRetrying, dlq.StatusPending}} {
		for _, topic := range []string{"orders.dlq", "orders"} {
			page, err := p.List(t.Context(), dlq.ListQuery{Filter: dlq.Filter{Topic: topic, Statuses: statuses, Key: key}, PageSize: 50})
			require.NoError(t, err)
			require.EqualValues(t, len(page.Messages), page.Total)
			var ids []dlq.ID
			for i := range page.Messages {
				if page.Messages[i].Status == dlq.StatusRetrying {
					ids = append(ids, page.Messages[i].ID)
				}
			}
			if i == 0 && topic == "orders.dlq" {
				found = ids
			}
			require.Equal(t, found, ids, "%s %v", topic, statuses)
		}
	}
	return found
}

// claimFirst stores six messages, and claims the first three for a bulk retry and the fourth
// for a single retry.
func claimFirst(t *testing.T, pool *pgxpool.Pool) (p *postgres.Store, arrivals []dlq.Arrival, b dlq.Job, page []dlq.PageEnvelope) {
	t.Helper()
	p = postgres.New(pool, dlqtest.Topics(t))
	arrivals = dlqtest.Arrivals(6)
	_, err := p.Ingest(t.Context(), arrivals[:3], nil)
	require.NoError(t, err)
	b, err = p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	claim, _, err := p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	require.Len(t, claim.Page, 3)
	_, err = p.Ingest(t.Context(), arrivals[3:], nil)
	require.NoError(t, err)
	_, err = p.Claim(t.Context(), arrivals[3].ID, dlqtest.Owner(), dlq.ID{})
	require.NoError(t, err)
	return p, arrivals, b, claim.Page
}

func newestFirst(arrivals ...dlq.Arrival) []dlq.ID {
	ids := make([]dlq.ID, len(arrivals))
	for i := range arrivals {
		ids[len(ids)-1-i] = arrivals[i].ID
	}
	return ids
}

func TestListsHaveTheMessagesThatAreBeingRetried(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, arrivals, b, page := claimFirst(t, pool)
	require.Equal(t, newestFirst(arrivals[:4]...), retrying(t, p, nil))
	key := arrivals[1].Record.Key
	ofKey := slices.DeleteFunc(slices.Clone(arrivals[:4]), func(a dlq.Arrival) bool { return string(a.Record.Key) != string(key) })
	require.Equal(t, newestFirst(ofKey...), retrying(t, p, key))

	_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_messages SET status = 'RETRYING', last_retry_at = now() WHERE id = $1`, [16]byte(arrivals[5].ID))
	require.NoError(t, err)
	require.Equal(t, newestFirst(append(slices.Clone(arrivals[:4]), arrivals[5])...), retrying(t, p, nil))
	_, err = p.FinalizePage(t.Context(), dlqtest.Lane(b, 0), dlqtest.Outcomes(page, dlq.ResultDelivered))
	require.NoError(t, err)
	require.Equal(t, newestFirst(arrivals[3], arrivals[5]), retrying(t, p, nil))
}

// The other program does not know the column in_page.
func TestAMessageThatAnotherProgramTakesFromItsPageIsFoundWhenItIsRetriedAgain(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, arrivals, b, page := claimFirst(t, pool)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`UPDATE dlq.dlq_messages SET status = 'PENDING' WHERE in_page`)
	_, err := p.FinalizePage(t.Context(), dlqtest.Lane(b, 0), dlqtest.Outcomes(page, dlq.ResultFailed))
	require.NoError(t, err)
	exec(`UPDATE dlq.dlq_messages SET status = 'RETRYING' WHERE owner_token = '` + b.ID.String() + `'`)
	require.Equal(t, newestFirst(arrivals[:4]...), retrying(t, p, nil))
}

func TestPagesThatNobodyFinalizesAreFound(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`DELETE FROM dlq.dlq_jobs`,
		`DELETE FROM dlq.dlq_job_lanes`,
		`UPDATE dlq.dlq_jobs SET ended_at = now()`,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			p, arrivals, _, _ := claimFirst(t, pool)
			_, err := pool.Exec(t.Context(), sql)
			require.NoError(t, err)
			require.Equal(t, newestFirst(arrivals[:4]...), retrying(t, p, nil))
		})
	}
}

func TestNothingIsClaimedForAJobThatWasEndedByHand(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p, _, b, _ := claimFirst(t, pool)
	for _, sql := range []string{`UPDATE dlq.dlq_jobs SET ended_at = now(), upper_bound = 1000`, `UPDATE dlq.dlq_messages SET updated_at = '-infinity' WHERE status = 'PENDING'`} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	lane := dlqtest.Lane(b, 0)
	lane.UpperBound = 1000
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	require.Empty(t, claim.Page)
	require.True(t, claim.Stopped)
}

func TestAPageThatIsClaimedWhileItsJobEndsByHandIsFound(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	_, arrivals, _, _ := claimFirst(t, pool)
	claim, err := pool.Begin(t.Context())
	require.NoError(t, err)
	for _, sql := range []string{
		`SELECT FROM dlq.dlq_job_lanes FOR UPDATE`,
		`UPDATE dlq.dlq_messages SET status = 'RETRYING', in_page = true WHERE id = $1`,
		`UPDATE dlq.dlq_job_lanes SET page = page || $1::uuid`,
	} {
		args := []any{[16]byte(arrivals[5].ID)}
		if !strings.Contains(sql, "$1") {
			args = nil
		}
		_, err := claim.Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET ended_at = now()`)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		return len(ended) > 0 || count(t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, claim.Commit(t.Context()))
	require.NoError(t, <-ended)
	require.Zero(t, count(t, pool, invisibleSQL))
}

// invisibleSQL counts RETRYING messages that no list finds.
const invisibleSQL = `
SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING' AND id NOT IN (SELECT id FROM dlq.dlq_retrying WHERE id IS NOT NULL)`

func TestAFinalizeThatWaitedKeepsTheNextPage(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	_, err := p.Ingest(t.Context(), dlqtest.Arrivals(150, dlqtest.NoKey), nil)
	require.NoError(t, err)
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	first, _, err := p.NextPage(t.Context(), dlqtest.Lane(b, 0), nil, true)
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM dlq.dlq_messages WHERE id = $1 FOR UPDATE`, [16]byte(first.Page[0].ID))
	require.NoError(t, err)
	done := make(chan error, 2)
	go func() {
		_, err := p.FinalizePage(t.Context(), dlqtest.Lane(b, 0), dlqtest.Outcomes(first.Page, dlq.ResultDelivered))
		done <- err
	}()
	var second dlq.LaneClaim
	go func() {
		var err error
		second, _, err = p.NextPage(t.Context(), dlqtest.Lane(b, 0), dlqtest.Outcomes(first.Page, dlq.ResultDelivered), true)
		done <- err
	}()
	waitForLocks(t, pool, 2)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Len(t, second.Page, 50)
	require.Zero(t, count(t, pool, invisibleSQL))
	claimed, err := p.ClaimedPage(t.Context(), dlqtest.Lane(b, 0), dlq.PageBytes)
	require.NoError(t, err)
	require.Len(t, claimed.Page, 50)
}

func TestTheSweepFindsMessagesOfPagesThatWereEditedByHand(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{
		"the page is emptied":   `UPDATE dlq.dlq_job_lanes SET page = '{}'`,
		"the lanes are removed": `TRUNCATE dlq.dlq_job_lanes`,
		"the job has no lanes":  `UPDATE dlq.dlq_jobs SET lanes = 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := dbtest.New(t)
			p, _, _, _ := claimFirst(t, pool)
			_, err := pool.Exec(t.Context(), edit)
			require.NoError(t, err)
			require.EqualValues(t, 3, count(t, pool, invisibleSQL))
			_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET state = 'FAILED', ended_at = now()`)
			require.NoError(t, err)
			owners, err := p.Owners(t.Context(), time.Now().Add(time.Hour))
			require.NoError(t, err)
			require.Len(t, owners, 2)
			require.Zero(t, count(t, pool, invisibleSQL))
		})
	}
}

func TestAReleaseThatIsNotCommittedIsNotCounted(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	s := postgres.New(pool, dlqtest.Topics(t))
	a, owner := dlqtest.Arrival(), dlqtest.Owner()
	_, err := s.Ingest(t.Context(), []dlq.Arrival{a}, nil)
	require.NoError(t, err)
	_, err = s.Claim(t.Context(), a.ID, owner, dlq.ID{})
	require.NoError(t, err)
	for _, sql := range []string{
		`CREATE FUNCTION dlq.refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no commit'; END $$`,
		`CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON dlq.dlq_messages DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION dlq.refuse()`,
	} {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	released, err := s.Release(t.Context(), owner, "gone")
	require.ErrorContains(t, err, "no commit")
	require.Zero(t, released)
}
