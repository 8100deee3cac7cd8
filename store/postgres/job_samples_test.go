package postgres_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"dlqmanager/dlq"
	"dlqmanager/internal/dbtest"
	"dlqmanager/internal/dlqtest"
	"dlqmanager/store/postgres"
)

// sampledJobs is a database with a running retry that has sent a page, and a running change.
func sampledJobs(t *testing.T) (pool *pgxpool.Pool, p *postgres.Store, retry, change dlq.Job) {
	t.Helper()
	pool = dbtest.New(t)
	p, lane := openLane(t, pool, dlqtest.Bulk("orders", 1), append(dlqtest.Arrivals(3), dlqtest.Arrivals(2, dlqtest.Topic("users"))...))
	claim, _, err := p.NextPage(t.Context(), lane, nil, true)
	require.NoError(t, err)
	outcomes := dlqtest.Outcomes(claim.Page, dlq.ResultDelivered)
	outcomes[0].Result = dlq.ResultFailed
	_, err = p.FinalizePage(t.Context(), lane, outcomes)
	require.NoError(t, err)
	change = dlqtest.Change(dlq.KindDead, dlq.Filter{Topic: "users"})
	_, err = p.CreateJob(t.Context(), nil, change)
	require.NoError(t, err)
	_, err = p.Act(t.Context(), change, 10)
	require.NoError(t, err)
	retry, err = p.Job(t.Context(), lane.Job)
	require.NoError(t, err)
	return pool, p, retry, change
}

func samplesOf(t *testing.T, p *postgres.Store, id dlq.ID) []dlq.JobSample {
	t.Helper()
	samples, err := p.JobSamples(t.Context(), id)
	require.NoError(t, err)
	return samples
}

const agedSQL = `UPDATE dlq.dlq_jobs SET started_at = now() - $1 * interval '1 second'`

func TestASampleHasTheCountsOfItsJob(t *testing.T) {
	t.Parallel()
	_, p, retry, change := sampledJobs(t)
	before, err := p.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.SampleJobs(t.Context()))
	samples := samplesOf(t, p, retry.ID)
	require.Len(t, samples, 1)
	require.Equal(t, dlq.JobCounts{Retried: 2, Failed: 1}, samples[0].Counts)
	require.False(t, samples[0].At.Before(before))
	samples = samplesOf(t, p, change.ID)
	require.Len(t, samples, 1)
	require.Equal(t, dlq.JobCounts{Changed: 2}, samples[0].Counts)
	require.Empty(t, samplesOf(t, p, dlq.NewID()))
}

func TestSamplersAtOnceAddOneSample(t *testing.T) {
	t.Parallel()
	pool, p, retry, change := sampledJobs(t)
	_, err := pool.Exec(t.Context(), agedSQL, 40*3600) // five seconds before the next sample
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO dlq.dlq_job_samples SELECT id, n, now() - interval '1 hour', 0, 0, 0, 0, 0 FROM dlq.dlq_jobs, generate_series(1, 400) AS n`)
	require.NoError(t, err)
	var group sync.WaitGroup
	failures := make([]error, 8)
	for i := range failures {
		group.Go(func() { failures[i] = p.SampleJobs(t.Context()) })
	}
	group.Wait()
	require.NoError(t, errors.Join(failures...))
	for _, id := range []dlq.ID{retry.ID, change.ID} {
		samples := samplesOf(t, p, id)
		require.Len(t, samples, 2, "the tick 256, and the new one")
		_, err = pool.Exec(t.Context(), agedSQL, 40*3600)
		require.NoError(t, err)
		require.NoError(t, p.SampleJobs(t.Context()))
		require.Equal(t, samples, samplesOf(t, p, id), "it is too early")
	}
}

func TestSamplesAreThinnedOutWhileAJobGrowsOld(t *testing.T) {
	t.Parallel()
	pool, p, retry, _ := sampledJobs(t)
	last := 0
	for tick := range 3 * dlq.MaxSamples {
		_, err := pool.Exec(t.Context(), agedSQL, float64(tick)*dlq.SampleInterval.Seconds())
		require.NoError(t, err)
		require.NoError(t, p.SampleJobs(t.Context()))
		kept := len(samplesOf(t, p, retry.ID))
		require.LessOrEqual(t, kept, dlq.MaxSamples)
		require.GreaterOrEqual(t, kept, min(last, dlq.MaxSamples/2))
		last = kept
	}
	require.Equal(t, 3*dlq.MaxSamples/4+3, last, "every fourth, and the newest three")
	require.Zero(t, count(t, pool, `SELECT count(*) FROM dlq.dlq_job_samples WHERE tick % 4 <> 0 AND tick < $1`, 3*dlq.MaxSamples-3))
}

func TestAJobThatHasEndedKeepsItsSamplesAndGetsNoMore(t *testing.T) {
	t.Parallel()
	pool, p, retry, change := sampledJobs(t)
	require.NoError(t, p.SampleJobs(t.Context()))
	_, err := p.EndJob(t.Context(), nil, retry.ID, dlq.JobCompleted, "")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), agedSQL, 60)
	require.NoError(t, err)
	require.NoError(t, p.SampleJobs(t.Context()))
	require.Len(t, samplesOf(t, p, retry.ID), 1)
	require.Len(t, samplesOf(t, p, change.ID), 2)
	_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_jobs WHERE id = $1`, [16]byte(retry.ID))
	require.NoError(t, err)
	require.Empty(t, samplesOf(t, p, retry.ID))
	require.Len(t, samplesOf(t, p, change.ID), 2)
}

