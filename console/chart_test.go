package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func drawn(t *testing.T, c chart) string {
	t.Helper()
	pages, err := parseTemplates("")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, pages[english]["overview"].ExecuteTemplate(&out, "chart", c))
	return out.String()
}

func TestAChartStacksItsSeries(t *testing.T) {
	t.Parallel()
	c := chart{ID: "a", From: noon, Step: time.Hour, Series: []line{{"x", 1, []int64{30, 0}}, {"y", 2, []int64{70, 4}}}}
	columns := c.Columns()
	require.Len(t, columns, 2)
	require.Equal(t, int64(100), columns[0].Sum)
	require.Equal(t, []string{"125.0", "45.0"}, []string{columns[0].Parts[0].Y, columns[0].Parts[0].Height}, "of 100 at the top")
	require.Equal(t, []string{"20.0", "105.0"}, []string{columns[0].Parts[1].Y, columns[0].Parts[1].Height}, "on top of x")
	require.Equal(t, "50.000%", columns[1].X)
	require.Equal(t, int64(104), c.Sum())
	require.Equal(t, noon, c.Peak().From)
}

func TestAChartIsReadWithoutSeeingIt(t *testing.T) {
	t.Parallel()
	text := drawn(t, chart{ID: "a", Title: "Arrivals", From: noon, Step: time.Hour, Series: []line{{"x", 1, []int64{1, 2}}, {"y", 2, []int64{3, 4000}}}})
	require.Contains(t, text, `role="img" aria-labelledby="a-title a-desc"`)
	require.Contains(t, text, "4,006 in all. Most from 2026-11-27 13:00 UTC: 4,002.")
	require.Equal(t, 2, strings.Count(text, `<th scope="row">`))
	require.NotContains(t, text, "style=")
}

func TestNamesOfSeriesStayText(t *testing.T) {
	t.Parallel()
	text := drawn(t, chart{
		ID: "a", Title: "</title><script>", From: noon, Step: time.Hour, Series: []line{{"</title><script>", 1, []int64{1}}, {"y", 2, []int64{1}}},
		Marks: []mark{{noon, "fixed", "</svg><script>"}},
	})
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, "</svg><")
}

func TestAChartWithoutNumbersIsDrawn(t *testing.T) {
	t.Parallel()
	require.Contains(t, drawn(t, chart{ID: "a", From: noon, Step: time.Hour}), "0 in all.")
	require.Contains(t, drawn(t, chart{ID: "a", From: noon, Step: time.Hour, Series: []line{{"x", 1, []int64{0, -1}}}, Marks: []mark{{noon, "held", "m"}}}), "0 in all.")
}

func TestASmallNumberIsVisibleBesideALargeOne(t *testing.T) {
	t.Parallel()
	c := chart{From: noon, Step: time.Hour, Series: []line{{"x", 1, []int64{1, 0, 1_000_000}}}}
	require.Equal(t, "1.5", c.Columns()[0].Parts[0].Height)
	require.Equal(t, "0.0", c.Columns()[1].Parts[0].Height)
}

func TestMarksThatWouldCoverEachOtherHaveRows(t *testing.T) {
	t.Parallel()
	c := chart{From: noon, Step: time.Hour, Series: []line{{"x", 1, make([]int64, 24)}}, Marks: []mark{
		{noon.Add(10 * time.Minute), "", "second"}, {noon, "", "first"}, {noon.Add(12 * time.Hour), "", "third"}, {noon.Add(-time.Hour), "", "before"},
	}}
	placed := c.PlacedMarks()
	require.Len(t, placed, 3)
	require.Equal(t, "first", placed[0].Text)
	require.Less(t, placed[0].Y, placed[1].Y)
	require.Equal(t, placed[0].Y, placed[2].Y)
	require.Equal(t, 3, placed[2].Number)
}

func TestTheLargestSeriesHaveColoursAndTheOthersAreOne(t *testing.T) {
	t.Parallel()
	all := []line{{Name: "a", Points: []int64{5, 5}}, {Name: "b", Points: []int64{2, 2}}, {Name: "c", Points: []int64{1, 0}}, {Name: "d", Points: []int64{0, 1}}}
	require.Equal(t, []line{{"a", 1, []int64{5, 5}}, {"b", 2, []int64{2, 2}}, {"others", 0, []int64{1, 1}}}, stacked(all, 2, "others"))
	require.Len(t, stacked(all, 4, "others"), 4)
}

func TestWiderStepsKeepTheSum(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int64{1, 5, 9}, wider([]int64{1, 2, 3, 4, 5}, 2))
}
