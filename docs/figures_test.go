package docs_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Measured figures have one home, bench.md. Other pages may have them only between these marks, where `make docs-figures`
// writes them.
const (
	figuresBegin = "<!-- figures: %s -->\n"
	figuresEnd   = "<!-- end of figures -->\n"
)

var writeFigures = flag.Bool("write-docs", false, "write the figures of bench.md into the other pages instead of comparing them")

// result is a row of bench.md.
type result struct{ number, title, ours, base, ratio, target, met string }

// chosen selects the rows of bench.md that have this number and a title with this text.
type chosen struct{ number, title string }

// claims are the rows for the promises of README. planned are the rows from which people compute the size of an installation.
var (
	claims = []chosen{
		{"1", ""},
		{"8", "from the SIGKILL"},
		{"8", "sent twice"},
		{"9", "page at the end"},
		{"10", "peak memory"},
		{"14", "summary"},
	}
	planned = []chosen{
		{"6", "batches of 500, each durable; baseline: pgx COPY of the same rows in the same batches"},
		{"6", "decodes in the same batches"},
		{"1", ""},
		{"7", "tuned"},
		{"10", "peak memory"},
		{"13", ""},
		{"14", ""},
	}
)

// figures are the pages with figures, and the functions that make the text between their marks.
var figures = []struct {
	file, name string
	text       func(t *testing.T, report string) string
}{
	{"../README.md", "claims", func(t *testing.T, report string) string { t.Helper(); return table(pick(t, report, claims)) }},
	{"../README.md", "missed", func(t *testing.T, report string) string { t.Helper(); return table(missed(t, report)) }},
	{"sizing.md", "planned", func(t *testing.T, report string) string { t.Helper(); return table(pick(t, report, planned)) }},
	{"sizing.md", "disk", disk},
}

func TestFiguresInThePagesAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	report := read(t, "bench.md")
	for _, f := range figures {
		page, begin := read(t, f.file), fmt.Sprintf(figuresBegin, f.name)
		before, rest, found := strings.Cut(page, begin)
		require.True(t, found, "%s lacks %q", f.file, begin)
		got, after, found := strings.Cut(rest, figuresEnd)
		require.True(t, found, "%s lacks %q", f.file, figuresEnd)
		want := f.text(t, report)
		if *writeFigures {
			require.NoError(t, os.WriteFile(f.file, []byte(before+begin+want+figuresEnd+after), 0o644))
			continue
		}
		require.Equal(t, want, got, "%s differs from bench.md: run `make docs-figures`", f.file)
	}
}

func TestEveryRowHasATarget(t *testing.T) {
	t.Parallel()
	for _, r := range results(t, read(t, "bench.md")) {
		require.NotEqual(t, "–", r.target, "row %s: %s", r.number, r.title)
	}
}

// measured finds figures that look measured: comparisons, and rates, sizes and times in a unit that the configuration does not
// use. The configuration has limits in MiB, and timeouts in whole seconds.
var measured = regexp.MustCompile(`[0-9.,]*[0-9](/s\b| (ms|µs|KB|MB|GB|TB)\b| s after|( %| times)? (faster|slower)\b| times as | B (a message|less|more)\b)|` +
	`[0-9.,]*,[0-9]{3}( [a-z]+){0,2} a second\b|[0-9]+\.[0-9]+ s\b|\bp(50|95|99) [0-9.]+`)

// sizeOfValue matches a size that is chosen and not measured.
var sizeOfValue = regexp.MustCompile(`(messages?|letters?|values?|stack|payload) of [0-9]+ (KB|MB)`)

// notMeasured are the exceptions on each page: sizes of downloads, and values of the configuration.
var notMeasured = map[string][]string{
	"access.md":      {"the second 50 ms after the first"},
	"archive.md":     {"longer than 8 ms"},
	"development.md": {"400 MB of heap", "Keycloak (180 MB)", "the registry (140 MB)"},
	"schemas.md":     {"`schema_registry.ingest_timeout` (200 ms)", "up to 50 MB of memory"},
}

func TestNoPageHasMeasuredFiguresOfItsOwn(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../README.md", "../CHANGELOG.md") {
		if page == "bench.md" || page == "soak.md" {
			continue
		}
		for number, line := range prose(read(t, page)) {
			found := measured.FindString(sizeOfValue.ReplaceAllString(line, ""))
			isAllowed := slices.ContainsFunc(notMeasured[page], func(allowed string) bool { return strings.Contains(line, allowed) })
			if found != "" && !isAllowed {
				t.Errorf("%s:%d: %q in %q looks like a measured figure, which grows old here. Say it in words with a link to its row in "+
					"bench.md, or let `make docs-figures` write it (figures_test.go). If it is a value of the configuration, add the line to notMeasured.",
					page, number, found, line)
			}
		}
	}
}

func TestFiguresThatLookMeasuredAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"continues 3.6 s after kill -9": true, "the worker takes 64 MB": true, "10,900 messages a second": true, "13,105/s": true,
		"PostgreSQL uses 50 µs less": true, "ingest was 6.0 times slower": true, "36 ms, p99 76 ms": true, "510 B a message": true,
		"a lane holds 64 MiB": false, "`rate_limit`: 50 messages a second": false, "after 30 s": false, "pages of 100 messages": false,
		"10,000 dead letters a day": false,
	} {
		require.Equal(t, want, measured.MatchString(text), text)
	}
}

// prose yields the numbered lines that are not part of examples or of generated figures.
func prose(page string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		isExample, isGenerated, number := false, false, 0
		for line := range strings.Lines(page) {
			number++
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				isExample = !isExample
			case strings.HasPrefix(line, "<!-- figures: "):
				isGenerated = true
			case line == figuresEnd:
				isGenerated = false
			case !isExample && !isGenerated && !yield(number, strings.TrimSpace(line)):
				return
			}
		}
	}
}

// results are the rows of the report.
func results(t *testing.T, report string) (rows []result) {
	t.Helper()
	for line := range strings.Lines(report) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if _, err := strconv.Atoi(strings.TrimSpace(cells[0])); err != nil {
			continue
		}
		require.Len(t, cells, 7, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, result{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]})
	}
	require.NotEmpty(t, rows)
	return rows
}

// pick returns the chosen rows, in the order of the choices.
func pick(t *testing.T, report string, choices []chosen) (picked []result) {
	t.Helper()
	rows := results(t, report)
	for _, c := range choices {
		before := len(picked)
		for _, r := range rows {
			if r.number == c.number && strings.Contains(r.title, c.title) {
				picked = append(picked, r)
			}
		}
		require.Greater(t, len(picked), before, "bench.md has no row %s with %q: measure it, or choose another one in figures_test.go", c.number, c.title)
	}
	return picked
}

// missed returns the rows that miss their target.
func missed(t *testing.T, report string) []result {
	t.Helper()
	return slices.DeleteFunc(results(t, report), func(r result) bool { return r.met != "**no**" })
}

// span matches the lowest and the highest value of the runs, which are written after the median.
var span = regexp.MustCompile(` \[[^\]]*\]`)

func table(rows []result) string {
	var s strings.Builder
	s.WriteString("| row | measured | result | baseline | ratio | target |\n|--:|---|---|---|---|---|\n")
	for _, r := range rows {
		title, baseline, _ := strings.Cut(r.title, "; baseline: ")
		ours, base, ratio := span.ReplaceAllString(r.ours, ""), span.ReplaceAllString(r.base, ""), span.ReplaceAllString(r.ratio, "")
		if base == "–" { // without a baseline, the ratio is the value itself
			ours, baseline, ratio = ratio, base, base
		} else {
			baseline += ": " + base
		}
		fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %s |\n", r.number, title, ours, baseline, ratio, r.target)
	}
	return s.String()
}

// sizes matches the sizes of the tables in the notes of row 24.
var sizes = regexp.MustCompile(`- Row 24: archive: .*dlq_message_bodies ([0-9]+) MB, its indexes ([0-9]+) MB; ` +
	`dlq_messages ([0-9]+) MB, its indexes ([0-9]+) MB; dlq_messages_archive ([0-9]+) MB, its indexes ([0-9]+) MB`)

// disk describes the disk space of messages, computed from the sizes of the tables in row 24.
func disk(t *testing.T, report string) string {
	t.Helper()
	found := sizes.FindStringSubmatch(report)
	require.NotNil(t, found, "bench.md has no sizes of row 24")
	messages := regexp.MustCompile(`single retry \(the three steps\) while ([0-9,]+) messages are archived`).FindStringSubmatch(report)
	require.NotNil(t, messages, "bench.md has no row 24")
	number := func(text string) float64 {
		value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		require.NoError(t, err)
		return value
	}
	// perMessage is in KB, rounded up.
	perMessage := func(megabytes ...string) float64 {
		sum := 0.0
		for _, m := range megabytes {
			sum += number(m)
		}
		return math.Ceil(sum * 1000 / number(messages[1]))
	}
	live, archived := perMessage(found[1:5]...), perMessage(found[1], found[2], found[5], found[6])
	gigabytes := 10_000 * (live*30 + archived*(365-30)) / 1e6
	return fmt.Sprintf("A message of 1 KB takes at most %[1]g KB in the main tables and %[2]g KB in the archive (the notes of row 24 have the sizes).\n"+
		"So:\n\n    disk = dead letters a day × (%[1]g KB × archive.retention + %[2]g KB × (archive.purge_after − archive.retention))\n\n"+
		"With the defaults of 30 days and 365 days, 10,000 dead letters a day of 1 KB take %.0f GB, 1,000,000 take %.1f TB.\n",
		live, archived, gigabytes, gigabytes/10)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
