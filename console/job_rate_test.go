package console

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// point is the counts of a retry some seconds after noon.
func point(seconds float64, retried, failed int64) client.JobPoint {
	return client.JobPoint{At: noon.Add(time.Duration(seconds * float64(time.Second))), Retried: retried, Failed: failed}
}

func rateOf(t *testing.T, job map[string]any, points ...client.JobPoint) string {
	t.Helper()
	api := jobAPI(job)
	api["GET /api/v1/jobs/"+otherJob+"/series"] = client.JobSeries{Points: points}
	return open(t, api).get("/jobs/" + otherJob).text
}

func TestAJobShowsItsRateOverTime(t *testing.T) {
	t.Parallel()
	text := rateOf(t, retryJob(), point(0, 0, 0), point(5, 500, 0), point(10, 500, 0), point(17, 1200, 3))
	require.Contains(t, text, "<h2>Rate over time</h2>")
	require.Contains(t, text, `<title id="rate-title">Messages sent in each 5 s</title>`)
	require.Contains(t, text, "1,002 in all. Most from 2026-11-27 12:00:10 UTC: 502.", "the step that is not over is left out")
	require.Contains(t, text, "<p>Messages sent in each 5 s; at its fastest 100 per second</p>")
	require.Contains(t, text, `data-local="second">12:00:00 UTC</time>`)
	require.Equal(t, 3, strings.Count(text, `<th scope="row"><time`), "rows of the table")
	require.Contains(t, text, `<bdi>not delivered</bdi>`)
	text = rateOf(t, retryJob(map[string]any{"state": "COMPLETED", "ended_at": "2026-11-27T12:00:17Z"}), point(0, 0, 0), point(17, 1200, 0))
	require.Contains(t, text, "1,200 in all.", "the last step is the end")
	require.Equal(t, 4, strings.Count(text, `<th scope="row"><time`))
	require.NotContains(t, text, `<bdi>not delivered</bdi>`)
	changed := point(10, 0, 0)
	changed.Changed = 4000
	text = rateOf(t, changeJob(), point(0, 0, 0), changed)
	require.Contains(t, text, "Messages changed in each 5 s")
	require.Contains(t, text, "4,000 in all.")
	require.Contains(t, text, "<p>1.0 per second over the last ten seconds</p>")
}

func TestAShortJobShowsItsAverageAndNoChart(t *testing.T) {
	t.Parallel()
	ended := map[string]any{"state": "COMPLETED", "ended_at": "2026-11-27T12:00:03Z"}
	slow := retryJob(ended, map[string]any{"per_second": 0.004})
	for text, want := range map[string]string{
		rateOf(t, retryJob(ended), point(0, 0, 0), point(3, 1200, 0)):  "<p>5.0 per second on average (limit 5)</p>",
		rateOf(t, changeJob(ended), point(0, 0, 0), point(3, 0, 0)):    "<p>1.0 per second on average</p>",
		rateOf(t, retryJob(), point(0, 0, 0), point(9, 100, 0)):        "5.0 per second over the last ten seconds",
		rateOf(t, slow, point(0, 0, 0), point(3, 1, 0)):                "<p>&lt;0.1 per second on average (limit 5)</p>",
		rateOf(t, retryJob(ended), point(9, 0, 0), point(-9, 1200, 0)): "<p>5.0 per second on average (limit 5)</p>", // edited by hand
	} {
		require.Contains(t, text, want)
		require.NotContains(t, text, "Rate over time")
	}
}

func TestAJobWithoutItsSeriesIsShownNevertheless(t *testing.T) {
	t.Parallel()
	api := jobAPI(retryJob())
	api["GET /api/v1/jobs/"+otherJob+"/series"] = apiError{http.StatusServiceUnavailable, "SYS_DLQ_UNAVAILABLE", "the database is away"}
	text := open(t, api).get("/jobs/" + otherJob).text
	require.Contains(t, text, "20 of 100 sent")
	require.Contains(t, text, `<h2>Rate over time</h2><p class="help">`)
}

func TestTheChartOfAJobHasAtMostSixtyColumnsWhichSumUp(t *testing.T) {
	t.Parallel()
	v := &visit{prefer: prefer{language: english}}
	for seconds, title := range map[float64]string{
		299: "Messages sent in each 5 s", 301: "Messages sent in each 10 s", 3000: "Messages sent in each 1 min", 20000: "Messages sent in each 10 min",
		3600 * 40: "Messages sent in each 1 h", 86400 * 100: "Messages sent in each 2 d", 86400 * 36500: "Messages sent in each 1,024 d",
	} {
		points := []client.JobPoint{point(2, 0, 0)}
		for i := range 65 {
			points = append(points, point(2+seconds*float64(i+1)/65, int64(i+1)*1001, int64(i)))
		}
		j := job{RetryJob: client.RetryJob{Kind: "retry", State: client.JobStateCOMPLETED}}
		c := v.rateChart(j, points)
		require.Equal(t, title, c.Title)
		require.LessOrEqual(t, len(c.Columns()), 61)
		require.EqualValues(t, 65*1001+64, c.Sum())
		require.False(t, c.From.After(points[0].At))
		require.False(t, c.To().Before(points[65].At))
		require.Equal(t, points[0].At, c.From)
	}
	require.Nil(t, v.rateChart(job{}, nil))
}

// Counts shrink only if somebody has edited the job's row by hand.
func TestStepsDivideACountEvenlyBetweenItsPoints(t *testing.T) {
	t.Parallel()
	retried := func(p client.JobPoint) int64 { return p.Retried }
	points := []client.JobPoint{point(2, 0, 0), point(4, 30, 0), point(14, 130, 0), point(24, 130, 0), point(27, 100, 0), point(30, 140, 0)}
	require.Equal(t, []int64{40, 50, 40, 0, 0, 10}, perStep(points, noon, 5*time.Second, 6, retried))
	require.Equal(t, []int64{0, 0}, perStep(points[:1], noon, 5*time.Second, 2, retried))
	huge := []client.JobPoint{point(0, 1<<62, 0), point(10, 1<<62+10, 0)}
	require.Equal(t, []int64{5, 5}, perStep(huge, noon, 5*time.Second, 2, retried), "exact beyond 2^53")
}
