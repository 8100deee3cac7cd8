package ctl

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var writeDocs = flag.Bool("write-docs", false, "write docs/dlqctl.md instead of comparing it")

func TestTheReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	const path = "../../../docs/dlqctl.md"
	page := reference()
	if *writeDocs {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if string(content) != page { // require.Equal would print both texts
		t.Error("docs/dlqctl.md differs from the help of the commands: run make docs-dlqctl")
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	for _, cmd := range commands() {
		require.NotEmpty(t, cmd.Example, cmd.CommandPath())
	}
}

// commands lists the commands that do something, sorted by name.
func commands() []*cobra.Command {
	root := (&session{}).root()
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd != root && !cmd.HasSubCommands() {
			all = append(all, cmd)
		}
	}
	walk(root)
	slices.SortFunc(all, func(a, b *cobra.Command) int { return strings.Compare(a.CommandPath(), b.CommandPath()) })
	return append([]*cobra.Command{root}, all...)
}

// reference is the text of docs/dlqctl.md, from the help of every command.
func reference() string {
	var page, filters strings.Builder
	page.WriteString("# dlqctl\n\n<!-- Written by `make docs-dlqctl` from the help of the commands. -->\n\n")
	for i, cmd := range commands() {
		if i > 0 {
			fmt.Fprintf(&page, "## %s\n\n", cmd.CommandPath())
		}
		text := cmd.Long
		if text == "" {
			text = cmd.Short + "."
		}
		example := strings.ReplaceAll(strings.TrimLeft(cmd.Example, " "), "\n  ", "\n")
		fmt.Fprintf(&page, "%s\n\n```sh\n%s\n```\n\n", text, example)
		rows, choose := flagRows(cmd.LocalFlags())
		if choose != "" {
			filters.Reset()
			filters.WriteString(choose)
			rows += "| [filters](#filters) | choose messages |\n"
		}
		if rows != "" {
			fmt.Fprintf(&page, "| flag | |\n|---|---|\n%s\n", rows)
		}
	}
	fmt.Fprintf(&page, "## Filters\n\nThese flags choose messages. All must match.\n\n| flag | |\n|---|---|\n%s", filters.String())
	return page.String()
}

// flagRows lists the flags of a command. filters are the flags that filter messages.
func flagRows(flags *pflag.FlagSet) (rows, filters string) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name := "--" + flag.Name
		if flag.Shorthand != "" {
			name = "-" + flag.Shorthand + ", " + name
		}
		row := fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(flag.Usage, "|", "\\|"))
		if _, chooses := flag.Annotations[filterAnnotation]; chooses {
			filters += row
		} else {
			rows += row
		}
	})
	return rows, filters
}
