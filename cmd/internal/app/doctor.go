package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"dlqmanager/config"
)

const doctorHelp = `dlq-api doctor looks at the configuration, the database, Kafka with the permissions, Temporal, the
Schema Registry and the HTTP endpoints. It says for each finding what to do. It changes nothing,
and takes at most half a minute.

Usage:
  dlq-api [-config FILE] doctor [-json] [-strict]

Flags:
  -json    print one object: {"healthy": …, "findings": [{"check": …, "level": …, "what": …, "do": …}]}
  -strict  warnings count as failures

The level is ok, warn or fail. In CI: dlq-api doctor -strict
Exit codes: 0 if a program would work, 1 if it would not, 2 for a usage error.
`

// doctorTimeout limits all checks of one dependency together, so that a dependency that hangs is a single finding.
const doctorTimeout = 10 * time.Second

// The levels of findings.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail" // a program would not work
)

// finding is the result of one check.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	What  string `json:"what"`
	// Do is the advice. It is empty if nothing is wrong.
	Do string `json:"do,omitempty"`
}

func (f finding) String() string {
	level := f.Level
	if level == levelFail {
		level = "FAIL"
	}
	text := fmt.Sprintf("%-4s  %s: %s\n", level, f.Check, f.What)
	if f.Do != "" {
		text += "      → " + f.Do + "\n"
	}
	return text
}

// findings are the findings about a dependency.
type findings []finding

func (f *findings) ok(check, format string, args ...any) {
	*f = append(*f, finding{check, levelOK, fmt.Sprintf(format, args...), ""})
}

func (f *findings) warn(check, what, do string) { *f = append(*f, finding{check, levelWarn, what, do}) }

func (f *findings) fail(check, what, do string) { *f = append(*f, finding{check, levelFail, what, do}) }

// Doctor checks the configuration and every dependency, and writes findings with advice. It changes nothing. The error has the
// number of failures.
func Doctor(ctx context.Context, args []string, load func() (*config.Config, error), out io.Writer) error {
	flags := flag.NewFlagSet("dlq-api doctor", flag.ContinueOnError)
	asJSON, strict := flags.Bool("json", false, ""), flags.Bool("strict", false, "")
	if err := ParseFlags(flags, args, doctorHelp, out); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return &UsageError{Command: flags.Name(), Problem: fmt.Sprintf("unexpected argument %q", flags.Arg(0))}
	}
	found := examine(ctx, load)
	levels := map[string]int{}
	for _, f := range found {
		levels[f.Level]++
	}
	healthy := levels[levelFail] == 0 && (!*strict || levels[levelWarn] == 0)
	var text strings.Builder
	if *asJSON {
		encoder := json.NewEncoder(&text)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(map[string]any{"healthy": healthy, "findings": found}); err != nil {
			return err
		}
	} else {
		for _, f := range found {
			text.WriteString(f.String())
		}
	}
	if err := write(out, text.String()); err != nil {
		return err
	}
	if !healthy {
		return fmt.Errorf("doctor: failures: %d, warnings: %d", levels[levelFail], levels[levelWarn])
	}
	return nil
}

// examine checks all dependencies in parallel. If the configuration is invalid, it checks no dependency.
func examine(ctx context.Context, load func() (*config.Config, error)) findings {
	cfg, err := load()
	if err == nil {
		err = cfg.CheckFiles()
	}
	var p *parts
	if err == nil {
		p, err = assemble(cfg, "doctor", io.Discard)
	}
	if err != nil {
		var f findings
		f.failConfiguration(err)
		return f
	}
	defer p.close()
	checks := []func(context.Context, *findings){
		p.examineConfiguration, p.examineDatabase, p.examineKafka, p.examineTemporal, p.examineRegistry, p.examineEndpoints,
	}
	return gather(ctx, doctorTimeout, checks, func(ctx context.Context, check func(context.Context, *findings)) (f findings) {
		check(ctx, &f)
		return f
	})
}

// maxGathered limits the checks that run in parallel.
const maxGathered = 64

// gather checks several things in parallel. The findings keep the order of the things.
func gather[T any](ctx context.Context, limit time.Duration, things []T, look func(context.Context, T) findings) findings {
	found := make([]findings, len(things))
	var group errgroup.Group
	group.SetLimit(maxGathered)
	for i, thing := range things {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			found[i] = look(ctx, thing)
			return nil
		})
	}
	_ = group.Wait()
	return slices.Concat(found...)
}

func (f *findings) failConfiguration(err error) {
	const do = "correct it; docs/configuration.md explains the keys"
	var problems config.Problems
	if !errors.As(err, &problems) {
		f.fail("configuration", err.Error(), do)
	}
	for _, problem := range problems {
		f.fail("configuration", problem.String(), do)
	}
}
