// Command bench measures the manager with real services, which it starts in a temporary folder: PostgreSQL
// with the durability of production, Temporal's development server, an in-process Kafka broker, and for
// some rows the released programs. Most rows of its table are ratios to a baseline. The measurements of
// both sides alternate, so that a slow or busy machine slows both sides down.
//
//	go run ./bench                  everything, about half an hour
//	go run ./bench -quick           a fiftieth of the sizes; fails if a stable line is beyond its bound
//	go run ./bench -rows 1,4 -runs 9
//	go run ./bench -soak 30m        everything at once, to see what grows
//
// The table goes to the standard output. The folder -out gets the table and the chart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the sizes of a run.
type options struct {
	runs  int
	quick bool
	rows  []int
	// out is the folder of bench.md and bench.svg; empty writes neither.
	out string
	// profile is the folder of profiles and statement statistics. It is empty by default, since they cost a
	// few percent of the speed.
	profile string

	// Numbers of messages: messages in a bulk retry, few in a short bulk retry, and stored in the large
	// table. In row 3, single messages have a workflow each.
	messages, few, stored, single int
	lanes                         int
	// command is the command line that makes the report, commit is the measured code.
	command, commit string
	// beside is how many messages of another topic are in the tables of rows 1, 3, 4, 5 and 15. They have no payloads.
	beside int
	// bare leaves out payloads and bodies of the large table, for rows that do not read
	// them.
	bare bool
	// soak is how long the soak test lasts, which replaces the rows; 0 for no soak test. soakRate is how
	// many dead letters arrive each second in the soak test.
	soak     time.Duration
	soakRate int
	// calls is how many calls are timed in each run of a row that measures single calls.
	calls int
}

// quickDivisor is the divisor of the sizes with -quick.
const quickDivisor = 50

// measurements are the rows in the order of their measurement. The rows of an element share their preparation.
var measurements = []struct {
	rows    []int
	measure func(*bench, context.Context) error
}{
	{[]int{1, 3, 4, 15}, (*bench).measureBulk},
	{[]int{6}, (*bench).measureIngest},
	{[]int{20}, (*bench).measureSchemas},
	{[]int{22}, (*bench).measureEndpoint},
	{[]int{21}, (*bench).measureHandIn},
	{[]int{23}, (*bench).measureTracing},
	{[]int{7}, (*bench).measureSingle},
	{[]int{8}, (*bench).measureCrash},
	{[]int{11}, (*bench).measureScale},
	{[]int{12}, (*bench).measureRate},
	{[]int{13}, (*bench).measureLarge},
	{[]int{9}, (*bench).measureLists},
	{[]int{14, 19}, (*bench).measureFlat},
	{[]int{25}, (*bench).measureConsole},
	{[]int{16}, (*bench).measureLanes},
	{[]int{17}, (*bench).measureChanges},
	{[]int{24}, (*bench).measureArchive},
	{[]int{18}, (*bench).measureAccess},
	{[]int{5, 10}, (*bench).measureMemory}, // the last measurement, since it closes the large table
}

// allRows are the numbers of the rows, sorted.
func allRows() (rows []int) {
	for _, group := range measurements {
		rows = append(rows, group.rows...)
	}
	slices.Sort(rows)
	return rows
}

func parse(args []string, progress io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.runs, "runs", 5, "how often each side of a row is measured (-quick: 1)")
	flags.BoolVar(&o.quick, "quick", false, "a fiftieth of the sizes, as a smoke test")
	rows := flags.String("rows", "", "only these rows, such as 1,4,7")
	flags.StringVar(&o.out, "out", "docs", "folder for bench.md and bench.svg; empty for none (-quick: none)")
	flags.StringVar(&o.profile, "profile", "", "folder for CPU profiles and statement statistics")
	flags.IntVar(&o.messages, "messages", 200_000, "messages of a bulk retry")
	flags.IntVar(&o.few, "few", 20_000, "messages of a short bulk retry")
	flags.IntVar(&o.stored, "stored", 2_000_000, "messages in a large table")
	flags.IntVar(&o.beside, "beside", 0, "messages of another topic in the tables of rows 1, 3, 4, 5 and 15")
	flags.BoolVar(&o.bare, "bare", false, "a large table without payloads and bodies, for rows 14 and 19")
	flags.IntVar(&o.single, "single", 400, "messages that get a workflow each")
	flags.IntVar(&o.lanes, "lanes", 4, "lanes of a bulk retry, and connections of the ingest")
	flags.DurationVar(&o.soak, "soak", 0, "instead of the rows, load everything at once for this time; write soak.md and soak.svg")
	flags.IntVar(&o.soakRate, "soak-rate", 200, "dead letters that arrive each second of -soak")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.calls = 20
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.quick {
		for name, size := range map[string]*int{"messages": &o.messages, "few": &o.few, "stored": &o.stored, "single": &o.single} {
			if !given[name] {
				*size /= quickDivisor
			}
		}
		if !given["runs"] {
			o.runs = 1
		}
		o.calls = 5
		if !given["out"] {
			o.out = ""
		}
	}
	for _, field := range strings.FieldsFunc(*rows, func(r rune) bool { return r == ',' || r == ' ' }) {
		number, err := strconv.Atoi(field)
		if err != nil || !slices.Contains(allRows(), number) {
			return o, fmt.Errorf("-rows: there is no row %q, only %v", field, allRows())
		}
		o.rows = append(o.rows, number)
	}
	if min(o.runs, o.messages, o.few, o.stored, o.single, o.lanes, o.soakRate) < 1 {
		return o, errors.New("sizes must be at least 1")
	}
	return o, nil
}

// wants tells whether one of the rows is selected.
func (o *options) wants(rows ...int) bool {
	return len(o.rows) == 0 || slices.ContainsFunc(rows, func(row int) bool { return slices.Contains(o.rows, row) })
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	o.command, o.commit = command(args), commit(ctx)
	b, err := newBench(ctx, o, progress)
	if err != nil {
		return err
	}
	defer b.close()
	if o.soak > 0 {
		s, err := b.runSoak(ctx)
		if err != nil {
			return err
		}
		return s.write(out)
	}
	for _, group := range measurements {
		if !o.wants(group.rows...) {
			continue
		}
		if err := group.measure(b, ctx); err != nil {
			return fmt.Errorf("rows %v: %w", group.rows, err)
		}
	}
	slices.SortStableFunc(b.rows, func(x, y row) int { return x.number - y.number })
	text := b.markdown()
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if o.quick {
		if err := b.regressions(); err != nil {
			return fmt.Errorf("a line is worse than in all runs before:\n%w", err)
		}
	}
	if o.out == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(o.out, "bench.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "bench.svg"), []byte(chart(b.rows)), 0o644)
}
