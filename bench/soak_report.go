package main

import (
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"
)

// soakWindow is the length of the two windows that are compared: the window after soakWarm, and
// the end of the run.
const soakWindow = 5 * time.Minute

// between returns the values of a series in a part of the run.
func between(series []point, from, to time.Duration) (values spread) {
	for _, p := range series {
		if p.at >= from && p.at < to {
			values = append(values, p.value)
		}
	}
	return values
}

// windows returns the values of a series in the two windows that are compared.
func (s *soak) windows(name string) (first, last spread) {
	warm, length := soakWarm, soakWindow
	if s.soak < warm+2*length { // a short run, to try the test
		warm, length = s.soak/3, s.soak/3
	}
	return between(s.series[name], warm, warm+length), between(s.series[name], s.soak-length, s.soak+time.Hour)
}

func (s *soak) markdown() string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Soak\n\n%s The load: %s with %d dead letters of 1 KB a second, lists and searches every second, two single retries\n"+
		"a second, a bulk retry of everything pending every 20 seconds, and the archive every minute. One API, one worker,\n"+
		"PostgreSQL, Temporal, the broker and the load share the machine. Messages are archived after two minutes and purged\n"+
		"after four, so the tables reach their size before the fifth minute.\n\n![the run as charts](soak.svg)\n\n", s.madeBy(), s.soak, s.soakRate)
	t.WriteString("| | median, minutes 5 to 10 | median, last 5 minutes | ratio | p99, minutes 5 to 10 | p99, last 5 minutes |\n|---|---|---|---|---|---|\n")
	for _, name := range s.names {
		first, last := s.windows(name)
		if len(first) == 0 || len(last) == 0 {
			continue
		}
		ratio := "–"
		if first.median() > 0 {
			ratio = fmt.Sprintf("%.2f", last.median()/first.median())
		}
		p99 := "– | –"
		if strings.HasSuffix(name, ", ms") {
			p99 = count(first.sorted().quantile(0.99)) + " | " + count(last.sorted().quantile(0.99))
		}
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s |\n", name, count(first.median()), count(last.median()), ratio, p99)
	}
	t.WriteString("\nRequests that failed: ")
	if len(s.failed) == 0 {
		t.WriteString("none")
	}
	for i, what := range slices.Sorted(maps.Keys(s.failed)) {
		if i > 0 {
			t.WriteString(", ")
		}
		fmt.Fprintf(&t, "%d × %s", s.failed[what], what)
	}
	t.WriteString(".\n\n")
	machine := s.machine()
	for _, line := range machine[:len(machine)-1] { // the last line is about rows
		t.WriteString("- " + line + "\n")
	}
	return t.String()
}

// Dimensions of one chart of the page, in pixels.
const (
	soakColumns = 3
	soakWidth   = 280
	soakHeight  = 110
)

// chart draws each series in a chart of its own, from zero to its highest value.
func (s *soak) chart() string {
	rows := (len(s.names) + soakColumns - 1) / soakColumns
	var t strings.Builder
	fmt.Fprintf(&t, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" `+
		`font-family="system-ui, sans-serif" font-size="11">`+"\n",
		soakColumns*soakWidth, rows*soakHeight)
	t.WriteString(`<title>The soak run</title><style>text{fill:#1f2328}polyline{fill:none;stroke:#2da44e}line{stroke:#656d76}` +
		`@media (prefers-color-scheme:dark){text{fill:#e6edf3}line{stroke:#9198a1}}</style>` + "\n")
	for i, name := range s.names {
		x, y := float64(i%soakColumns*soakWidth+8), float64(i/soakColumns*soakHeight)
		width, height := float64(soakWidth-16), float64(soakHeight-40)
		minutes := s.medians(name)
		highest := 0.0
		for _, p := range minutes {
			highest = max(highest, p.value)
		}
		fmt.Fprintf(&t, `<text x="%.0f" y="%.0f">%s: at most %s</text>`+"\n", x, y+16, html.EscapeString(name), count(highest))
		fmt.Fprintf(&t, `<line x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f"/>`+"\n", x, y+24+height, x+width, y+24+height)
		t.WriteString(`<polyline points="`)
		for _, p := range minutes {
			fmt.Fprintf(&t, "%.1f,%.1f ", x+width*p.at.Seconds()/s.soak.Seconds(), y+24+height*(1-p.value/max(highest, 1e-9)))
		}
		t.WriteString(`"/>` + "\n")
	}
	t.WriteString("</svg>\n")
	return t.String()
}

// medians returns the median of each half minute, so that single values do not hide the trend.
func (s *soak) medians(name string) (points []point) {
	const step = 30 * time.Second
	for at := time.Duration(0); at < s.soak; at += step {
		if values := between(s.series[name], at, at+step); len(values) > 0 {
			points = append(points, point{at + step/2, values.median()})
		}
	}
	return points
}