func TestJobsWithTimesEditedByHandAreSampled(t *testing.T) {
	t.Parallel()
	pool, p, retry, change := sampledJobs(t)
	for n, at := range []string{"infinity", "-infinity", "4000-01-01 BC"} {
		_, err := pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET started_at = $1, spec = '7' WHERE id = $2`, at, [16]byte(retry.ID))
		require.NoError(t, err)
		require.NoError(t, p.SampleJobs(t.Context()), at)
		require.NotEmpty(t, samplesOf(t, p, retry.ID), n)
		require.NotEmpty(t, samplesOf(t, p, change.ID), n)
	}
}

func TestTheRecentRateDecays(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	p := postgres.New(pool, dlqtest.Topics(t))
	b, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET started_at = now() - interval '1 hour'`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_job_lanes SET retried = 700, failed = 200, dead = 100`)
	require.NoError(t, err)
	type sample struct {
		age  string
		sent int
	}
	for _, test := range []struct {
		samples []sample // the newest first
		want    float64
	}{
		{[]sample{{"1 second", 980}, {"5 seconds", 900}, {"11 seconds", 0}}, 20},
		{[]sample{{"4 seconds", 980}, {"8 seconds", 840}, {"13 seconds", 0}}, 20},
		{[]sample{{"1 second", 980}, {"4 seconds", 940}, {"8 seconds", 840}, {"8.5 seconds", 0}}, 20}, // at most three are read
		{[]sample{{"0 seconds", 980}}, 20},                                                            // over a second at least
		{[]sample{{"3 seconds", 1000}, {"8 seconds", 1000}, {"13 seconds", 0}}, 0},
		{[]sample{{"5 seconds", 1500}}, 0},                                                   // edited by hand
		{[]sample{{"-3 hours", 0}, {"-2 hours", 0}, {"-1 hour", 0}, {"5 seconds", 900}}, 20}, // the clock was set back
		{[]sample{{"11 seconds", 980}, {"16 seconds", 840}}, 0},
		{[]sample{{"1 day", 0}}, 0},
		{nil, 0},
	} {
		_, err = pool.Exec(t.Context(), `DELETE FROM dlq.dlq_job_samples`)
		require.NoError(t, err)
		for i, s := range test.samples {
			_, err = pool.Exec(t.Context(), `INSERT INTO dlq.dlq_job_samples SELECT $1, $2, now() - $3::text::interval, $4 - 1, 0, 1, 0, 7`,
				[16]byte(b.ID), 1000-i, s.age, s.sent)
			require.NoError(t, err)
		}
		found, err := p.Job(t.Context(), b.ID)
		require.NoError(t, err)
		require.InDelta(t, test.want, found.RecentPerSecond, 2, "%v", test.samples)
	}
	_, err = p.EndJob(t.Context(), nil, b.ID, dlq.JobCompleted, "")
	require.NoError(t, err)
	for _, test := range []struct {
		age  string
		want float64
	}{{"5 seconds", 0.2}, {"15 seconds", 0}, {"1 hour", 0}} {
		_, err = p.Ingest(t.Context(), dlqtest.Arrivals(1), nil)
		require.NoError(t, err)
		one, err := p.CreateJob(t.Context(), nil, dlqtest.Bulk("orders", 1))
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), `UPDATE dlq.dlq_jobs SET started_at = now() - $2::text::interval WHERE id = $1`, [16]byte(one.ID), test.age)
		require.NoError(t, err)
		lane := dlqtest.Lane(one, 0)
		claim, _, err := p.NextPage(t.Context(), lane, nil, true)
		require.NoError(t, err)
		require.Len(t, claim.Page, 1)
		_, err = p.FinalizePage(t.Context(), lane, dlqtest.Outcomes(claim.Page, dlq.ResultDelivered))
		require.NoError(t, err)
		found, err := p.Job(t.Context(), one.ID)
		require.NoError(t, err)
		require.InDelta(t, test.want, found.RecentPerSecond, 0.1, test.age)
		_, err = p.EndJob(t.Context(), nil, one.ID, dlq.JobCompleted, "")
		require.NoError(t, err)
	}
}
