package console

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"dlqmanager/client"
)

// shop is an API with two topics, of which one is unwell.
func shop() map[string]any {
	old, newer := noon.Add(-time.Hour), noon
	name := "orders.dlq"
	return map[string]any{
		"GET /api/v1/dlq": client.Topics{Topics: []client.Topics_Topics{
			{DlqTopic: "orders.dlq", OriginalTopic: "orders", Counts: client.Topics_Topics_Counts{PENDING: 12431, DEAD: 2}, OldestPending: &newer},
			{DlqTopic: "stock.dlq", OriginalTopic: "stock", Counts: client.Topics_Topics_Counts{PENDING: 1, DEAD: 7}, OldestPending: &old, Lost: 1, IngestHeld: true},
		}},
		"GET /readyz":        client.Ready{Status: "ok", Checks: map[string]string{"kafka": "ok"}},
		"GET /api/v1/series": client.SeriesList{From: old, To: newer, Step: "hour", Series: []client.SeriesList_Series{{DlqTopic: &name, Arrived: 3, Buckets: []int64{3}}}},
		"GET /api/v1/groups": client.GroupList{Groups: []client.Group{{ID: "5f2b1c9e-7a41-8d3f-9c0e-4b6a2d8e1f70", Title: "no stock", State: "open"}}},
		"GET /api/v1/jobs":   client.Jobs{Jobs: []client.Job{}},
	}
}

func TestTheOverviewLeadsFromEachNumberToItsPage(t *testing.T) {
	t.Parallel()
	page := open(t, shop()).get("/")
	require.Equal(t, http.StatusOK, page.Code)
	require.Contains(t, page.text, "12,432")
	require.Contains(t, page.text, `href="/topics/stock.dlq?sort=created_at&amp;status=PENDING"`, "the oldest")
	require.Contains(t, page.text, `href="/topics/stock.dlq?status=DEAD"`, "most of the dead")
	require.Contains(t, page.text, `href="/jobs?state=RUNNING"`)
	require.Contains(t, page.text, "3 in all.")
	require.Contains(t, page.text, `href="/groups/5f2b1c9e-7a41-8d3f-9c0e-4b6a2d8e1f70"`)
}

func TestTheOverviewNamesTopicsThatAreUnwell(t *testing.T) {
	t.Parallel()
	page := open(t, shop()).get("/")
	require.Contains(t, page.text, "The ingest is held")
	require.Contains(t, page.text, "Kafka deleted 1 record before it was stored here.")
	require.NotContains(t, page.text, "All well")
}

func TestAServiceThatIsAwayIsNamed(t *testing.T) {
	t.Parallel()
	v := &visit{prefer: prefer{language: english}}
	body := `{"error": {"code": "SYS_DLQ_UNAVAILABLE", "message": "unavailable: kafka"}, "status": "unavailable", "checks": {"database": "ok", "kafka": "away"}}`
	require.Equal(t, []trouble{{Text: "kafka does not answer (away)."}}, v.away(&client.APIError{Status: 503, Body: []byte(body)}))
	require.Contains(t, v.away(&client.APIError{Status: 503, Message: "too many connections", Body: []byte(`{"error": {}}`)})[0].Text, "too many connections")
	require.Empty(t, v.away(nil))
}

func TestAPartThatOneMayNotSeeLeavesTheOthers(t *testing.T) {
	t.Parallel()
	api := shop()
	forbidden := apiError{http.StatusForbidden, "SYS_DLQ_FORBIDDEN", "no"}
	api["GET /api/v1/groups"], api["GET /api/v1/series"], api["GET /api/v1/jobs"] = forbidden, forbidden, forbidden
	page := open(t, api).get("/")
	require.Equal(t, http.StatusOK, page.Code)
	require.Contains(t, page.text, "Your rights do not include this part.")
	require.Contains(t, page.text, "12,432")
}

func TestAnEmptyInstallationSaysHowTheFirstLetterComesIn(t *testing.T) {
	t.Parallel()
	b := open(t, noTopics)
	page := b.get("/")
	require.Contains(t, page.text, "dlqctl messages send orders.dlq")
	require.Contains(t, page.text, "curl http://example.com/api/v1/dlq/orders.dlq/messages")
	require.Contains(t, page.text, "make demo")
	b.headers[regionHeader] = "start"
	b.api["GET /api/v1/dlq"] = shop()["GET /api/v1/dlq"]
	require.Contains(t, b.get("/").text, "The first dead letter is here.")
}

func TestARegionCallsNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	b := open(t, map[string]any{"GET /api/v1/groups": shop()["GET /api/v1/groups"]})
	b.headers[regionHeader] = "causes"
	require.Equal(t, http.StatusOK, b.get("/").Code, "topics would fail")
}

func TestTheRateOfArrivalsLeavesOutTheMinuteThatIsNotOver(t *testing.T) {
	t.Parallel()
	list := client.SeriesList{Series: []client.SeriesList_Series{{Buckets: []int64{100, 1, 1, 1, 1, 1, 50}}, {Buckets: []int64{0, 0, 0, 0, 0, 5, 0}}}}
	require.InDelta(t, 2.0, perMinute(&list), 0.001)
	require.Zero(t, perMinute(&client.SeriesList{Series: []client.SeriesList_Series{{}}}))
}

func TestAMonthOfArrivalsIsShownByDays(t *testing.T) {
	t.Parallel()
	name := "a.dlq"
	buckets := make([]int64, 720)
	buckets[0], buckets[719] = 1, 2
	v := &visit{prefer: prefer{language: english}}
	c := arrivalsChart(v, client.SeriesList{From: noon.Add(-720 * time.Hour), To: noon, Step: "hour", Series: []client.SeriesList_Series{{DlqTopic: &name, Buckets: buckets}}}, true)
	require.Len(t, c.Columns(), 30)
	require.Equal(t, noon, c.To())
	require.Equal(t, int64(3), c.Sum())
	require.True(t, c.IsLong())
}
