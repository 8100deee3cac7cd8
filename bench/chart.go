package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Dimensions of the chart, in pixels.
const (
	chartWidth  = 860
	chartLabel  = 330
	chartValue  = 120
	chartRow    = 26
	chartTop    = 54
	chartBottom = 22
	// maxReach is the length at which bars are cut, in multiples of the target.
	maxReach = 3.0
)

// chart draws every row that has a target as a bar. The length of a bar shows how many times better the
// result is than its target. A vertical line marks the target.
func chart(rows []row) string {
	var judged []row
	for _, r := range rows {
		if r.goal != (goal{}) && len(r.judged) > 0 {
			judged = append(judged, r)
		}
	}
	height := chartTop + len(judged)*chartRow + chartBottom
	bars := float64(chartWidth - chartLabel - chartValue)
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`font-family="system-ui, sans-serif" font-size="12">`+"\n", chartWidth, height, chartWidth, height)
	s.WriteString(`<title>Measured ratios and their targets</title>` + "\n" +
		`<style>text{fill:#1f2328}.dim{fill:#656d76}.met{fill:#2da44e}.short{fill:#d29922}line{stroke:#656d76}` +
		`@media (prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}line{stroke:#9198a1}}</style>` + "\n")
	fmt.Fprintf(&s, `<text x="8" y="20" font-size="15" font-weight="600">Each row against its target</text>`+"\n")
	line := chartLabel + bars/maxReach
	fmt.Fprintf(&s, `<text class="dim" x="%.1f" y="%d" text-anchor="middle">target</text>`+"\n", line, chartTop-10)
	for i, r := range judged {
		y := chartTop + i*chartRow
		reach := reachOf(r)
		class := "met"
		if !r.goal.isMet(r.judged.median()) {
			class = "short"
		}
		width := bars * math.Min(reach, maxReach) / maxReach
		fmt.Fprintf(&s, `<text x="8" y="%d">%s</text>`+"\n", y+16, html.EscapeString(fmt.Sprintf("%d  %s", r.number, r.label)))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`+"\n", class, chartLabel, y+3, width, chartRow-8)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s <tspan class="dim">(%s)</tspan></text>`+"\n", chartLabel+width+6, y+16,
			html.EscapeString(r.format(r.judged.median())), html.EscapeString(r.goal.String()))
	}
	fmt.Fprintf(&s, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke-dasharray="3 3"/>`+"\n", line, chartTop-4, line, height-chartBottom)
	fmt.Fprintf(&s, `<text class="dim" x="8" y="%d">`+
		`Longer is better; bars end at %.0f times the target. Numbers are ratios or values, targets in brackets.</text>`+
		"\n</svg>\n", height-6, maxReach)
	return s.String()
}

// reachOf returns how many times better a row is than its target. The value 1 meets the target exactly.
func reachOf(r row) float64 {
	value := r.judged.median()
	if r.goal.atLeast > 0 {
		return value / r.goal.atLeast
	}
	return r.goal.atMost / math.Max(value, r.goal.atMost/1000)
}
